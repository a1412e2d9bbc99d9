/**
 * Templates of requests: texts and JSON whose strings hold paths in braces, `{event.name}`. They are compiled once, when
 * the settings are read; a path that no document has is refused then. JSON is made as values and never as text, so that
 * nothing in a document can change what is around it.
 */
import {
  DataError,
  type Document,
  type DocumentKind,
  documentJsonSchema,
  jsonNumber,
  pathSegment,
} from 'sourcing-bridge/connector';
import { documentPath, Fault, isSingle, type Shape } from './paths.ts';

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

/** What paths of a template may begin with. */
export interface Shapes {
  readonly document: Shape;
  readonly line?: Shape;
  readonly item?: Shape;
}

/** Undefined when a path in it leads to nothing. */
export type TextTemplate = (scope: Scope) => string | undefined;
export type JsonTemplate = (scope: Scope) => unknown;

/** Making a schema takes longer than compiling all templates of its kind. */
const shapes = new Map<DocumentKind, Shapes>();

export function shapesOf(kind: DocumentKind): Shapes {
  let made = shapes.get(kind);
  if (!made) {
    made = makeShapes(kind);
    shapes.set(kind, made);
  }
  return made;
}

function makeShapes(kind: DocumentKind): Shapes {
  const document = documentJsonSchema(kind) as Shape;
  const lines = document.properties?.['lines'];
  if (kind !== 'rfi-answers' || !lines) return { document };
  const answers = { ...lines, answersIn: 'lines' };
  return { document: { ...document, properties: { ...document.properties, answers } } };
}

/** A text with paths in braces; `{{` and `}}` are braces. Throws Fault. */
export function textTemplate(shapes: Shapes, template: string, encode = (text: string) => text): TextTemplate {
  const parts = partsOf(template).map((part) => (typeof part === 'string' ? part : singleOf(shapes, part.path)));
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
export function urlTemplate(shapes: Shapes, template: string): (scope: Scope) => string {
  if (/[#\s\\]/.test(template.replaceAll(/\{[^{}]*\}/g, ''))) throw new Fault('may hold no blank, # or \\');
  if (!/^[/?]/.test(template)) throw new Fault('must begin with / (it stands behind base_url)');
  const text = textTemplate(shapes, template, urlPart);
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
 * nothing is left out. Throws Fault that says where.
 */
export function jsonTemplate(shapes: Shapes, template: unknown): JsonTemplate {
  if (typeof template === 'string') return stringTemplate(shapes, template);
  if (typeof template !== 'object' || template === null) return () => template;
  if (Array.isArray(template)) {
    const entries = template.map((entry: unknown, index) => at(index, () => jsonTemplate(shapes, entry)));
    return (scope) => entries.map((entry) => entry(scope)).filter((value) => value !== undefined);
  }
  const names = Object.keys(template);
  if (names.length === 2 && 'each' in template && 'as' in template) return eachTemplate(shapes, template);
  const members = Object.entries(template).map(
    ([name, value]) => [name, at(name, () => jsonTemplate(shapes, value))] as const,
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

function eachTemplate(shapes: Shapes, { each, as }: { each: unknown; as: unknown }): JsonTemplate {
  if (typeof each !== 'string') throw new Fault('each must be the path of a list, as lines');
  const { read, shape } = at('each', () => pathOf(shapes, each));
  if (!shape.items) throw new Fault(`each: ${each} leads to no list`);
  const isLine = each === 'lines';
  const inside = { ...shapes, item: shape.items, ...(isLine ? { line: shape.items } : {}) };
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

function stringTemplate(shapes: Shapes, template: string): JsonTemplate {
  const [only, ...others] = partsOf(template).filter((part) => part !== '');
  if (only === undefined || typeof only === 'string' || others.length > 0) return textTemplate(shapes, template);
  const { path, form } = formOf(only.path);
  if (form === undefined) return pathOf(shapes, path).read;
  const text = singleOf(shapes, only.path);
  if (form !== 'number') return text;
  return (scope) => {
    const number = text(scope);
    // Money stays what it is: as a JSON number it has every digit.
    return number === undefined ? undefined : jsonNumber(number, path);
  };
}

type Part = string | { readonly path: string };

function partsOf(template: string): Part[] {
  const parts: Part[] = [];
  let rest = template;
  for (;;) {
    const brace = rest.search(/[{}]/);
    if (brace < 0) return [...parts, rest];
    const double = rest.slice(brace, brace + 2);
    const end = rest.indexOf('}', brace);
    parts.push(rest.slice(0, brace));
    if (double === '{{' || double === '}}') {
      parts.push(double.slice(1));
      rest = rest.slice(brace + 2);
    } else if (rest[brace] === '{' && end > brace) {
      parts.push({ path: rest.slice(brace + 1, end).trim() });
      rest = rest.slice(end + 1);
    } else throw new Fault('has a brace without its other half; write {{ or }} for a brace itself');
  }
}

const forms = ['text', 'number', 'odata'];

/** `line.quantity as number`. */
function formOf(text: string): { path: string; form: string | undefined } {
  const [, path = text, form] = /^(.*?)\s+as\s+(\w+)$/.exec(text) ?? [];
  if (form !== undefined && !forms.includes(form))
    throw new Fault(`: there is no "as ${form}", only ${forms.join(', ')}`);
  return { path, form };
}

/** One value as a text. */
function singleOf(shapes: Shapes, text: string): TextTemplate {
  const { path, form } = formOf(text);
  const { read, shape } = pathOf(shapes, path);
  if (!isSingle(shape)) throw new Fault(`: {${path}} leads to several values; go on to one of them`);
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

function pathOf(shapes: Shapes, path: string): ScopePath {
  // As a whole, with what `lookup` is to give back.
  if (path === 'document')
    return {
      read: ({ document, call }) => ({ content_hash: call.content_hash, ...document }),
      shape: shapes.document,
    };
  if (Object.hasOwn(callValues, path)) {
    const name = path as CallValue;
    return { read: ({ call }) => call[name], shape: {} };
  }
  const [start = ''] = /^(?:line|item)(?=$|[.[])/.exec(path) ?? [];
  if (start === 'line' || start === 'item') {
    const shape = shapes[start];
    if (!shape) throw new Fault(`{${path}}: ${start} is known only within each${start === 'line' ? ': lines' : ''}`);
    const rest = path.slice(start.length).replace(/^\./, '');
    const inner =
      rest === '' ? { read: (value: unknown) => value, shape } : named(path, () => documentPath(shape, rest));
    return { read: (scope) => inner.read(scope[start]), shape: inner.shape };
  }
  const { read, shape } = named(path, () => documentPath(shapes.document, path));
  return { read: ({ document }) => read(document), shape };
}

function named<T>(path: string, run: () => T): T {
  try {
    return run();
  } catch (error) {
    throw error instanceof Fault ? new Fault(`{${path}} ${error.message}`) : error;
  }
}

/** Says where in the template a fault is. */
function at<T>(place: string | number, run: () => T): T {
  try {
    return run();
  } catch (error) {
    throw error instanceof Fault ? new PlacedFault([place, ...placesOf(error)], error.message) : error;
  }
}

/** A fault in the middle of a template. */
export class PlacedFault extends Fault {
  readonly places: readonly (string | number)[];

  constructor(places: readonly (string | number)[], message: string) {
    super(message);
    this.places = places;
  }
}

export function placesOf(fault: Fault): readonly (string | number)[] {
  return fault instanceof PlacedFault ? fault.places : [];
}
