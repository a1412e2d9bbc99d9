/**
 * Reading a feed: by key, never by offset, so that page 10,000 costs what page 1 costs. The records' stored texts are
 * put together and sent as they are. Source: API document, "Feeds"; decisions, "Feeds".
 */
import type { z } from 'zod';
import { type FeedName, feedOrderHeader, feedQueries, pageSizeDefault } from '#contract/feed.ts';
import { parseTimestamp, type Timestamp } from '#contract/timestamp.ts';
import { prepared } from '#platform/database/database.ts';
import { AppError } from '#platform/errors.ts';
import { type Answer, endpoint } from '#platform/http/endpoint.ts';
import type { Caller } from '../caller.ts';
import { modifiedOf } from './stored-body.ts';

interface FeedQuery {
  modified_after?: Timestamp | undefined;
  modified_before?: Timestamp | undefined;
  page_size?: number | undefined;
  cursor?: string | undefined;
  id?: string | undefined;
  status?: string | undefined;
  sourcing_event?: string | undefined;
}

/** GET /api/feeds/{feed}. */
export function readFeed(feed: FeedName) {
  return endpoint<Caller, z.ZodUndefined, (typeof feedQueries)[FeedName]>({
    method: 'GET',
    path: `/api/feeds/${feed}`,
    scope: 'feeds',
    query: feedQueries[feed],
    handle: ({ caller, query, baseUrl }) => readPage(caller, feed, query, `${baseUrl}/api/feeds/${feed}`),
  });
}

async function readPage(caller: Caller, feed: FeedName, query: FeedQuery, url: string): Promise<Answer> {
  const size = query.page_size ?? pageSizeDefault;
  const params: unknown[] = [caller.organisationId, feed, size];
  const conditions: string[] = [];
  const where = (condition: string, value: unknown) => {
    if (value === undefined) return;
    params.push(value);
    conditions.push(`and ${condition.replace('?', `$${params.length}`)}`);
  };
  where('modified > ?', query.cursor === undefined ? undefined : readCursor(query.cursor));
  where('modified >= ?', query.modified_after);
  where('modified <= ?', query.modified_before);
  where('sourcing_event = ?', query.sourcing_event ?? query.id);
  where('status = ?', query.status);
  // One row more than the page tells whether anything follows.
  const rows = await caller.unit.tx.query<{ body: string }>(
    prepared(
      `select body from service.feed_records
       where organisation_id = $1 and feed = $2 and visible ${conditions.join(' ')}
       order by modified limit $3 + 1`,
    ),
    params,
  );
  const bodies = rows.slice(0, size).map(({ body }) => body);
  const last = bodies.at(-1);
  const lastModified = last === undefined ? undefined : modifiedOf(last);
  const more = rows.length > size && lastModified !== undefined;
  const next = more ? `${url}?${nextQuery(query, lastModified).toString()}` : null;
  return {
    status: 200,
    json: joinBytes(['{"data":[', ...separated(bodies), `],"next":${JSON.stringify(next)}}`]),
    headers: { [feedOrderHeader]: 'commit', ETag: tagOf(lastModified, bodies.length, more) },
  };
}

/**
 * Tells two states of one page apart without reading it again: a record that changes moves to the end of the feed, so a
 * page whose last stamp and length are the same holds the same records.
 */
function tagOf(lastModified: Timestamp | undefined, count: number, more: boolean): string {
  return `W/"${lastModified ?? ''}-${count}-${more}"`;
}

function separated(bodies: readonly string[]): string[] {
  return bodies.flatMap((body, index) => (index === 0 ? [body] : [',', body]));
}

/** Encodes piece by piece into one buffer: joining a page of a thousand records first costs five times as much. */
function joinBytes(parts: readonly string[]): Buffer {
  // UTF-8 takes at most three bytes for each UTF-16 unit.
  const bytes = Buffer.allocUnsafe(3 * parts.reduce((length, part) => length + part.length, 0));
  const encoder = new TextEncoder();
  let length = 0;
  for (const part of parts) length += encoder.encodeInto(part, bytes.subarray(length)).written;
  return bytes.subarray(0, length);
}

function nextQuery(query: FeedQuery, last: Timestamp): URLSearchParams {
  const next = new URLSearchParams();
  for (const [name, value] of Object.entries({ ...query, cursor: writeCursor(last) }))
    if (value !== undefined) next.set(name, String(value));
  return next;
}

function writeCursor(last: Timestamp): string {
  return Buffer.from(last).toString('base64url');
}

function readCursor(cursor: string): Timestamp {
  const last = parseTimestamp(Buffer.from(cursor, 'base64url').toString());
  if (last !== undefined && writeCursor(last) === cursor) return last;
  throw new AppError('invalid', 'The query is not valid: cursor is not one that this feed gave.', {
    issues: [{ path: 'cursor', message: 'is not one that this feed gave' }],
  });
}
