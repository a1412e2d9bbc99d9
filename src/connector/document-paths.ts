/**
 * Paths into documents, as settings write them, and texts with such paths in braces; one language for the bridge's
 * mapping and for every connector. They are checked against the documents' JSON Schema when the settings are read, so
 * that a member that no document has is refused then.
 *
 * `event.name`, `event.tags[Cost Center]`, `line.values["a[b]"]`, `contacts[1].email`, `answers[1.2].comment`: a list of
 * names and values is read by name and gives the value, answers by the identifiers of their questions, any other list by
 * place, from 1.
 */
import { type DocumentKind, documentJsonSchema } from './documents.ts';

/** Says what is wrong with a setting, as a path or a template, in words that follow its place. */
export class PathError extends Error {}

/** As much of JSON Schema as documents have. */
export interface Shape {
  readonly properties?: Readonly<Record<string, Shape>>;
  /** Of a record, as `fields`. */
  readonly additionalProperties?: Shape | boolean;
  readonly items?: Shape;
  readonly format?: string;
  readonly pattern?: string;
  /** Of answers to questions: the member that holds them. */
  readonly answersIn?: string;
}

/** What a path may begin at: the document's own members, and `line` or other names that a place of use adds. */
export type Roots = Readonly<Record<string, Shape>> & { readonly document: Shape };

export interface CompiledPath {
  /** The root that `read` has to be given. */
  readonly root: string;
  /** What stands there; undefined where the path leads to nothing. */
  readonly read: (root: unknown) => unknown;
  /** Of what it leads to. */
  readonly shape: Shape;
}

/** Making a schema takes longer than compiling all paths of its kind. */
const shapes = new Map<DocumentKind, Shape>();

/** Of a kind's documents; `answers` of RFI answers are their lines. */
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

/** Throws SettingFault when no document of these shapes has such a path. */
export function compilePath(roots: Roots, path: string): CompiledPath {
  const steps = stepsOf(path);
  const [first, ...rest] = steps;
  if (first && 'member' in first && first.member !== 'document') {
    const shape = Object.hasOwn(roots, first.member) ? roots[first.member] : undefined;
    if (shape) return { root: first.member, ...follow(shape, rest, first.member) };
  }
  return { root: 'document', ...follow(roots.document, steps, '') };
}

/** As `compilePath`, for a path that leads to one value, and neither to a list nor to an object. */
export function compileValuePath(roots: Roots, path: string): CompiledPath {
  const compiled = compilePath(roots, path);
  const { properties, additionalProperties, items } = compiled.shape;
  if (items) throw new PathError(sayWhich(compiled.shape, items, path));
  if (properties)
    throw new PathError(`leads to several values; go on with one of ${Object.keys(properties).join(', ')}`);
  if (typeof additionalProperties === 'object')
    throw new PathError(`leads to several values; go on with the name of one, as ${path}.Name`);
  return compiled;
}

/** A path into JSON that has no schema, as an ERP's answer. Lists are read by place, from 1. Throws SettingFault. */
export function compileJsonPath(path: string): (json: unknown) => unknown {
  const steps = stepsOf(path);
  return (json) => {
    let value = json;
    for (const step of steps) {
      const name = nameOf(step);
      if (Array.isArray(value)) value = /^[1-9]\d*$/.test(name) ? (value[Number(name) - 1] as unknown) : undefined;
      else value = memberOf(value, name);
    }
    return value;
  };
}

/** A part of a template: text that stays as it is, or what stands in braces. */
export type TemplatePart = string | { readonly path: string };

/** Of a text with paths in braces; `{{` and `}}` are braces. Throws SettingFault. */
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
    } else throw new PathError('has a brace without its other half; write {{ or }} for a brace itself');
  }
}

type Step = { readonly member: string } | { readonly label: string };
type Read = CompiledPath['read'];
type Way = Pick<CompiledPath, 'read' | 'shape'>;

function stepsOf(path: string): Step[] {
  // Names as in JSON of other systems, too: `@odata.etag` is ["@odata.etag"], `d:name` needs no quotes.
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

const asItIs: Read = (value) => value;

/** Walks shape and steps together; `place` is where it stands. */
function follow(shape: Shape, steps: readonly Step[], place: string): Way {
  const [step, ...rest] = steps;
  if (step === undefined) return { read: asItIs, shape };
  const { properties, additionalProperties, items } = shape;
  const name = nameOf(step);
  const inside = 'member' in step ? `${place}${place === '' ? '' : '.'}${name}` : `${place}[${name}]`;
  if (properties) {
    const member = 'member' in step && Object.hasOwn(properties, name) ? properties[name] : undefined;
    if (!member) {
      const members = Object.keys(properties).join(', ');
      const wrong = 'member' in step ? name : `[${name}]`;
      throw new PathError(`leads nowhere: ${place || 'the document'} has no member ${wrong}; it has ${members}`);
    }
    return into(follow(member, rest, inside), (value) => memberOf(value, member.answersIn ?? name));
  }
  if (typeof additionalProperties === 'object')
    return into(follow(additionalProperties, rest, inside), (value) => memberOf(value, name));
  if (!items) throw new PathError(`${place} is a single value: nothing can follow it`);
  return inList(shape, items, step, rest, { place, inside });
}

/** What a list of these entries is read by, and what it gives when the path ends there. */
const named = [
  { label: 'column', gives: 'value' },
  { label: 'name', gives: 'value' },
  { label: 'code', gives: 'exchange_rate' },
];

function formOf({ properties = {} }: Shape): (typeof named)[number] | undefined {
  return named.find(({ label, gives }) => Object.hasOwn(properties, label) && Object.hasOwn(properties, gives));
}

function sayWhich(list: Shape, items: Shape, place: string): string {
  if (list.answersIn !== undefined) return `${place} are read by the identifier of their question: ${place}[1.2]`;
  const form = formOf(items);
  return `${place} is a list: say which with ${place}[${form ? `<${form.label}>` : '1'}]`;
}

function inList(
  list: Shape,
  items: Shape,
  step: Step,
  rest: readonly Step[],
  { place, inside }: { place: string; inside: string },
): Way {
  if ('member' in step) throw new PathError(sayWhich(list, items, place));
  const { label } = step;
  const form = formOf(items);
  if (form || list.answersIn !== undefined) {
    const way = follow(items, rest.length > 0 ? rest : [{ member: form?.gives ?? 'value' }], inside);
    const labelIn = (entry: unknown) => (form ? memberOf(entry, form.label) : identifierOf(entry));
    return into(way, (value) => entriesOf(value).find((entry) => labelIn(entry) === label));
  }
  if (!/^[1-9]\d{0,5}$/.test(label)) throw new PathError(`${place} is read by place: ${place}[1] is the first entry`);
  return into(follow(items, rest, inside), (value) => entriesOf(value)[Number(label) - 1]);
}

function into({ read, shape }: Way, enter: Read): Way {
  if (read === asItIs) return { read: enter, shape };
  return {
    shape,
    read: (value) => {
      const inner = enter(value);
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
