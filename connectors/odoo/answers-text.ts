/** A supplier's answers as a text. Odoo shows a page in HTML of a user who is no administrator as its source only. */
import { type DocumentOf } from 'sourcing-bridge/connector';

/** In UTF-8, one paragraph for each question. */
export function answersText({ event, supplier, lines }: DocumentOf<'rfi-answers'>): Uint8Array {
  const paragraphs = lines.map(({ question, value, options, currency, comment, files }) => {
    const title = [question.identifier, question.text].filter((part) => part !== undefined).join(' ');
    const answers = [
      ...options.map((option) => `- ${option.value}`),
      ...(value === undefined ? [] : [[value, currency].filter((part) => part !== undefined).join(' ')]),
      ...(comment === undefined ? [] : [`Comment: ${comment}`]),
      ...(files.length === 0 ? [] : [`Files: ${files.join(', ')}`]),
    ];
    return [title, ...answers.map((answer) => indented(answer))].join('\n');
  });
  return Buffer.from([`Answers of ${supplier.name}: ${event.name}`, ...paragraphs, ''].join('\n\n'), 'utf8');
}

/** Further lines of an answer stand further in, so that they are not taken for another one. */
const indented = (answer: string) => `    ${answer.replaceAll('\n', '\n        ')}`;
