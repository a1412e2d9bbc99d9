/**
 * Large input, read through a schema without work or memory for faults that no answer would name. A schema checks every
 * element before it looks at a list's length, and collects every fault: 600,000 wrong values would cost seconds, and
 * more arguments of a call than the stack holds. So the elements of the outermost lists are checked one by one first,
 * until as many faults are found as an answer names, and a list that is too long is not checked at all.
 */
import type { z } from 'zod';
import { type Issue, issuesMax } from '#contract/issue.ts';
import { invalidInput, issuesOf, messageOf, parseInput, pathText } from './input.ts';

/** Parses `value` as `parseInput` does, but stops at `issuesMax` faults: then the message ends with "and more". */
export function parseLargeInput<Schema extends z.ZodType>(
  schema: Schema,
  value: unknown,
  what: string,
): z.output<Schema> {
  const faults = new Faults();
  try {
    look(schema, value, [], faults);
  } catch (error) {
    if (error !== enough) throw error;
    throw invalidInput(what, faults.found.slice(0, issuesMax), 'and more');
  }
  return parseInput(schema, value, what);
}

/** Thrown to end the search. */
const enough = new Error('enough faults were found');

class Faults {
  readonly found: Issue[] = [];

  add(...issues: readonly Issue[]): void {
    this.found.push(...issues);
    if (this.found.length >= issuesMax) throw enough;
  }

  /** A fault after which nothing else is looked at. */
  end(issue: Issue): never {
    this.found.push(issue);
    throw enough;
  }
}

type Path = readonly (string | number)[];

/** Follows the members of objects down to the outermost lists, and checks their elements. */
function look(schema: z.core.$ZodType, value: unknown, path: Path, faults: Faults): void {
  const inner = unwrapped(schema, value);
  if (isObject(inner) && isMembers(value)) {
    refuseUnknown(inner, value, path, faults);
    for (const [name, member] of membersIn(inner, value)) look(member, value[name], [...path, name], faults);
  } else if (isList(inner) && Array.isArray(value)) {
    refuseLongLists(inner, value, path, faults);
    const { element } = inner._zod.def;
    for (const [index, item] of value.entries()) {
      refuseLongLists(element, item, [...path, index], faults);
      const parsed = (element as z.ZodType).safeParse(item, { error: messageOf });
      if (!parsed.success) faults.add(...issuesOf(parsed.error.issues, [...path, index]));
    }
  }
}

/** Ends the search at a list, at any depth, that is longer than its schema says. */
function refuseLongLists(schema: z.core.$ZodType, value: unknown, path: Path, faults: Faults): void {
  const inner = unwrapped(schema, value);
  if (isObject(inner) && isMembers(value)) {
    refuseUnknown(inner, value, path, faults);
    for (const [name, member] of membersIn(inner, value)) refuseLongLists(member, value[name], [...path, name], faults);
  } else if (isList(inner) && Array.isArray(value)) {
    const maximum = longest(inner);
    if (maximum !== undefined && value.length > maximum)
      faults.end({ path: pathText(path), message: `must have at most ${maximum} entries` });
    for (const [index, item] of value.entries())
      refuseLongLists(inner._zod.def.element, item, [...path, index], faults);
  }
}

/** Ends the search at an object with so many unknown members that they alone fill an answer. */
function refuseUnknown({ _zod: { def } }: z.core.$ZodObject, value: Members, path: Path, faults: Faults): void {
  const names = Object.keys(value);
  if (names.length < Object.keys(def.shape).length + issuesMax) return;
  const unknown = names.filter((name) => !Object.hasOwn(def.shape, name));
  faults.add(
    ...unknown
      .slice(0, issuesMax)
      .map((name) => ({ path: pathText([...path, name]), message: 'is not a known field' })),
  );
}

/** The most elements of a list by its schema. */
function longest({ _zod: { def } }: z.core.$ZodArray): number | undefined {
  for (const check of def.checks ?? []) {
    const rule = check._zod.def as Partial<z.core.$ZodCheckMaxLengthDef>;
    if (rule.check === 'max_length') return rule.maximum;
  }
  return undefined;
}

type Members = Readonly<Record<string, unknown>>;

function isMembers(value: unknown): value is Members {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function membersIn({ _zod: { def } }: z.core.$ZodObject, value: Members): [string, z.core.$ZodType][] {
  return Object.entries(def.shape).filter(([name]) => Object.hasOwn(value, name));
}

function isObject(schema: z.core.$ZodType | undefined): schema is z.core.$ZodObject {
  return schema?._zod.def.type === 'object';
}

function isList(schema: z.core.$ZodType | undefined): schema is z.core.$ZodArray {
  return schema?._zod.def.type === 'array';
}

/** The schema inside of defaults and preparing steps, and the branch of a union that the value names; else undefined. */
function unwrapped(schema: z.core.$ZodType, value: unknown): z.core.$ZodType | undefined {
  const { def } = (schema as z.core.$ZodTypes)._zod;
  switch (def.type) {
    case 'optional':
    case 'nullable':
    case 'default':
    case 'prefault':
      return unwrapped(def.innerType, value);
    case 'pipe':
      return unwrapped(def.in._zod.def.type === 'transform' ? def.out : def.in, value);
    case 'union': {
      const name = (def as z.core.$ZodDiscriminatedUnionDef).discriminator as string | undefined;
      const chosen = name !== undefined && isMembers(value) ? value[name] : undefined;
      if (name === undefined || chosen === undefined) return undefined;
      const branch = def.options.find((each) => each._zod.propValues?.[name]?.has(chosen as z.core.util.Primitive));
      return branch === undefined ? undefined : unwrapped(branch, value);
    }
    default:
      return schema;
  }
}
