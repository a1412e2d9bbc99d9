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
/** Memory for one body is bounded by these: ten megabytes may hold more than three million values. */
const valuesMax = 2_000_000;
/** Of one object. Schemas allow far fewer, but they see it only when it has been parsed. */
const namesMax = 10_000;

/** Returns the body as the schema gives it. Throws `invalid` or `too-large`. `{}` counts as no body in a POST. */
export function checkBody(rules: BodyRules, bytes: Uint8Array): unknown {
  const { method, path, body: schema, check, nullsAreLeftOut } = rules;
  if (!schema) {
    if (bytes.length === 0) return undefined;
    if (method !== 'POST') throw new AppError('invalid', `${method} ${path} takes no body.`);
  }
  if (bytes.length > smallBodyBytes) refuseTooManyValues(bytes);
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

const code = (character: string) => character.charCodeAt(0);
const [quote, backslash, comma] = [code('"'), code('\\'), code(',')];
const opening: ReadonlySet<number | undefined> = new Set([code('['), code('{')]);
const closing: ReadonlySet<number | undefined> = new Set([code(']'), code('}')]);

/**
 * Counts values by commas and brackets outside of texts, before anything is parsed: an object of 600,000 names costs
 * seconds to build. Throws `invalid` when there are too many.
 */
function refuseTooManyValues(bytes: Uint8Array): void {
  let all = 0;
  /** Of each object and list that is open; the members of a list are not bounded here. */
  const members: number[] = [];
  for (let at = 0; at < bytes.length; at += 1) {
    const byte = bytes[at];
    if (byte === quote) at = endOfText(bytes, at);
    else if (byte === comma) {
      all += 1;
      const depth = members.length - 1;
      if ((members[depth] = (members[depth] ?? 0) + 1) >= namesMax) throw tooMany(`an object of ${namesMax} names`, at);
    } else if (opening.has(byte)) {
      all += 1;
      members.push(byte === code('{') ? 0 : Number.NEGATIVE_INFINITY);
    } else if (closing.has(byte)) members.pop();
    if (all > valuesMax) throw tooMany(`${valuesMax} values`, at);
  }
}

/** The place of the quote that ends the text which begins here. */
function endOfText(bytes: Uint8Array, start: number): number {
  let at = start + 1;
  while (at < bytes.length && bytes[at] !== quote) at += bytes[at] === backslash ? 2 : 1;
  return at;
}

function tooMany(what: string, at: number): AppError {
  const message = `holds more than ${what} (at byte ${at})`;
  return new AppError('invalid', `The body ${message}.`, { issues: [{ path: '', message }] });
}
