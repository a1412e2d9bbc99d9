/**
 * Templates of requests: texts and JSON whose strings have paths in braces, `{event.name}`. They are compiled once,
 * when the settings are read; a path that no document has is refused then. JSON is built as values and never as text,
 * so the text of a document cannot change the structure around it.
 */
import {
  compilePath,
  compileValuePath,
  DataError,
  type DocumentKind,
  documentShape,
  jsonNumber,
  PathError,
  pathSegment,
  type Roots,
  type Shape,
  templateParts,
} from 'sourcing-bridge/connector';

/** The values that fill a template. */
export interface Scope {
  /** The document, or the news of a requisition. */
  readonly document: object;
  /** Values of the request, where it belongs to a write; none has the name of a document's member. */
  readonly call?: Readonly<Partial<Record<CallValue, string | undefined>>>;
  /** What earlier steps have captured, by name. */
  readonly captured?: Captured;
  /** Within `each`: the current line of the document, and the current entry of any list. */
  readonly line?: unknown;
  readonly item?: unknown;
}

export type Captured = Readonly<Record<string, string>>;

/** The ERP's `reference` is of the object that a write changes, `file_name` of a file. */
const callValues = ['action', 'content_hash', 'idempotency_key', 'reference', 'file_name'] as const;
type CallValue = (typeof callValues)[number];

/** What the paths in the templates of a kind's requests may begin with; `captured` are the names that steps capture. */
export function rootsOf(kind: DocumentKind, captured: readonly string[] = []): Roots {
  const properties = Object.fromEntries(captured.map((name) => [name, {}]));
  return { ...callRoots, ...(captured.length > 0 && { captured: { properties } }), document: documentShape(kind) };
}

/** What the paths in the templates of `acknowledge` may begin with. */
export const newsRoots: Roots = {
  idempotency_key: {},
  document: {
    properties: {
      requisition: {},
      status: {},
      event: { properties: { kind: {}, id: {}, name: {}, reference: {}, url: {} } },
      reason: {},
      text: {},
    },
  },
};

const callRoots: Readonly<Record<string, Shape>> = Object.fromEntries(callValues.map((name) => [name, {}]));

/** Undefined when a path in it finds no value. */
export type TextTemplate = (scope: Scope) => string | undefined;
export type JsonTemplate = (scope: Scope) => unknown;

/** Compiles a text with paths in braces; `{{` and `}}` are literal braces. Throws PathError. */
export function textTemplate(roots: Roots, template: string): TextTemplate {
  const fill = filledTemplate(roots, template);
  return (scope) => {
    const filled = fill(scope);
    return typeof filled === 'string' ? filled : undefined;
  };
}

/**
 * As `textTemplate`, for a text that would mean something else without one of its values. The compiled template throws
 * DataError, which says what the document lacks and that `what` needs it.
 */
export function wholeTextTemplate(
  roots: Roots,
  template: string,
  what: string,
  encode?: (text: string) => string,
): (scope: Scope) => string {
  const fill = filledTemplate(roots, template, encode);
  return (scope) => {
    const filled = fill(scope);
    if (typeof filled === 'string') return filled;
    throw new DataError(`${lackText(filled.path, scope.document)}, which ${what} needs`);
  };
}

/** The filled text, or the first path that finds no value. */
function filledTemplate(roots: Roots, template: string, encode = (text: string) => text) {
  const parts = templateParts(template).map((part) =>
    typeof part === 'string' ? part : { path: part.path, read: singleOf(roots, part.path) },
  );
  return (scope: Scope): string | { readonly path: string } => {
    let text = '';
    for (const part of parts) {
      const read = typeof part === 'string' ? part : part.read(scope);
      if (read === undefined) return part;
      text += typeof part === 'string' ? part : encode(read);
    }
    return text;
  };
}

type Lacking = Partial<Record<'kind' | 'key', string> & Record<'event' | 'supplier', { readonly name?: string }>>;

/** Says what has no value at a path: `event "Steel 2027" has no tag "Ariba id"`. */
function lackText(path: string, document: object): string {
  const { kind = 'it', key = '', event, supplier } = document as Lacking;
  const [, owner, inside = path] = /^(event|supplier)\.(.*)$/.exec(path) ?? [];
  const { name } = (owner === 'event' ? event : supplier) ?? {};
  const [who, what] =
    owner === undefined || name === undefined ? [`${kind} ${key}`.trim(), path] : [`${owner} "${name}"`, inside];
  const [, list, label] = /^(tag|field)s(?:\.|\["?)(.*?)(?:"?\])?$/.exec(what) ?? [];
  return `${who} has no ${list === undefined ? what : `${list} "${label}"`}`;
}

/**
 * Compiles the path of a request. Each value in braces is encoded as one part of it: a `/` or `?` in a value cannot
 * change the URL. Throws PathError. The compiled template throws DataError when a path finds no value, because the URL
 * would be another one.
 */
export function urlTemplate(roots: Roots, template: string): (scope: Scope) => string {
  if (/[#\s\\]/.test(template.replaceAll(/\{[^{}]*\}/g, ''))) throw new PathError('must not contain a blank, # or \\');
  if (!/^[/?]/.test(template)) throw new PathError('must begin with / (it is appended to base_url)');
  return wholeTextTemplate(roots, template, `the path ${template}`, urlPart);
}

function urlPart(text: string): string {
  // OData and other conventions give these characters a meaning, too.
  return pathSegment(text).replaceAll(/[!'()*]/g, (sign) => `%${sign.charCodeAt(0).toString(16).toUpperCase()}`);
}

/**
 * Compiles JSON, as it is written in YAML. A string that is only one path in braces becomes the value itself, also a
 * list or an object. `{path as number}` becomes a number with each digit, `{ each: lines, as: … }` a list. A member
 * without a value is left out. Throws PlacedFault, which names the place.
 */
export function jsonTemplate(roots: Roots, template: unknown): JsonTemplate {
  if (typeof template === 'string') return stringTemplate(roots, template);
  if (typeof template !== 'object' || template === null) return () => template;
  if (Array.isArray(template)) {
    const entries = template.map((entry: unknown, index) => at(index, () => jsonTemplate(roots, entry)));
    return (scope) => entries.map((entry) => entry(scope)).filter((value) => value !== undefined);
  }
  const names = Object.keys(template);
  if (names.length === 2 && 'each' in template && 'as' in template) return eachTemplate(roots, template);
  const members = Object.entries(template).map(
    ([name, value]) => [name, at(name, () => jsonTemplate(roots, value))] as const,
  );
  return (scope) => {
    const made: Record<string, unknown> = {};
    for (const [name, member] of members) {
      const value = member(scope);
      if (value === undefined) continue;
      if (name === '__proto__') Object.defineProperty(made, name, { value, enumerable: true });
      else made[name] = value;
    }
    return made;
  };
}

function eachTemplate(roots: Roots, { each, as }: { each: unknown; as: unknown }): JsonTemplate {
  if (typeof each !== 'string') throw new PathError('each must be the path of a list, for example lines');
  const { read, shape } = at('each', () => pathOf(roots, each, compilePath));
  if (!shape.items) throw new PathError(`each: ${each} is not the path of a list`);
  const isLine = each === 'lines';
  const inside = { ...roots, item: shape.items, ...(isLine ? { line: shape.items } : {}) };
  const entry = at('as', () => jsonTemplate(inside, as));
  return (scope) => {
    const list = read(scope);
    if (!Array.isArray(list)) return undefined;
    const made: unknown[] = [];
    for (const item of list as unknown[]) {
      const value = entry({ ...scope, ...(isLine && { line: item }), item });
      if (value !== undefined) made.push(value);
    }
    return made;
  };
}

function stringTemplate(roots: Roots, template: string): JsonTemplate {
  const [only, ...others] = templateParts(template).filter((part) => part !== '');
  if (only === undefined || typeof only === 'string' || others.length > 0) return textTemplate(roots, template);
  const { path, form } = formOf(only.path);
  if (form === undefined) return pathOf(roots, path, compilePath).read;
  const text = singleOf(roots, only.path);
  if (form !== 'number') return text;
  return (scope) => {
    const number = text(scope);
    // The JSON number has every digit of the amount.
    return number === undefined ? undefined : jsonNumber(number, path);
  };
}

const forms = ['text', 'number', 'odata'];

/** Splits `line.quantity as number` into path and form. */
function formOf(text: string): { path: string; form: string | undefined } {
  const [, path = text, form] = /^(.*)(?<!\s)\s+as\s+(\w+)$/.exec(text) ?? [];
  if (form !== undefined && !forms.includes(form))
    throw new PathError(`: there is no "as ${form}", only ${forms.join(', ')}`);
  return { path, form };
}

/** Compiles the path of a single value; the value is read as text. */
function singleOf(roots: Roots, text: string): TextTemplate {
  const { path, form } = formOf(text);
  if (path === 'document') throw new PathError('{document} leads to several values; go on with one of its members');
  const { read } = pathOf(roots, path, compileValuePath);
  return (scope) => {
    const value = read(scope);
    if (value === undefined || value === '') return undefined;
    const plain = typeof value === 'string' ? value : JSON.stringify(value);
    // In an OData filter, a quote inside of quotes is doubled.
    return form === 'odata' ? plain.replaceAll("'", "''") : plain;
  };
}

interface ScopePath {
  readonly read: (scope: Scope) => unknown;
  readonly shape: Shape;
}

function pathOf(roots: Roots, path: string, compile: typeof compilePath): ScopePath {
  // The whole document, with the hash that `lookup` reads.
  if (path === 'document')
    return {
      read: ({ document, call }) => ({ content_hash: call?.content_hash, ...document }),
      shape: roots.document,
    };
  const [ofEach] = /^(?:line|item)(?=$|[.[])/.exec(path) ?? [];
  if (ofEach !== undefined && !Object.hasOwn(roots, ofEach))
    throw new PathError(`{${path}}: ${ofEach} is known only within each${ofEach === 'line' ? ': lines' : ''}`);
  const { root, read, shape } = naming(path, () => compile(roots, path));
  if (root === 'document') return { read: ({ document }) => read(document), shape };
  if (root === 'line') return { read: ({ line }) => read(line), shape };
  if (root === 'item') return { read: ({ item }) => read(item), shape };
  if (root === 'captured') return { read: ({ captured }) => read(captured), shape };
  return { read: ({ call }) => call?.[root as CallValue], shape };
}

/** Puts the path before the message of a PathError. */
function naming<T>(path: string, run: () => T): T {
  try {
    return run();
  } catch (error) {
    throw error instanceof PathError ? new PathError(`{${path}} ${error.message}`) : error;
  }
}

/** Adds the place in the settings to a PathError. */
export function at<T>(place: string | number, run: () => T): T {
  try {
    return run();
  } catch (error) {
    throw error instanceof PathError ? new PlacedFault([place, ...placesOf(error)], error.message) : error;
  }
}

/** The value at a path of a single value, for conditions. Throws PathError. */
export function valueTemplate(roots: Roots, path: string): (scope: Scope) => unknown {
  return pathOf(roots, path, compileValuePath).read;
}

/** A PathError with its place in a JSON template: names of members and indexes. */
export class PlacedFault extends PathError {
  readonly places: readonly (string | number)[];

  constructor(places: readonly (string | number)[], message: string) {
    super(message);
    this.places = places;
  }
}

/** The place of a fault; empty when it has none. */
export function placesOf(fault: PathError): readonly (string | number)[] {
  return fault instanceof PlacedFault ? fault.places : [];
}
