/**
 * Paths of a field mapping: `event.reference_id`, `event.tags[Cost Center]`, `line.values[Annual Volume]`,
 * `contacts[1].email`, `answers[1.2]`. They are checked against the documents' schemas when the configuration is read, so
 * that a member that no document has is refused then.
 *
 * A list of names and values is read by name (quoted where the name has brackets: `tags["a[b]"]`) and gives the value;
 * any other list is read by place, from 1. `answers[1.2]` is the answer to the question of that identifier.
 */
import { z } from 'zod';
import { type Document, type DocumentKind, documentSchemas } from '#connector/documents.ts';

/** The text at the path's end; undefined where it leads to nothing. */
export type ReadPath = (document: Document, line: unknown) => string | undefined;

/** Says what is wrong with a path, in words that follow it. */
export class PathFault extends Error {}

type Step = { member: string } | { label: string };

/** Throws PathFault. `line.` is known only where `inLine`. */
export function compilePath(kind: DocumentKind, path: string, inLine: boolean): ReadPath {
  const steps = stepsOf(path);
  const [first] = steps;
  if (first && 'member' in first && first.member === 'line') {
    if (!inLine) throw new PathFault('line is known only under lines');
    const read = reader(elementOf(linesOf(kind)), steps.slice(1), 'line');
    return (_document, line) => read(line);
  }
  const read = reader(kind === 'rfi-answers' ? withAnswers : documentSchemas[kind], steps, '');
  return (document) => read(document);
}

/** Whether documents of the kind have lines. */
export function hasLines(kind: DocumentKind): boolean {
  return 'lines' in documentSchemas[kind].shape;
}

const withAnswers = documentSchemas['rfi-answers'].extend({ answers: documentSchemas['rfi-answers'].shape.lines });

function linesOf(kind: DocumentKind): z.ZodType {
  const { shape } = documentSchemas[kind];
  if (!('lines' in shape)) throw new PathFault(`${kind} documents have no lines`);
  return shape.lines;
}

function stepsOf(path: string): Step[] {
  const form = /(?:^|\.)([A-Za-z_]\w*)|\[(?:"((?:[^"\\]|\\.)*)"|([^[\]"]+))\]/y;
  const steps: Step[] = [];
  while (form.lastIndex < path.length) {
    const [, member, quoted, label] = form.exec(path) ?? [];
    if (member !== undefined) steps.push({ member });
    else if (quoted !== undefined) steps.push({ label: quoted.replaceAll(/\\(.)/g, '$1') });
    else if (label !== undefined) steps.push({ label: label.trim() });
    else throw new PathFault('must be written as event.name or event.tags[Cost Center]');
  }
  if (steps.length === 0) throw new PathFault('must not be empty');
  return steps;
}

type Read = (value: unknown) => string | undefined;

/** Walks schema and steps together; `place` is where it stands. */
function reader(schema: z.ZodType, steps: readonly Step[], place: string): Read {
  const plain = unwrap(schema);
  const [step, ...rest] = steps;
  if (plain instanceof z.ZodObject) {
    const members = Object.keys(plain.shape).filter((name) => name !== 'fields');
    if (step === undefined) throw new PathFault(`leads to several values; go on with one of ${members.join(', ')}`);
    if (!('member' in step) || !members.includes(step.member))
      throw new PathFault(
        `leads nowhere: ${place || 'the document'} has no member ${'member' in step ? step.member : `[${step.label}]`}; it has ${members.join(', ')}`,
      );
    const { member } = step;
    const read =
      member === 'answers'
        ? answerReader(plain.shape[member], rest)
        : reader(plain.shape[member], rest, place === '' ? member : `${place}.${member}`);
    const source = member === 'answers' ? 'lines' : member;
    return (value) => (value === undefined ? undefined : read((value as Readonly<Record<string, unknown>>)[source]));
  }
  if (plain instanceof z.ZodArray) return listReader(plain, steps, place);
  if (step !== undefined) throw new PathFault(`${place} is a single value: nothing can follow it`);
  return (value) => (typeof value === 'string' ? value : JSON.stringify(value));
}

/** What a list of these entries is read by, and what it gives when the path ends there. */
const named = [
  { label: 'column', gives: 'value' },
  { label: 'name', gives: 'value' },
  { label: 'code', gives: 'exchange_rate' },
];

function listReader(schema: z.ZodArray, [step, ...rest]: readonly Step[], place: string): Read {
  const element = elementOf(schema);
  const members = element instanceof z.ZodObject ? Object.keys(element.shape) : [];
  const form = named.find(({ label, gives }) => members.includes(label) && members.includes(gives));
  if (step === undefined || !('label' in step))
    throw new PathFault(`${place} is a list: say which with ${form ? `${place}[<${form.label}>]` : `${place}[1]`}`);
  const inside = `${place}[${step.label}]`;
  if (form) {
    const read = reader(element, rest.length > 0 ? rest : [{ member: form.gives }], inside);
    return finder((entry) => entry[form.label] === step.label, read);
  }
  if (!/^[1-9]\d{0,5}$/.test(step.label))
    throw new PathFault(`${place} is read by place: ${place}[1] is the first entry`);
  const read = reader(element, rest, inside);
  return (value) => {
    const entry: unknown = Array.isArray(value) ? value[Number(step.label) - 1] : undefined;
    return entry === undefined ? undefined : read(entry);
  };
}

function answerReader(schema: z.ZodType, [step, ...rest]: readonly Step[]): Read {
  if (step === undefined || !('label' in step))
    throw new PathFault('answers are read by the identifier of their question: answers[1.2]');
  const read = reader(elementOf(schema), rest.length > 0 ? rest : [{ member: 'value' }], `answers[${step.label}]`);
  return finder((entry) => (entry['question'] as { identifier?: string }).identifier === step.label, read);
}

function finder(isIt: (entry: Readonly<Record<string, unknown>>) => boolean, read: Read): Read {
  return (value) => {
    if (!Array.isArray(value)) return undefined;
    const entry = (value as Readonly<Record<string, unknown>>[]).find(isIt);
    return entry === undefined ? undefined : read(entry);
  };
}

function elementOf(schema: z.ZodType): z.ZodType {
  const plain = unwrap(schema);
  return plain instanceof z.ZodArray ? unwrap(plain.element as z.ZodType) : plain;
}

function unwrap(schema: z.ZodType): z.ZodType {
  return schema instanceof z.ZodOptional ? unwrap(schema.unwrap() as z.ZodType) : schema;
}
