/**
 * Paths into documents and answers, written as the bridge's mapping writes them: `event.name`, `event.tags[Cost Center]`,
 * `line.values["a[b]"]`, `contacts[1].email`. Those into documents are checked against the documents' JSON Schema when
 * the settings are read.
 */

/** Says what is wrong with a path or a template, in words that follow it. */
export class Fault extends Error {}

/** As much of JSON Schema as documents have. */
export interface Shape {
  readonly properties?: Readonly<Record<string, Shape>>;
  /** Of a record, as `fields`. */
  readonly additionalProperties?: Shape | boolean;
  readonly items?: Shape;
  /** Answers to questions: a list that stands under another name, and is read by the questions' identifiers. */
  readonly answersIn?: string;
}

type Step = { readonly member: string } | { readonly label: string };
type Read = (value: unknown) => unknown;

export interface DocumentPath {
  readonly read: Read;
  /** Of what it leads to. */
  readonly shape: Shape;
}

/** Throws Fault when no document of this shape has such a path. */
export function documentPath(shape: Shape, path: string): DocumentPath {
  return follow(shape, stepsOf(path), '');
}

/** Whether one value stands there, and neither a list nor an object. */
export function isSingle({ properties, additionalProperties, items }: Shape): boolean {
  return properties === undefined && items === undefined && typeof additionalProperties !== 'object';
}

/** A path into the JSON of an answer, which has no schema. Lists are read by place, from 1. */
export function answerPath(path: string): Read {
  const steps = stepsOf(path);
  return (answer) => {
    let value = answer;
    for (const step of steps) {
      const name = nameOf(step);
      if (Array.isArray(value)) value = /^[1-9]\d*$/.test(name) ? (value[Number(name) - 1] as unknown) : undefined;
      else value = memberOf(value, name);
    }
    return value;
  };
}

function stepsOf(path: string): Step[] {
  const form = /(?:^|\.)([A-Za-z_@$][\w@$:-]*)|\[(?:"((?:[^"\\]|\\.)*)"|([^[\]"]+))\]/y;
  const steps: Step[] = [];
  while (form.lastIndex < path.length) {
    const [, member, quoted, label] = form.exec(path) ?? [];
    if (member !== undefined) steps.push({ member });
    else if (quoted !== undefined) steps.push({ label: quoted.replaceAll(/\\(.)/g, '$1') });
    else if (label !== undefined) steps.push({ label: label.trim() });
    else throw new Fault('must be written as event.name or event.tags[Cost Center]');
  }
  if (steps.length === 0) throw new Fault('must not be empty');
  return steps;
}

const asItIs: Read = (value) => value;

/** Walks shape and steps together; `place` is where it stands. */
function follow(shape: Shape, steps: readonly Step[], place: string): DocumentPath {
  const [step, ...rest] = steps;
  if (step === undefined) return { read: asItIs, shape };
  const { properties, additionalProperties, items } = shape;
  const name = nameOf(step);
  const inside = 'member' in step ? `${place}${place === '' ? '' : '.'}${name}` : `${place}[${name}]`;
  if (properties) {
    const member = 'member' in step && Object.hasOwn(properties, name) ? properties[name] : undefined;
    if (!member) {
      const members = Object.keys(properties).join(', ');
      throw new Fault(`leads nowhere: ${place || 'the document'} has no member ${name}; it has ${members}`);
    }
    return into(follow(member, rest, inside), (value) => memberOf(value, member.answersIn ?? name));
  }
  if (typeof additionalProperties === 'object')
    return into(follow(additionalProperties, rest, inside), (value) => memberOf(value, name));
  if (!items) throw new Fault(`${place} is a single value: nothing can follow it`);
  return inList(shape, items, step, rest, { place, inside });
}

/** What a list of these entries is read by, and what it gives when the path ends there. */
const named = [
  { label: 'column', gives: 'value' },
  { label: 'name', gives: 'value' },
  { label: 'code', gives: 'exchange_rate' },
];

function inList(
  list: Shape,
  items: Shape,
  step: Step,
  rest: readonly Step[],
  { place, inside }: { place: string; inside: string },
): DocumentPath {
  const members = Object.keys(items.properties ?? {});
  const form = named.find(({ label, gives }) => members.includes(label) && members.includes(gives));
  const isAnswers = list.answersIn !== undefined;
  if ('member' in step)
    throw new Fault(
      `${place} is a list: say which with ${place}[${isAnswers ? '1.2' : form ? `<${form.label}>` : '1'}]`,
    );
  const { label } = step;
  if (form || isAnswers) {
    const path = follow(items, rest.length > 0 ? rest : [{ member: form?.gives ?? 'value' }], inside);
    const nameIn = (entry: unknown) => (form ? memberOf(entry, form.label) : identifierOf(entry));
    return into(path, (value) => entriesOf(value).find((entry) => nameIn(entry) === label));
  }
  if (!/^[1-9]\d{0,5}$/.test(label)) throw new Fault(`${place} is read by place: ${place}[1] is the first entry`);
  return into(follow(items, rest, inside), (value) => entriesOf(value)[Number(label) - 1]);
}

function into({ read, shape }: DocumentPath, enter: Read): DocumentPath {
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
