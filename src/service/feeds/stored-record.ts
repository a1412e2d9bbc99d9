/**
 * A record as it is stored: its JSON as it will be sent, with `modified` as the last member, where it can be read
 * without parsing; and the values that filters and includes need.
 */
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

/** A tag as the filter compares it: one text for name and value, different for every other pair. */
export function tagText({ name, value }: { name: string; value: string }): string {
  return JSON.stringify([name, value]);
}

const relatedId = /"(sourcing_event|supplier|question_uuid)":"([0-9a-f-]{36})"/g;

/** The ids of the objects to which the records of a page refer. */
export interface RelatedIds {
  readonly sourcing_event: ReadonlySet<string>;
  readonly supplier: ReadonlySet<string>;
  readonly question_uuid: ReadonlySet<string>;
}

/** Finds the ids in the text. In a JSON string every quote is escaped, so a match is always a member of that name. */
export function relatedIds(bodies: readonly string[]): RelatedIds {
  const related = { sourcing_event: new Set<string>(), supplier: new Set<string>(), question_uuid: new Set<string>() };
  for (const body of bodies)
    for (const [, member, id] of body.matchAll(relatedId)) related[member as keyof RelatedIds].add(id as string);
  return related;
}
