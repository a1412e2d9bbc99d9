/**
 * Templates of requests: texts and JSON whose strings hold paths in braces, `{event.name}`. They are compiled once, when
 * the settings are read; a path that no document has is refused then. JSON is made as values and never as text, so that
 * nothing in a document can change what is around it.
 */
import {
  compilePath,
  compileValuePath,
  DataError,
  type Document,
  type DocumentKind,
  documentShape,
  jsonNumber,
  PathError,
  pathSegment,
  type Roots,
  type Shape,
  templateParts,
} from 'sourcing-bridge/connector';

/** What a template is filled from. */
export interface Scope {
  readonly document: Document;
  /** Beside the document's own members; they are told apart by their names. */
  readonly call: Readonly<Record<CallValue, string | undefined>>;
  /** The line of the document, and the entry of any list, that `each` is at. */
  readonly line?: unknown;
  readonly item?: unknown;
}

type CallValue = keyof typeof callValues;

/** What is known of a request, beside its document. */
export const callValues = {
  action: 'create, amend or cancel',
  content_hash: 'SHA-256 of the document',
  idempotency_key: 'the same for every try',
  reference: 'what the ERP called it',
  file_name: "a file's name",
} as const;

/** Of a document that nothing is sent for yet. */
export const noCall: Scope['call'] = {
  action: undefined,
  content_hash: undefined,
  idempotency_key: undefined,
  reference: undefined,
  file_name: undefined,
};

/** What templates of the kind's requests may begin with. */
export function rootsOf(kind: DocumentKind): Roots {
  return { ...callRoots, document: documentShape(kind) };
}

const callRoots: Readonly<Record<string, Shape>> = Object.fromEntries(
  Object.keys(callValues).map((name) => [name, {}]),
);

/** Undefined when a path in it leads to nothing. */
export type TextTemplate = (scope: Scope) => string | undefined;
export type JsonTemplate = (scope: Scope) => unknown;

/** A text with paths in braces; `{{` and `}}` are braces. Throws SettingFault. */
export function textTemplate(roots: Roots, template: string, encode = (text: string) => text): TextTemplate {
  const parts = templateParts(template).map((part) => (typeof part === 'string' ? part : singleOf(roots, part.path)));
  return (scope) => {
    let text = '';
    for (const part of parts) {
      const read = typeof part === 'string' ? part : part(scope);
      if (read === undefined) return undefined;
      text += typeof part === 'string' ? part : encode(read);
    }
    return text;
  };
}

/**
 * The path of a request. What stands in braces becomes a part of it whatever it holds: a `/` or `?` in it leads nowhere
 * else. Gives DataError where a path in it leads to nothing, as the URL would be another one.
 */
export function urlTemplate(roots: Roots, template: string): (scope: Scope) => string {
  if (/[#\s\\]/.test(template.replaceAll(/\{[^{}]*\}/g, ''))) throw new PathError('may hold no blank, # or \\');
  if (!/^[/?]/.test(template)) throw new PathError('must begin with / (it stands behind base_url)');
  const text = textTemplate(roots, template, urlPart);
  return (scope) => {
    const path = text(scope);
    if (path === undefined) throw new DataError(`the path ${template} cannot be made: a part of it leads to nothing`);
    return path;
  };
}

function urlPart(text: string): string {
  // Also what OData and other conventions take for signs of their own.
  return pathSegment(text).replaceAll(/[!'()*]/g, (sign) => `%${sign.charCodeAt(0).toString(16).toUpperCase()}`);
}

/**
 * JSON, as it stands in YAML. A string that is one path in braces gives what stands there, as it is: also a list or an
 * object. `{path as number}` gives a number with each digit. `{ each: lines, as: … }` gives a list. What leads to
 * nothing is left out. Throws SettingFault that says where.
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
  if (typeof each !== 'string') throw new PathError('each must be the path of a list, as lines');
  const { read, shape } = at('each', () => pathOf(roots, each, compilePath));
  if (!shape.items) throw new PathError(`each: ${each} leads to no list`);
  const isLine = each === 'lines';
  const inside = { ...roots, item: shape.items, ...(isLine ? { line: shape.items } : {}) };
  const entry = at('as', () => jsonTemplate(inside, as));
  return (scope) => {
    const { document, call, line } = scope;
    const list = read(scope);
    if (!Array.isArray(list)) return undefined;
    const made: unknown[] = [];
    for (const item of list as unknown[]) {
      const value = entry({ document, call, line: isLine ? item : line, item });
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
    // Money stays what it is: as a JSON number it has every digit.
    return number === undefined ? undefined : jsonNumber(number, path);
  };
}

const forms = ['text', 'number', 'odata'];

/** `line.quantity as number`. */
function formOf(text: string): { path: string; form: string | undefined } {
  const [, path = text, form] = /^(.*?)\s+as\s+(\w+)$/.exec(text) ?? [];
  if (form !== undefined && !forms.includes(form))
    throw new PathError(`: there is no "as ${form}", only ${forms.join(', ')}`);
  return { path, form };
}

/** One value as a text. */
function singleOf(roots: Roots, text: string): TextTemplate {
  const { path, form } = formOf(text);
  if (path === 'document') throw new PathError('{document} leads to several values; go on to one of them');
  const { read } = pathOf(roots, path, compileValuePath);
  return (scope) => {
    const value = read(scope);
    if (value === undefined || value === '') return undefined;
    const plain = typeof value === 'string' ? value : JSON.stringify(value);
    // In a filter of OData a quote inside of quotes stands twice.
    return form === 'odata' ? plain.replaceAll("'", "''") : plain;
  };
}

interface ScopePath {
  readonly read: (scope: Scope) => unknown;
  readonly shape: Shape;
}

function pathOf(roots: Roots, path: string, compile: typeof compilePath): ScopePath {
  // As a whole, with what `lookup` is to give back.
  if (path === 'document')
    return {
      read: ({ document, call }) => ({ content_hash: call.content_hash, ...document }),
      shape: roots.document,
    };
  const [ofEach] = /^(?:line|item)(?=$|[.[])/.exec(path) ?? [];
  if (ofEach !== undefined && !Object.hasOwn(roots, ofEach))
    throw new PathError(`{${path}}: ${ofEach} is known only within each${ofEach === 'line' ? ': lines' : ''}`);
  const { root, read, shape } = named(path, () => compile(roots, path));
  if (root === 'document') return { read: ({ document }) => read(document), shape };
  if (root === 'line') return { read: ({ line }) => read(line), shape };
  if (root === 'item') return { read: ({ item }) => read(item), shape };
  return { read: ({ call }) => call[root as CallValue], shape };
}

function named<T>(path: string, run: () => T): T {
  try {
    return run();
  } catch (error) {
    throw error instanceof PathError ? new PathError(`{${path}} ${error.message}`) : error;
  }
}

/** Says where in the template a fault is. */
function at<T>(place: string | number, run: () => T): T {
  try {
    return run();
  } catch (error) {
    throw error instanceof PathError ? new PlacedFault([place, ...placesOf(error)], error.message) : error;
  }
}

/** A fault in the middle of a template. */
export class PlacedFault extends PathError {
  readonly places: readonly (string | number)[];

  constructor(places: readonly (string | number)[], message: string) {
    super(message);
    this.places = places;
  }
}

export function placesOf(fault: PathError): readonly (string | number)[] {
  return fault instanceof PlacedFault ? fault.places : [];
}
