/**
 * A report as a page to print: one HTML file that loads nothing. It shows what the JSON says; the proof is that file with
 * its signature.
 */
import { escapedHtml } from '#connector/answers-page.ts';
import { type ReportContent, statementOf } from './read-report.ts';

type Cell = string | number | null;

/** Returns the page. */
export function reportPage(report: ReportContent, signature: Uint8Array): string {
  const { number, flow, totals, differences, differencesOmitted, notCompared } = report;
  const title = escapedHtml(`Report ${number}: ${flow}`);
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>${title}</title>
<style>${style}</style>
</head>
<body>
<h1>${title}</h1>
<p class="statement">${escapedHtml(statementOf(report))}</p>
${facts(report)}
<h2>Documents and amounts</h2>
${table(
  ['Kind', 'State', 'Documents', 'Delivered', 'Currency'],
  totals.map(({ kind, state, documents, amount, currency }) => [kind, state, documents, amount, currency]),
)}
<h2>Differences</h2>
${table(
  ['Finding', 'Kind', 'In the ERP as', 'Field', 'Delivered', 'The ERP holds', 'Changed by', 'Changed', 'Why', 'Key'],
  differences.map(({ finding, kind, reference, field, expected, held, changedBy, changedAt, reason, key }) => [
    finding,
    kind,
    reference,
    field,
    expected,
    held,
    changedBy,
    changedAt,
    reason,
    key,
  ]),
)}
${differencesOmitted > 0 ? `<p>${differencesOmitted} more are not listed.</p>` : ''}
<h2>Not compared</h2>
${table(
  ['Kind', 'What', 'Why', 'Documents'],
  notCompared.map(({ kind, field, reason, documents }) => [kind, field, reason, documents]),
)}
<h2>Signature</h2>
<p>The proof is the JSON file with its signature, not this page: <code>sourcing-bridge verify-report</code> checks it. Its
signature (Ed25519): <code>${Buffer.from(signature).toString('base64')}</code></p>
</body>
</html>
`;
}

function facts({ source, connector, started, ended, events, values, askedBy }: ReportContent): string {
  const rows: readonly (readonly [string, Cell])[] = [
    ['From', `the source ${source ?? '–'} through the connector ${connector ?? '–'}`],
    ['Compared', `from ${started} to ${ended} (UTC)`],
    ['Documents', events === null ? 'everything that was delivered' : `of the events ${events.join(', ')}`],
    ['Single values', values],
    ['Asked for by', askedBy],
  ];
  return `<dl>\n${rows.map(([name, value]) => `<dt>${name}</dt><dd>${cell(value)}</dd>`).join('\n')}\n</dl>`;
}

function table(titles: readonly string[], rows: readonly (readonly Cell[])[]): string {
  if (rows.length === 0) return '<p>None.</p>';
  const head = titles.map((title) => `<th>${title}</th>`).join('');
  const lines = rows.map((row) => `<tr>${row.map((value) => `<td>${cell(value)}</td>`).join('')}</tr>`);
  return `<table>\n<thead><tr>${head}</tr></thead>\n<tbody>\n${lines.join('\n')}\n</tbody>\n</table>`;
}

function cell(value: Cell): string {
  return value === null || value === '' ? '–' : escapedHtml(String(value));
}

const style = `
body { font: 10pt/1.4 system-ui, sans-serif; color: #111; background: #fff; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 18pt; margin: 0 0 .5rem; }
h2 { font-size: 12pt; margin: 1.5rem 0 .5rem; }
.statement { font-size: 12pt; border-left: 4px solid #111; padding-left: .75rem; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1rem; margin: 0; }
dt { font-weight: 600; }
dd { margin: 0; overflow-wrap: anywhere; }
table { border-collapse: collapse; width: 100%; }
thead { display: table-header-group; }
tr { break-inside: avoid; }
th, td { border: 1px solid #888; padding: .2rem .4rem; text-align: left; vertical-align: top; overflow-wrap: anywhere; }
th { background: #eee; }
code { overflow-wrap: anywhere; }
@media print { body { margin: 0; max-width: none; } @page { margin: 15mm; } }
`;
