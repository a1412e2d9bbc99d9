/**
 * Paths into documents, as settings write them, and templates: texts with such paths in braces. The bridge's mapping
 * and every connector use the same language. Paths are checked against the documents' JSON Schema when the settings are
 * read, so a path to a member that no document has is refused at the start.
 *
 * Examples: `event.name`, `event.tags[Cost Center]`, `line.values["a[b]"]`, `contacts[1].email`,
 * `answers[1.2].comment`. A list of names and values is indexed by name and returns the value; answers are indexed by
 * the identifier of their question; any other list is indexed by position, from 1.
 */
import { type DocumentKind, documentJsonSchema } from './documents.ts';
import { composed } from './human-text.ts';

/**
 * What is wrong with a path or a template of the settings. The message continues a sentence that begins with its place.
 */
export class PathError extends Error {}

/** The part of JSON Schema that documents use. */
export interface Shape {
  readonly properties?: Readonly<Record<string, Shape>>;
  /** The schema of the values of a record, for example of `fields`. */
  readonly additionalProperties?: Shape | boolean;
  readonly items?: Shape;
  readonly format?: string;
  readonly pattern?: string;
  /** For a list of answers to questions: the document's member that holds it. */
  readonly answersIn?: string;
}

/**
 * What a path may begin with: a member of the document, or another root, such as `line`, that exists where the path is
 * used.
 */
export type Roots = Readonly<Record<string, Shape>> & { readonly document: Shape };

export interface CompiledPath {
  /** The name of the root that `read` takes. */
  readonly root: string;
  /** The value at the path; undefined where the document has none. */
  readonly read: (root: unknown) => unknown;
  /** The schema of that value. */
  readonly shape: Shape;
}

/** By kind. Creating a schema takes longer than compiling all paths of its kind. */
const shapes = new Map<DocumentKind, Shape>();

/** The schema of a kind's documents. RFI answers have `answers` as another name of their `lines`. */
export function documentShape(kind: DocumentKind): Shape {
  let shape = shapes.get(kind);
  if (!shape) {
    shape = withAnswers(kind, documentJsonSchema(kind));
    shapes.set(kind, shape);
  }
  return shape;
}

function withAnswers(kind: DocumentKind, document: Shape): Shape {
  const lines = document.properties?.['lines'];
  if (kind !== 'rfi-answers' || !lines) return document;
  return { ...document, properties: { ...document.properties, answers: { ...lines, answersIn: 'lines' } } };
}

/** Throws PathError when no document of these shapes has such a path. */
export function compilePath(roots: Roots, path: string): CompiledPath {
  const steps = stepsOf(path);
  const [first, ...rest] = steps;
  if (first && 'member' in first && first.member !== 'document') {
    const shape = Object.hasOwn(roots, first.member) ? roots[first.member] : undefined;
    if (shape) return { root: first.member, ...follow(shape, rest, first.member) };
  }
  return { root: 'document', ...follow(roots.document, steps, '') };
}

/** As `compilePath`, for a path to a single value: throws PathError also for a path to a list or an object. */
export function compileValuePath(roots: Roots, path: string): CompiledPath {
  const compiled = compilePath(roots, path);
  const { properties, additionalProperties, items } = compiled.shape;
  if (items) throw new PathError(textOfMissingIndex(compiled.shape, items, path));
  if (properties)
    throw new PathError(`leads to several values; go on with one of ${Object.keys(properties).join(', ')}`);
  if (typeof additionalProperties === 'object')
    throw new PathError(`leads to several values; go on with the name of one, as ${path}.Name`);
  return compiled;
}

/**
 * Compiles a path into JSON that has no schema, such as an ERP's answer. Lists are indexed by position, from 1. A member
 * that has the whole path as its name comes first: `@odata.nextLink` is one name. Throws PathError for a path that is
 * written wrong.
 */
export function compileJsonPath(path: string): (json: unknown) => unknown {
  const steps = stepsOf(path);
  return (json) => {
    const named = memberOf(json, path);
    if (named !== undefined) return named;
    let value = json;
    for (const step of steps) {
      const name = nameOf(step);
      if (Array.isArray(value)) value = /^[1-9]\d*$/.test(name) ? (value[Number(name) - 1] as unknown) : undefined;
      else value = memberOf(value, name);
    }
    return value;
  };
}

/** A part of a template: text that stays as it is, or the path in braces. */
export type TemplatePart = string | { readonly path: string };

/**
 * The parts of a text with paths in braces; `{{` and `}}` are literal braces. Throws PathError for an unmatched brace.
 */
export function templateParts(template: string): TemplatePart[] {
  const parts: TemplatePart[] = [];
  let rest = template;
  for (;;) {
    const brace = rest.search(/[{}]/);
    if (brace < 0) return [...parts, rest].filter((part) => part !== '');
    const double = rest.slice(brace, brace + 2);
    const end = rest.indexOf('}', brace);
    parts.push(rest.slice(0, brace));
    if (double === '{{' || double === '}}') {
      parts.push(double.slice(1));
      rest = rest.slice(brace + 2);
    } else if (rest[brace] === '{' && end > brace) {
      parts.push({ path: rest.slice(brace + 1, end).trim() });
      rest = rest.slice(end + 1);
    } else throw new PathError('has an unmatched brace; write {{ or }} for a literal brace');
  }
}

type Step = { readonly member: string } | { readonly label: string };
type Read = CompiledPath['read'];
type Resolved = Pick<CompiledPath, 'read' | 'shape'>;

function stepsOf(path: string): Step[] {
  // JSON of other systems has such names, too: `@odata.etag` is ["@odata.etag"], `d:name` needs no quotes.
  const form = /(?:^|\.)([A-Za-z_@$][\w@$:-]*)|\[(?:"((?:[^"\\]|\\.)*)"|([^[\]"]+))\]/y;
  const steps: Step[] = [];
  while (form.lastIndex < path.length) {
    const [, member, quoted, label] = form.exec(path) ?? [];
    if (member !== undefined) steps.push({ member });
    else if (quoted !== undefined) steps.push({ label: quoted.replaceAll(/\\(.)/g, '$1') });
    else if (label !== undefined) steps.push({ label: label.trim() });
    else throw new PathError('must be written as event.name or event.tags[Cost Center]');
  }
  if (steps.length === 0) throw new PathError('must not be empty');
  return steps;
}

const identity: Read = (value) => value;

/** Follows the steps through the schema; `place` is the path so far, for messages. */
function follow(shape: Shape, steps: readonly Step[], place: string): Resolved {
  const [step, ...rest] = steps;
  if (step === undefined) return { read: identity, shape };
  const { properties, additionalProperties, items } = shape;
  const name = nameOf(step);
  const inside = 'member' in step ? `${place}${place === '' ? '' : '.'}${name}` : `${place}[${name}]`;
  if (properties) {
    const member = 'member' in step && Object.hasOwn(properties, name) ? properties[name] : undefined;
    if (!member) {
      const members = Object.keys(properties).join(', ');
      const wrong = 'member' in step ? name : `[${name}]`;
      throw new PathError(`leads to nothing: ${place || 'the document'} has no member ${wrong}; it has ${members}`);
    }
    return enter(follow(member, rest, inside), (value) => memberOf(value, member.answersIn ?? name));
  }
  if (typeof additionalProperties === 'object')
    return enter(follow(additionalProperties, rest, inside), (value) => memberOf(value, name));
  if (!items) throw new PathError(`${place} is a single value: nothing can follow it`);
  return inList(shape, items, step, rest, { place, inside });
}

/** Lists whose entries have these members are indexed by `label`; a path that ends there reads `value`. */
const labelledEntries = [
  { label: 'column', value: 'value' },
  { label: 'name', value: 'value' },
  { label: 'code', value: 'exchange_rate' },
];

function membersOfLabelled({ properties = {} }: Shape): (typeof labelledEntries)[number] | undefined {
  return labelledEntries.find(
    ({ label, value }) => Object.hasOwn(properties, label) && Object.hasOwn(properties, value),
  );
}

function textOfMissingIndex(list: Shape, items: Shape, place: string): string {
  if (list.answersIn !== undefined) return `${place} are read by the identifier of their question: ${place}[1.2]`;
  const labelled = membersOfLabelled(items);
  return `${place} is a list: say which with ${place}[${labelled ? `<${labelled.label}>` : '1'}]`;
}

function inList(
  list: Shape,
  items: Shape,
  step: Step,
  rest: readonly Step[],
  { place, inside }: { place: string; inside: string },
): Resolved {
  if ('member' in step) throw new PathError(textOfMissingIndex(list, items, place));
  const { label } = step;
  const labelled = membersOfLabelled(items);
  if (labelled || list.answersIn !== undefined) {
    const resolved = follow(items, rest.length > 0 ? rest : [{ member: labelled?.value ?? 'value' }], inside);
    const labelIn = (entry: unknown) => (labelled ? memberOf(entry, labelled.label) : identifierOf(entry));
    const isLabel = (text: unknown) => typeof text === 'string' && composed(text) === composed(label);
    return enter(resolved, (value) => entriesOf(value).find((entry) => isLabel(labelIn(entry))));
  }
  if (!/^[1-9]\d{0,5}$/.test(label)) throw new PathError(`${place} is read by place: ${place}[1] is the first entry`);
  return enter(follow(items, rest, inside), (value) => entriesOf(value)[Number(label) - 1]);
}

/** Reads `step` of a value first, then what `read` finds in it. */
function enter({ read, shape }: Resolved, step: Read): Resolved {
  if (read === identity) return { read: step, shape };
  return {
    shape,
    read: (value) => {
      const inner = step(value);
      return inner === undefined ? undefined : read(inner);
    },
  };
}

function identifierOf(answer: unknown): unknown {
  return memberOf(memberOf(answer, 'question'), 'identifier');
}

function entriesOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? (value as unknown[]) : [];
}

function memberOf(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null && Object.hasOwn(value, name)
    ? (value as Readonly<Record<string, unknown>>)[name]
    : undefined;
}

function nameOf(step: Step): string {
  return 'member' in step ? step.member : step.label;
}
