/**
 * Reads back what the ERP holds of documents: the object that the lookup finds, beside the values that the settings want
 * in it. Without other settings those are the JSON that `create` sends.
 */
import {
  compileJsonPath,
  type Document,
  type DocumentKind,
  fieldsOf,
  type Http,
  PathError,
  parseWithDigits,
  type ReadBack,
  type TakenDocument,
} from 'sourcing-bridge/connector';
import { compileFindEntries } from './lookup.ts';
import type { KindSettings } from './settings.ts';
import { jsonTemplate, rootsOf } from './templates.ts';

/** What the ERP holds of one document. Throws when it cannot tell. */
export type ReadOne = (http: Http, delivery: TakenDocument, signal: AbortSignal) => Promise<ReadBack>;

/** Compiles the settings of a kind; undefined where it is not read back. Throws PathError for wrong settings. */
export function compileReadBack(kind: DocumentKind, settings: KindSettings): ReadOne | undefined {
  const { read_back: given, lookup } = settings;
  if (!given) return undefined;
  if (!lookup || lookup.method === 'HEAD') throw new PathError('needs a lookup whose answer shows the object');
  const findEntries = compileFindEntries(kind, settings, lookup);
  const expectedOf = compileExpected(kind, settings);
  const at = given.at === undefined ? (entry: unknown) => entry : compileJsonPath(given.at);
  const [by, time] = [given.changed.by, given.changed.at].map((path) =>
    path === undefined ? () => undefined : compileJsonPath(path),
  );
  return async (http, { document, reference: wanted }, signal) => {
    const { key } = document;
    const found = await findEntries(http, document, signal);
    const live = found.filter(({ isWithdrawn }) => !isWithdrawn);
    const chosen = live.find(({ reference }) => reference === wanted) ?? live[0];
    if (!chosen) {
      const [cancelled] = found;
      return cancelled ? { key, status: 'cancelled', reference: cancelled.reference } : { key, status: 'missing' };
    }
    if (live.length > 1 && chosen.reference !== wanted) {
      const reason = `the ERP holds ${live.length} objects of it: ${live.map(({ reference }) => reference).join(', ')}`;
      return { key, status: 'unclear', reason };
    }
    const { entry, reference } = chosen;
    const expected = expectedOf(document);
    const held = withDigits(at(entry));
    // The whole document has its key: an answer without it is another form of the object.
    if (isWholeDocument(settings) && !hasKey(held, key))
      return { key, status: 'unclear', reason: 'the answer to the lookup is not the document that was sent' };
    const fields = fieldsOf(expected, held, given);
    // A gateway may have answered, or the paths are those of another form.
    if (fields.every((field) => field.held === undefined) && fields.some((field) => field.expected !== undefined))
      return { key, status: 'unclear', reason: 'the answer to the lookup shows none of the values of read_back' };
    const changed = { by: textOf(by?.(entry)), at: textOf(time?.(entry)) };
    const notCompared = kind === 'file' ? { notCompared: ['the bytes of the file'] } : {};
    return { key, status: 'held', reference, fields, changed, ...notCompared };
  };
}

/** The values as JSON has them, each number as its digits. */
function compileExpected(kind: DocumentKind, { read_back: given, create }: KindSettings) {
  const template = given?.fields ?? bodyOf(create);
  if (template === undefined)
    throw new PathError('needs fields: create is no single request with JSON whose values could be compared');
  const valueOf = jsonTemplate(rootsOf(kind), template);
  return (document: Document) => withDigits(valueOf({ document }));
}

/** The JSON that create sends, as a template; undefined where it sends none, or has several steps. */
function bodyOf(create: KindSettings['create']): unknown {
  if (!create || Array.isArray(create)) return undefined;
  const { body = 'document' } = create;
  if (body === 'document') return '{document}';
  return typeof body === 'object' && 'json' in body ? body.json : undefined;
}

function isWholeDocument({ read_back: given, create }: KindSettings): boolean {
  return given?.fields === undefined && bodyOf(create) === '{document}';
}

function hasKey(held: unknown, key: string): boolean {
  return typeof held === 'object' && held !== null && (held as { key?: unknown }).key === key;
}

function withDigits(value: unknown): unknown {
  return value === undefined ? undefined : parseWithDigits(JSON.stringify(value));
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' || typeof value === 'number' ? String(value) : undefined;
}
