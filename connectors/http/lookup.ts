/** Finds what the ERP holds for a document, by the lookup request of the settings. */
import {
  ConfigError,
  compileJsonPath,
  DataError,
  type Document,
  type DocumentKind,
  type Found,
  type Http,
  type HttpResponse,
  type Roots,
  TransientError,
  UnknownOutcome,
} from 'sourcing-bridge/connector';
import { isSameText, referenceText } from './answers.ts';
import { compileQuestion } from './requests.ts';
import type { ContentHashForm, KindSettings, LookupSettings, SearchSettings, StepSettings } from './settings.ts';
import { at, type Captured, rootsOf, type Scope, wholeTextTemplate } from './templates.ts';

type CaptureSettings = NonNullable<StepSettings['capture']>;

/**
 * Compiles the lookup of a kind. Without one, every document counts as held under its key. The function throws when the
 * answer cannot tell what is held.
 */
export function compileFindHeld(kind: DocumentKind, settings: KindSettings) {
  const { lookup } = settings;
  const findEntries = lookup && compileFindEntries(kind, settings, lookup);
  const hashOf = compileHash(lookup?.content_hash);
  return async (http: Http, document: Document, signal: AbortSignal): Promise<Found[]> => {
    const { key } = document;
    // The document has its own URL: another PUT or DELETE brings it into the right state, whatever is there now.
    if (!findEntries) return [{ key, reference: key, contentHash: undefined }];
    const live = (await findEntries(http, document, signal)).filter(({ isWithdrawn }) => !isWithdrawn);
    return live.map(({ response, entry, reference }) => ({ key, reference, contentHash: hashOf(response, entry) }));
  };
}

/** Compiles a lookup that also returns objects that are cancelled. Throws PlacedFault. */
export function compileFindEntries(
  kind: DocumentKind,
  { reference }: Pick<KindSettings, 'reference'>,
  lookup: LookupSettings,
) {
  const search = compileSearch(rootsOf(kind), lookup, 'lookup');
  const isWithdrawn = compileWithdrawn(lookup);
  const referenceOf = compileReferenceOf(lookup, reference);
  return async (http: Http, document: Document, signal: AbortSignal) => {
    const { response, entries } = await search(http, { document }, signal);
    return entries.map((entry) => ({
      response,
      entry,
      reference: referenceOf(entry, document),
      isWithdrawn: isWithdrawn(entry),
    }));
  };
}

/**
 * Compiles the search that tells whether a step has been done, and what it captures then: undefined when it has not.
 * Throws PlacedFault, and the function when the answer cannot tell.
 */
export function compileFindDone(roots: Roots, find: NonNullable<StepSettings['find']>, capture: CaptureSettings) {
  // An answer that is the object itself is whole: in another state the step is not done.
  const ignoresOthers = find.ignore_others || find.list === undefined;
  const search = compileSearch(roots, { ...find, ignore_others: ignoresOthers }, 'find');
  const captureOf = at('capture', () => compileCapture(find.capture ?? capture));
  return async (http: Http, scope: Scope, signal: AbortSignal): Promise<Captured | undefined> => {
    const { entries } = await search(http, scope, signal);
    const found = entries.map((entry) => captureOf(() => entry, 'the found object'));
    const texts = [...new Set(found.map((each) => JSON.stringify(each)))];
    if (texts.length > 1) throw new DataError(`the ERP holds several: ${texts.join(', ')}; leave one of them there`);
    return found[0];
  };
}

/** Compiles paths to single values, by name. The function throws UnknownOutcome where a value is missing. */
export function compileCapture(settings: CaptureSettings) {
  const paths = Object.entries(settings).map(([name, path]) => ({
    name,
    path,
    read: at(name, () => compileJsonPath(path)),
  }));
  return (json: () => unknown, what: string, answered = true): Captured =>
    Object.fromEntries(
      paths.map(({ name, path, read }) => {
        const text = referenceText(read(json()));
        if (text === undefined) throw new UnknownOutcome(`${what} has no value at ${path}`, { answered });
        return [name, text];
      }),
    );
}

/** Compiles a search; the function returns the entries of its answer that meet `where`. */
function compileSearch(roots: Roots, settings: SearchSettings, what: 'lookup' | 'find') {
  const request = compileQuestion(roots, settings);
  const entriesIn = at('list', () => compileEntries(settings));
  const compiledWhere = at('where', () => compileWhere(roots, settings));
  return async (http: Http, scope: Scope, signal: AbortSignal) => {
    const response = await http.request(request(scope, signal));
    if (settings.absent.includes(response.status)) return { response, entries: [] };
    const all = entriesIn(response);
    const entries = all.filter(compiledWhere(scope));
    const { kind, key } = scope.document as Document;
    // The answer may be one page of many objects, so it cannot tell whether the document's object exists.
    if (entries.length < all.length && !settings.ignore_others)
      throw new ConfigError(
        `the ${what} of ${kind} ${key} returned other objects as well: let it ask for this one only, or set ignore_others if it always returns all of them at once`,
      );
    return { response, entries };
  };
}

function compileEntries({ method, list }: SearchSettings): (response: HttpResponse) => readonly unknown[] {
  if (method === 'HEAD') return () => [undefined];
  if (list === undefined)
    return (response) => {
      const found = jsonOf(response);
      // Many servers answer so where they have found nothing.
      return found === null ? [] : [found];
    };
  const read = compileJsonPath(list);
  return (response) => {
    const entries = read(jsonOf(response));
    if (Array.isArray(entries)) return entries as unknown[];
    throw new TransientError(`the answer to the lookup has no list at ${list}`);
  };
}

/** Compiles which entries are meant. The function throws DataError for a document that lacks a value that they must have. */
function compileWhere(roots: Roots, { where }: SearchSettings): (scope: Scope) => (entry: unknown) => boolean {
  const conditions = Object.entries(where).map(([path, texts]) =>
    at(path, () => ({
      read: compileJsonPath(path),
      expected: [texts].flat().map((text) => wholeTextTemplate(roots, text, `\`where\` (${path})`)),
    })),
  );
  return (scope) => {
    const wanted = conditions.map(({ read, expected }) => ({ read, texts: expected.map((text) => text(scope)) }));
    return (entry) => wanted.every(({ read, texts }) => texts.some((text) => isSameText(read(entry), text)));
  };
}

function jsonOf(response: HttpResponse): unknown {
  const json = response.jsonIfAny();
  if (json === undefined)
    throw new TransientError(`the ERP answered ${response.status} to the lookup with a body that is not JSON`);
  return json;
}

function compileWithdrawn({ withdrawn }: LookupSettings): (entry: unknown) => boolean {
  if (!withdrawn) return () => false;
  const read = at('withdrawn', () => at('path', () => compileJsonPath(withdrawn.path)));
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
  const read = at('reference', () => compileJsonPath(path));
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
    const read = at('content_hash', () => at('body', () => compileJsonPath(form.body)));
    return (_response, entry) => textOf(read(entry));
  }
  const name = form.header.toLowerCase();
  return ({ headers }) => textOf(headers[name]?.replaceAll(/^(?:W\/)?"|"$/g, ''));
}
