/** A record as it is stored and sent: its JSON, with `modified` as the last member, where it can be read without parsing. */
import type { Timestamp } from '#contract/timestamp.ts';

const ending = (modified: Timestamp) => `,"modified":"${modified}"}`;
const stampAt = -'2030-12-31T23:59:59.000000Z"}'.length;

/** `json` is an object with at least one member, and without `modified`. */
export function storedBody(json: string, modified: Timestamp): string {
  return json.slice(0, -1) + ending(modified);
}

export function modifiedOf(body: string): Timestamp {
  return body.slice(stampAt, -'"}'.length);
}
