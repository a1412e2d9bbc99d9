/** What an operator names on the command line: events and suppliers by name, reference or id; documents by all of these. */
import type { ShownDocument } from '#bridge/ledger/attempts/document-rows.ts';
import type { NamedSubject } from '#bridge/mirror/subjects.ts';
import { findDocuments, findSubjects } from '#bridge/operate/history/find-documents.ts';
import { documentKinds } from '#connector/documents.ts';
import { timestampNow } from '#platform/clock.ts';
import { AppError } from '#platform/errors.ts';
import { type BridgeCommand, type BridgeCommandOptions, findFlow } from './bridge-command.ts';
import { oneLine } from './output.ts';

/** The options of commands that take documents by the names of their event and supplier. */
export interface SubjectOptions {
  event?: string[];
  supplier?: string[];
}

/**
 * Returns the ids of the events and suppliers that the options name, in these sources. A text that fits none is taken as
 * an id. With `single`, for commands that write, it throws AppError `invalid` where a name fits several.
 */
export async function subjectIds(
  { database }: Pick<BridgeCommand, 'database'>,
  sources: readonly string[],
  options: SubjectOptions,
  { single = false }: { single?: boolean } = {},
): Promise<{ events?: string[]; suppliers?: string[] }> {
  const idsOf = async (kind: NamedSubject['kind'], texts: readonly string[]) => {
    const ids: string[] = [];
    for (const text of texts) {
      const found = (await Promise.all(sources.map((source) => findSubjects(database, { source, kind, text })))).flat();
      if (single && found.length > 1) throw ambiguous(kind, text, found);
      ids.push(...(found.length > 0 ? found.map(({ id }) => id) : [text.toLowerCase(), text]));
    }
    return ids;
  };
  return {
    ...(options.event && { events: await idsOf('event', options.event) }),
    ...(options.supplier && { suppliers: await idsOf('supplier', options.supplier) }),
  };
}

const shownMost = 10;

function ambiguous(kind: string, text: string, found: readonly NamedSubject[]): AppError {
  const lines = found.slice(0, shownMost).map((subject) => `  ${subject.id}  ${subjectText(subject)}`);
  const more = found.length > shownMost ? [`  and ${found.length - shownMost} more`] : [];
  return new AppError(
    'invalid',
    `"${text}" fits several ${kind}s; name one by its id:\n${[...lines, ...more].join('\n')}`,
  );
}

/** `Chairs (RFQ-4711)`: a name with its reference or external id. */
export function subjectText({ name, reference }: Pick<NamedSubject, 'name' | 'reference'>): string {
  return [oneLine(name), reference === '' ? '' : `(${oneLine(reference)})`].filter(Boolean).join(' ');
}

/** The event and the supplier of a document, as a person knows them; its key where neither has a name. */
export function eventText({ eventName, eventReference, sourcingEvent }: ShownDocument): string | null {
  if (eventName === null) return sourcingEvent;
  return subjectText({ name: eventName, reference: eventReference ?? '' });
}

export function supplierText({ supplierName, supplierExternalId, supplier }: ShownDocument): string | null {
  if (supplierName === null) return supplierExternalId ?? supplier;
  return subjectText({ name: supplierName, reference: supplierExternalId ?? '' });
}

/** The options by which `find`, `history` and `show` choose documents. */
export interface FindCommandOptions extends BridgeCommandOptions {
  flow?: string;
  kind?: string[];
}

/** Finds documents for a command; a word that holds a space is a phrase. Throws AppError `invalid` for a flow or kind that does not exist. */
export async function findForCommand(
  { database, settings, clock }: Pick<BridgeCommand, 'database' | 'settings' | 'clock'>,
  options: FindCommandOptions,
  words: readonly string[],
  limit: number,
) {
  if (options.flow !== undefined) findFlow(settings, options.flow);
  const unknown = options.kind?.find((name) => documentKinds.every((kind) => kind !== name));
  if (unknown !== undefined)
    throw new AppError(
      'invalid',
      `There is no kind of document "${unknown}"; the kinds are: ${documentKinds.join(', ')}.`,
    );
  return findDocuments(database, words, { now: timestampNow(clock), flow: options.flow, kinds: options.kind, limit });
}

/**
 * Returns the one document that the words mean: the only one that fits them, or the one whose key they are. Throws AppError
 * `not-found`, and `invalid` with the documents that fit where there are several.
 */
export async function findOne(
  command: Pick<BridgeCommand, 'database' | 'settings' | 'clock'>,
  options: FindCommandOptions,
  words: readonly string[],
): Promise<ShownDocument> {
  const text = words.join(' ');
  const { documents, hasMore, subjects } = await findForCommand(command, options, words, shownMost);
  const exact = documents.filter(({ key }) => key === text);
  const [only] = exact.length === 1 ? exact : documents;
  if (only && (exact.length === 1 || documents.length === 1)) return only;
  if (documents.length === 0) throw new AppError('not-found', nothingFound(text, subjects));
  const lines = documents.map(
    (document) =>
      `  ${document.flow}  ${document.kind}  ${oneLine(document.key)}  ${[eventText(document), supplierText(document)].filter(Boolean).join(' / ')}`,
  );
  throw new AppError(
    'invalid',
    `"${text}" fits several documents; add a word, --flow or --kind, or name the key:\n${lines.join('\n')}${hasMore ? '\n  and more' : ''}`,
  );
}

/** What to tell a person who looks for a document that does not exist: what is known of the words. */
export function nothingFound(text: string, subjects: readonly NamedSubject[]): string {
  const known = subjects.map((subject) => `  ${subject.kind}  ${subjectText(subject)}  ${subject.id}`);
  if (known.length === 0)
    return `Nothing fits "${text}": no event, supplier, reference or id that the bridge has read. bridge status says how far it has read.`;
  return `No document is about all of "${text}". What the words fit:\n${known.join('\n')}\nA supplier who has won nothing in an event has no award; a flow may take other kinds or events.`;
}
