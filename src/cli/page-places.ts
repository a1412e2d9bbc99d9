/** Where a page of a list ends, as the page prints it and an option of the next call takes it. */
import { InvalidArgumentError } from 'commander';
import { z } from 'zod';
import { documentKinds } from '#connector/documents.ts';
import { timestamp } from '#contract/scalars.ts';

const id = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** Reads the id of an action. Throws commander's InvalidArgumentError for anything else. */
export function actionId(text: string): string {
  if (id.test(text)) return text;
  throw new InvalidArgumentError('It must be the action that an earlier page has printed.');
}

/** Reads the id of an attempt. Throws commander's InvalidArgumentError for anything else. */
export function attemptId(text: string): string {
  if (id.test(text)) return text;
  throw new InvalidArgumentError('It must be the attempt that an earlier page has printed.');
}

const lastSeen = z.tuple([timestamp, z.string(), z.enum(documentKinds), z.string()]);

/** The last dead letter of a page: its time, flow, kind and key. */
export type LastSeen = z.infer<typeof lastSeen>;

/** Reads the place that an earlier page has printed as `next`. Throws commander's InvalidArgumentError for anything else. */
export function readLastSeen(text: string): LastSeen {
  try {
    return lastSeen.parse(JSON.parse(Buffer.from(text, 'base64url').toString()));
  } catch {
    throw new InvalidArgumentError('It must be the place that an earlier page has printed.');
  }
}
