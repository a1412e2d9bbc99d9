/**
 * Input from outside, read through a schema. Each fault becomes an issue with a path that people can follow
 * (`bid_sheet.columns[2].precision`). The rejected values themselves are never repeated, as they may be secrets.
 */
import type { z } from 'zod';
import { type Issue, issuesMax } from '#contract/issue.ts';
import { AppError } from './errors.ts';

/** Nobody reads so many faults, and to put more of them into words would take seconds. */
const faultsMost = 200_000;

/**
 * Parses `value`. Throws an AppError `invalid` with one issue for each fault, or with one for all of them where there
 * are more than 200,000. `what` begins the message: "The body".
 */
export function parseInput<Schema extends z.ZodType>(schema: Schema, value: unknown, what: string): z.output<Schema> {
  let faults = 0;
  const error = (issue: z.core.$ZodRawIssue) => {
    const message = messageOf(issue);
    faults += 1;
    if (faults > faultsMost) {
      const all = `has more than ${faultsMost} faults, such as: ${message ?? issue.code}`;
      throw invalidInput(what, [{ path: '', message: all }]);
    }
    return message;
  };
  const parsed = schema.safeParse(value, { error });
  if (parsed.success) return parsed.data;
  const issues = issuesOf(parsed.error.issues);
  throw invalidInput(what, issues, issues.length > 1 ? `and ${issues.length - 1} more` : '');
}

/**
 * As `safeParse`, for settings: a text that is written as a number, true or false is that, where the schema wants one. A
 * variable of the environment is always text: `port: ${PORT}`. A text that `hasAnyForm` need not have the form that the
 * schema wants.
 */
export function safeParseSettings<Schema extends z.ZodType>(
  schema: Schema,
  value: unknown,
  hasAnyForm: (text: unknown) => boolean = () => false,
): z.ZodSafeParseResult<z.output<Schema>> {
  const parsed = schema.safeParse(value, { error: messageOf });
  if (parsed.success) return parsed;
  const read = structuredClone(value);
  const changes = parsed.error.issues.map((issue) => issue.code === 'invalid_type' && readText(read, issue));
  const again = changes.some(Boolean) ? schema.safeParse(read, { error: messageOf }) : parsed;
  if (again.success || !again.error.issues.every(({ path }) => hasAnyForm(settingAt(read, path)))) return again;
  // `safeParse` shows no value beside issues; `run` does.
  const { value: data } = schema._zod.run({ value: read, issues: [] }, { async: false }) as z.core.ParsePayload;
  return { success: true, data: data as z.output<Schema> };
}

/** What stands at this place of the settings; undefined when there is no such place. */
export function settingAt(settings: unknown, path: readonly PropertyKey[]): unknown {
  return path.reduce<unknown>(
    (at, part) => (typeof at === 'object' && at !== null ? (at as Record<PropertyKey, unknown>)[part] : undefined),
    settings,
  );
}

/** Puts the value of a text in its place; returns false where there is no such text. */
function readText(value: unknown, { path, expected }: z.core.$ZodIssueInvalidType): boolean {
  const holder = settingAt(value, path.slice(0, -1));
  const last = path.at(-1);
  if (typeof holder !== 'object' || holder === null || last === undefined) return false;
  const members = holder as Record<PropertyKey, unknown>;
  const text = members[last];
  const form = { number: /^-?\d{1,15}(\.\d{1,15})?$/, boolean: /^(true|false)$/ }[String(expected)];
  if (typeof text !== 'string' || !form?.test(text)) return false;
  members[last] = JSON.parse(text);
  return true;
}

/** The refusal of input with these faults; `rest` says how many there are beside the first. */
export function invalidInput(what: string, issues: readonly Issue[], rest = ''): AppError {
  const [first] = issues;
  const place = first?.path ? `${first.path} ` : '';
  const text = `${what} is not valid: ${place}${first?.message ?? 'wrong'}${rest === '' ? '' : ` (${rest})`}.`;
  return new AppError('invalid', text, { issues });
}

/** A fault, with its path in parts. */
export interface RawIssue {
  path: readonly PropertyKey[];
  message: string;
}

/** Zod's issues, with paths as text for people that begin with `base`. */
export function issuesOf(issues: readonly z.core.$ZodIssue[], base: readonly PropertyKey[] = []): Issue[] {
  return rawIssuesOf(issues, base).map(({ path, message }) => ({ path: pathText(path), message }));
}

/** Zod's issues, with one for each unknown field, and for a union those of the branch that got furthest. */
export function rawIssuesOf(issues: readonly z.core.$ZodIssue[], base: readonly PropertyKey[] = []): RawIssue[] {
  return issues.flatMap((issue) => {
    const path = [...base, ...issue.path];
    if (issue.code === 'unrecognized_keys')
      return issue.keys.slice(0, issuesMax).map((key) => ({ path: [...path, key], message: 'is not a known field' }));
    if (issue.code === 'invalid_union') {
      const [branch] = [...issue.errors].sort((a, b) => depthOf(b) - depthOf(a));
      if (branch && depthOf(branch) > 0) return rawIssuesOf(branch, path);
      const messages = new Set(issue.errors.flatMap((errors) => errors.map((error) => error.message)));
      return [{ path, message: [...messages].join(', or ') || issue.message }];
    }
    return [{ path, message: issue.message }];
  });
}

function depthOf(issues: readonly z.core.$ZodIssue[]): number {
  return Math.max(0, ...issues.map((issue) => issue.path.length + (issue.code === 'unrecognized_keys' ? 1 : 0)));
}

/** `['a', 2, 'b c']` as `a[2]["b c"]`. */
export function pathText(path: readonly PropertyKey[]): string {
  let text = '';
  for (const part of path) {
    const name = String(part);
    if (typeof part === 'number') text += `[${part}]`;
    else if (/^[A-Za-z_][A-Za-z0-9_-]*$/.test(name)) text += text === '' ? name : `.${name}`;
    else text += `[${JSON.stringify(name.slice(0, 100))}]`;
  }
  return text;
}

/** What a value must be, in words that follow its path; undefined where the schema has its own message. */
export function messageOf(issue: z.core.$ZodRawIssue): string | undefined {
  if (issue.input === undefined && (issue.code === 'invalid_type' || issue.code === 'invalid_value'))
    return 'is missing';
  switch (issue.code) {
    case 'invalid_type':
      return `must be ${typeName(issue.expected)}`;
    case 'invalid_value':
      return `must be ${oneOf(issue.values)}`;
    case 'invalid_union':
      return Array.isArray(issue.options) && issue.options.length > 0 ? `must be ${oneOf(issue.options)}` : undefined;
    case 'too_small':
      return `must ${bound(issue, issue.minimum, 'at least', 'more than')}`;
    case 'too_big':
      return `must ${bound(issue, issue.maximum, 'at most', 'less than')}`;
    case 'not_multiple_of':
      return `must be a multiple of ${issue.divisor}`;
    case 'invalid_format':
      return formatMessage(issue);
    default:
      return undefined;
  }
}

function typeName(type: string): string {
  const plain: Readonly<Record<string, string>> = {
    int: 'a whole number',
    safeint: 'a whole number',
    record: 'an object',
    boolean: 'true or false',
    null: 'null',
  };
  return plain[type] ?? (/^[aeiou]/.test(type) ? `an ${type}` : `a ${type}`);
}

function oneOf(values: readonly unknown[]): string {
  return `${values.length > 1 ? 'one of ' : ''}${values.map(String).join(', ')}`;
}

function bound(
  { origin, exact, inclusive }: { origin: string; exact?: boolean | undefined; inclusive?: boolean | undefined },
  limit: number | bigint,
  closed: string,
  open: string,
): string {
  const verb = origin === 'string' || origin === 'array' ? 'have' : 'be';
  const unit = { string: ' character', array: ' entr' }[origin] ?? '';
  const isSingular = Number(limit) === 1;
  const counted =
    unit === ' entr' ? (isSingular ? ' entry' : ' entries') : unit === '' || isSingular ? unit : `${unit}s`;
  return `${verb} ${exact ? 'exactly' : inclusive === false ? open : closed} ${limit}${counted}`;
}

function formatMessage(issue: { format: string; pattern?: string | undefined; prefix?: unknown }): string | undefined {
  switch (issue.format) {
    case 'url':
      return 'must be a URL, like https://host';
    case 'uuid':
      return 'must be a UUID';
    case 'email':
      return 'must be an e-mail address';
    case 'regex':
      return `must match ${issue.pattern}`;
    case 'starts_with':
      return `must start with ${String(issue.prefix)}`;
    default:
      return undefined;
  }
}
