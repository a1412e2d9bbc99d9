/**
 * How the body of a call is checked: parsed as JSON that the database can hold, then by the endpoint's schema, then by
 * its own check. A large body is checked in a thread of its own (`body-thread.ts`), and both give the same refusals.
 */
import { z } from 'zod';
import type { Issue } from '#contract/issue.ts';
import { AppError, throwIssues } from '../errors.ts';
import { parseInput } from '../input.ts';
import { parseJson } from './body.ts';

/** What decides whether a body is accepted. */
export interface BodyRules {
  readonly method: string;
  readonly path: string;
  /** Without it the call takes no body. */
  readonly body?: z.ZodType;
  /** A member that is null counts as left out, at any depth. */
  readonly nullsAreLeftOut?: true;
  /** The faults of a body that its schema has passed, which need no database to be found. */
  readonly check?: (body: never) => readonly Issue[];
}

/** A body up to this size is checked at once; a larger one takes its turn, and is checked in the thread. */
export const smallBodyBytes = 64 * 1024;

/** Returns the body as the schema gives it. Throws `invalid` or `too-large`. `{}` counts as no body in a POST. */
export function checkBody(rules: BodyRules, bytes: Uint8Array): unknown {
  const { method, path, body: schema, check, nullsAreLeftOut } = rules;
  if (!schema) {
    if (bytes.length === 0) return undefined;
    if (method !== 'POST') throw new AppError('invalid', `${method} ${path} takes no body.`);
  }
  const given = parseJson(bytes);
  const body = parseInput(schema ?? noFields, nullsAreLeftOut ? withoutNulls(given) : given, 'The body');
  if (!schema) return undefined;
  throwIssues(check?.(body as never) ?? [], (first) => `The body is not valid: ${first.path}: ${first.message}.`);
  return body;
}

/** Without the members that are null. An entry of a list stays. */
export function withoutNulls(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutNulls);
  if (typeof value !== 'object' || value === null) return value;
  const members = Object.entries(value).filter(([, member]) => member !== null);
  return Object.fromEntries(members.map(([name, member]) => [name, withoutNulls(member)]));
}

/** Many clients send `{}` with every POST. */
const noFields = z.strictObject({});
