/** A supplier's answers as a page, for ERPs that take them as an attachment. */
import type { DocumentOf } from './documents.ts';

/** An HTML page in UTF-8 with one table row per question. All texts are escaped. */
export function answersPage({ event, supplier, lines }: DocumentOf<'rfi-answers'>): Uint8Array {
  const title = `Answers of ${supplier.name}: ${event.name}`;
  const rows = lines.map(({ question, value, options, currency, comment, files }) => {
    const chosen = options.map((option) => `<li>${escapedHtml(option.value)}</li>`).join('');
    const answer = [
      ...(chosen === '' ? [] : [`<ul>${chosen}</ul>`]),
      ...(value === undefined ? [] : [`<span class="value">${escapedHtml(value)}</span>`]),
      ...(currency === undefined ? [] : [`<span class="currency">${escapedHtml(currency)}</span>`]),
    ].join(' ');
    const cells = [
      escapedHtml(question.identifier ?? ''),
      escapedHtml(question.text ?? ''),
      answer,
      escapedHtml(comment ?? ''),
      escapedHtml(files.join(', ')),
    ];
    return `<tr id="${escapedHtml(question.id)}">${cells.map((cell) => `<td>${cell}</td>`).join('')}</tr>`;
  });
  const page = `<!doctype html>
<html>
<head>
<meta charset="utf-8">
<title>${escapedHtml(title)}</title>
<style>body{font-family:sans-serif}td,th{border:1px solid #999;padding:.3em;text-align:left;vertical-align:top}table{border-collapse:collapse}td{white-space:pre-wrap}</style>
</head>
<body>
<h1>${escapedHtml(title)}</h1>
<table>
<tr><th>No.</th><th>Question</th><th>Answer</th><th>Comment</th><th>Files</th></tr>
${rows.join('\n')}
</table>
</body>
</html>
`;
  return Buffer.from(page, 'utf8');
}

const entities: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' };

/** A text as HTML shows it. */
export function escapedHtml(value: string): string {
  return value.replaceAll(/[&<>"]/gu, (character) => entities[character] ?? character);
}
