/** Finds what the ERP holds for a document, by the lookup request of the settings. */
import {
  ConfigError,
  compileJsonPath,
  type Document,
  type DocumentKind,
  type Found,
  type Http,
  type HttpResponse,
  TransientError,
} from 'sourcing-bridge/connector';
import { isSameText, referenceText } from './answers.ts';
import { compileLookup } from './requests.ts';
import type { ContentHashForm, KindSettings, LookupSettings } from './settings.ts';
import { noCall, rootsOf, textTemplate } from './templates.ts';

/** The objects of the document. Throws when the answer cannot tell. */
export type FindHeld = (http: Http, document: Document, signal: AbortSignal) => Promise<Found[]>;

/** An object that the lookup has found. */
export interface HeldEntry {
  readonly response: HttpResponse;
  readonly entry: unknown;
  readonly reference: string;
  readonly isWithdrawn: boolean;
}

/** The objects of the document, also those that are cancelled. Throws when the answer cannot tell. */
export type FindEntries = (http: Http, document: Document, signal: AbortSignal) => Promise<HeldEntry[]>;

/** Compiles the lookup of a kind. Without one, every document counts as held under its key. */
export function compileFindHeld(kind: DocumentKind, settings: KindSettings): FindHeld {
  const { lookup } = settings;
  // The document has its own URL: another PUT or DELETE brings it into the right state, whatever is there now.
  if (!lookup) return async (_http, { key }) => [{ key, reference: key, contentHash: undefined }];
  const findEntries = compileFindEntries(kind, settings, lookup);
  const hashOf = compileHash(lookup.content_hash);
  return async (http, document, signal) =>
    (await findEntries(http, document, signal))
      .filter(({ isWithdrawn }) => !isWithdrawn)
      .map(({ response, entry, reference }) => ({
        key: document.key,
        reference,
        contentHash: hashOf(response, entry),
      }));
}

/** Compiles the request of a lookup, and what its answer shows. */
export function compileFindEntries(
  kind: DocumentKind,
  { reference }: Pick<KindSettings, 'reference'>,
  lookup: LookupSettings,
): FindEntries {
  const request = compileLookup(kind, lookup);
  const entriesIn = compileEntries(lookup);
  const isOurs = compileWhere(kind, lookup);
  const isWithdrawn = compileWithdrawn(lookup);
  const referenceOf = compileReferenceOf(lookup, reference);
  return async (http, document, signal) => {
    const response = await http.request(request(document, signal));
    if (lookup.absent.includes(response.status)) return [];
    const entries = entriesIn(response);
    const ours = entries.filter((entry) => isOurs(entry, document));
    // The answer may be one page of many objects, so it cannot tell whether the document's object exists.
    if (ours.length < entries.length && !lookup.ignore_others)
      throw new ConfigError(
        `the lookup of ${document.kind} ${document.key} returned other objects as well: let it ask for this one only, or set ignore_others if it always returns all of them at once`,
      );
    return ours.map((entry) => ({
      response,
      entry,
      reference: referenceOf(entry, document),
      isWithdrawn: isWithdrawn(entry),
    }));
  };
}

function compileEntries({ method, list }: LookupSettings): (response: HttpResponse) => readonly unknown[] {
  if (method === 'HEAD') return () => [undefined];
  if (list === undefined) return (response) => [jsonOf(response)];
  const read = compileJsonPath(list);
  return (response) => {
    const entries = read(jsonOf(response));
    if (Array.isArray(entries)) return entries as unknown[];
    throw new ConfigError(`the answer to the lookup has no list at ${list}`);
  };
}

function jsonOf(response: HttpResponse): unknown {
  const json = response.jsonIfAny();
  if (json === undefined)
    throw new TransientError(`the ERP answered ${response.status} to the lookup with a body that is not JSON`);
  return json;
}

function compileWhere(kind: DocumentKind, { where }: LookupSettings): (entry: unknown, document: Document) => boolean {
  const roots = rootsOf(kind);
  const conditions = Object.entries(where).map(([path, text]) => ({
    read: compileJsonPath(path),
    expected: textTemplate(roots, text),
  }));
  return (entry, document) =>
    conditions.every(({ read, expected }) => {
      const wanted = expected({ document, call: noCall });
      return wanted !== undefined && isSameText(read(entry), wanted);
    });
}

function compileWithdrawn({ withdrawn }: LookupSettings): (entry: unknown) => boolean {
  if (!withdrawn) return () => false;
  const read = compileJsonPath(withdrawn.path);
  return (entry) => {
    const value = read(entry);
    return withdrawn.is.some((state) => isSameText(value, state));
  };
}

function compileReferenceOf(
  { reference }: LookupSettings,
  form: KindSettings['reference'],
): (entry: unknown, document: Document) => string {
  const path = reference ?? (typeof form === 'object' && 'body' in form ? form.body : undefined);
  if (path === undefined) return (_entry, { key }) => key;
  const read = compileJsonPath(path);
  return (entry) => {
    const text = referenceText(read(entry));
    if (text === undefined) throw new ConfigError(`the object that the lookup found has no reference at ${path}`);
    return text;
  };
}

function compileHash(
  form: ContentHashForm | undefined,
): (response: HttpResponse, entry: unknown) => string | undefined {
  if (form === undefined) return () => undefined;
  const textOf = (value: unknown) =>
    typeof value === 'string' && /^[0-9a-f]{64}$/i.test(value) ? value.toLowerCase() : undefined;
  if ('body' in form) {
    const read = compileJsonPath(form.body);
    return (_response, entry) => textOf(read(entry));
  }
  const name = form.header.toLowerCase();
  return ({ headers }) => textOf(headers[name]?.replaceAll(/^(?:W\/)?"|"$/g, ''));
}
