/**
 * Reading a feed: by key, never by offset, so that page 10,000 costs what page 1 costs. The records' stored texts are
 * put together by the database and sent as they are. Source: API document, "Feeds"; decisions, "Feeds".
 */
import type { z } from 'zod';
import { type FeedName, feedOrderHeader, feedQueries, pageSizeDefault } from '#contract/feed.ts';
import { parseTimestamp, type Timestamp } from '#contract/timestamp.ts';
import { AppError } from '#platform/errors.ts';
import { type Answer, endpoint } from '#platform/http/endpoint.ts';
import type { Caller } from '../caller.ts';

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
  const [page] = await caller.unit.tx.query<{ data: string | null; last: Timestamp | null; more: boolean }>(
    `select string_agg(body, ',' order by modified) filter (where place <= $3) as data,
       max(modified) filter (where place <= $3) as last, count(*) > $3 as more
     from (
       select modified, body, row_number() over (order by modified) as place from service.feed_records
       where organisation_id = $1 and feed = $2 and visible ${conditions.join(' ')}
       order by modified limit $3 + 1
     ) as page`,
    params,
  );
  const next = page?.more && page.last ? `${url}?${nextQuery(query, page.last)}` : null;
  return {
    status: 200,
    json: `{"data":[${page?.data ?? ''}],"next":${JSON.stringify(next)}}`,
    headers: { [feedOrderHeader]: 'commit' },
  };
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
