/**
 * Input from outside, read through a schema. What is wrong becomes issues with a path a person can follow
 * (`bid_sheet.columns[2].precision`); the rejected values themselves are never repeated, as they may be secrets.
 */
import type { z } from 'zod';
import { AppError, type Issue } from './errors.ts';

/** Parses `value`; throws AppError `invalid` with one issue for each thing wrong. `what` opens the message: "The body". */
export function parseInput<Schema extends z.ZodType>(schema: Schema, value: unknown, what: string): z.output<Schema> {
  const parsed = schema.safeParse(value, { error: (issue) => messageOf(issue) });
  if (parsed.success) return parsed.data;
  const issues = issuesOf(parsed.error.issues);
  const first = issues[0];
  const rest = issues.length > 1 ? ` (and ${issues.length - 1} more)` : '';
  throw new AppError(
    'invalid',
    `${what} is not valid: ${first?.path ? `${first.path} ` : ''}${first?.message ?? 'wrong'}${rest}.`,
    { issues },
  );
}

/** Zod's issues with unknown fields named one by one, and a union's most telling branch instead of all of them. */
export function issuesOf(issues: readonly z.core.$ZodIssue[], base: readonly PropertyKey[] = []): Issue[] {
  return issues.flatMap((issue) => {
    const path = [...base, ...issue.path];
    if (issue.code === 'unrecognized_keys')
      return issue.keys.map((key) => ({ path: pathText([...path, key]), message: 'is not a known field' }));
    if (issue.code === 'invalid_union') {
      const [branch] = [...issue.errors].sort((a, b) => depthOf(b) - depthOf(a));
      if (branch && depthOf(branch) > 0) return issuesOf(branch, path);
      const messages = new Set(issue.errors.flatMap((errors) => errors.map((error) => error.message)));
      return [{ path: pathText(path), message: [...messages].join(', or ') || issue.message }];
    }
    return [{ path: pathText(path), message: issue.message }];
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

function messageOf(issue: z.core.$ZodRawIssue): string | undefined {
  switch (issue.code) {
    case 'invalid_type':
      return issue.input === undefined ? 'is missing' : `must be ${articled(issue.expected)}`;
    case 'invalid_value':
      return `must be ${issue.values.length > 1 ? 'one of ' : ''}${issue.values.map(String).join(', ')}`;
    case 'too_small':
      return `must ${boundVerb(issue.origin)} at least ${issue.minimum}${unitOf(issue.origin, Number(issue.minimum))}`;
    case 'too_big':
      return `must ${boundVerb(issue.origin)} at most ${issue.maximum}${unitOf(issue.origin, Number(issue.maximum))}`;
    default:
      return undefined;
  }
}

function articled(type: string): string {
  return /^[aeiou]/.test(type) ? `an ${type}` : `a ${type}`;
}

function boundVerb(origin: string): string {
  return origin === 'string' || origin === 'array' ? 'have' : 'be';
}

function unitOf(origin: string, count: number): string {
  const unit = origin === 'string' ? ' character' : origin === 'array' ? ' entr' : '';
  if (unit === ' entr') return count === 1 ? ' entry' : ' entries';
  return unit === '' || count === 1 ? unit : `${unit}s`;
}
