/** The console's words for people who buy, where the programs have others: docs/glossary.md has both. */

/** States of documents, as they are called here. */
export const stateWords: Readonly<Record<string, string>> = { 'dead letter': 'refused', nothing: 'not wanted' };

/** The field's own word, and what it means: shown where the pointer rests. */
export const terms: Readonly<Record<string, string>> = {
  refused: 'Dead letter: the ERP refused it, or it cannot be made. It waits for another version, or for a person.',
  're-read': 'Backfill: a range of time is read again beside the live reading.',
  copy: 'Mirror: the newest version of each record of a source, in the database of the bridge.',
  'order guaranteed': 'Commit order: the feed promises that records appear in the order in which they were changed.',
  'order checked': 'The feed promises no order: each range is read again until it is proved that nothing is missing.',
  late: 'Late arrival: a record that the feed should have shown earlier, and that only a check found.',
};

/** What to do about a document that was refused, by the class of the error. */
export function refusedTodo(errorType?: string | null): string {
  if (errorType === 'conflict')
    return 'Somebody has changed it in the ERP. Decide which of the two holds; then send it again.';
  return 'Correct what it names, in the ERP or at the service; then send it again.';
}

const sentenceCharactersMax = 240;
const id = /\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b/gi;

/** One sentence of what an ERP said: of a JSON text its message, without ids and without what only programs read. */
export function sentenceOf(words: string): string {
  const said = messageIn(words) ?? words;
  const away = /^HTTP (\d{3})( [A-Za-z ]+)?$/.exec(said.trim());
  if (away) return `The ERP answered with the error ${away[1]}${away[2] ? `,${away[2].toLowerCase()}` : ''}.`;
  const plain = said.replaceAll(id, '…').replaceAll(/\s+/g, ' ').trim();
  const short = plain.length > sentenceCharactersMax ? `${plain.slice(0, sentenceCharactersMax)}…` : plain;
  return /[.!?…)]$/.test(short) ? short : `${short}.`;
}

/** The message of the first JSON object in the text, however deep; undefined without one. */
function messageIn(words: string): string | undefined {
  const from = words.indexOf('{');
  const to = words.lastIndexOf('}');
  if (from < 0 || to < from) return undefined;
  try {
    return findMessage(JSON.parse(words.slice(from, to + 1)));
  } catch {
    return undefined;
  }
}

const messageNames = ['message', 'value', 'detail', 'error_description', 'error', 'title'];

function findMessage(value: unknown): string | undefined {
  if (typeof value === 'string') return value.trim() === '' ? undefined : value;
  if (typeof value !== 'object' || value === null) return undefined;
  const members = value as Readonly<Record<string, unknown>>;
  for (const name of messageNames) {
    const found = findMessage(members[name]);
    if (found !== undefined) return found;
  }
  return undefined;
}

/** A number of the ERP, short: an id by its beginning, a long text by both of its ends. */
export function shortReference(reference: string): string {
  if (/^[0-9a-f]{8}-[0-9a-f]{4}-/i.test(reference)) return `${reference.slice(0, 8)}…`;
  return reference.length <= 24 ? reference : `${reference.slice(0, 14)}…${reference.slice(-8)}`;
}
