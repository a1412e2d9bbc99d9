/**
 * Reading a feed: by key, never by offset, so that page 10,000 costs what page 1 costs. The stored texts of the records
 * are joined and sent without being parsed. Source: API document, "Feeds"; decisions, "Feeds".
 */
import { createHash } from 'node:crypto';
import type { z } from 'zod';
import {
  type FeedConditions,
  type FeedName,
  type FeedQuery,
  feedOrderHeader,
  feedPages,
  feeds,
  pageSizeDefault,
  tagFilterPrefix,
} from '#contract/feed.ts';
import { parseTimestamp, type Timestamp } from '#contract/timestamp.ts';
import { type PreparedStatement, prepared, type Sql } from '#platform/database/sql.ts';
import { AppError } from '#platform/errors.ts';
import { type Answer, endpoint } from '#platform/http/endpoint.ts';
import type { Caller } from '../caller.ts';
import { linkToNext } from '../list-envelope.ts';
import type { FeedForm } from '../profile/profile.ts';
import { loadIncludes } from './load-includes.ts';
import { modifiedOf, tagText } from './stored-record.ts';

/** GET /api/feeds/{feed}. */
export function readFeed(feed: FeedName, form: FeedForm) {
  return endpoint<Caller, z.ZodUndefined, FeedForm['queries'][FeedName]>({
    method: 'GET',
    path: `/api/feeds/${feed}`,
    scope: 'feeds',
    limit: 'feeds',
    summary: `Read the ${feed} feed`,
    query: form.queries[feed],
    answers: { 200: feedPages[feed] },
    handle: ({ caller, query, baseUrl }) => readPage(caller, feed, form, query, `${baseUrl}/api/feeds/${feed}`),
  });
}

async function readPage(
  caller: Caller,
  feed: FeedName,
  form: FeedForm,
  query: FeedQuery,
  url: string,
): Promise<Answer> {
  const { organisationId, unit } = caller;
  const size = query.page_size ?? pageSizeDefault;
  const { statement, params } = pageStatement(organisationId, feed, query, size);
  const rows = await unit.tx.query<{ body: string }>(statement, params);
  const bodies = rows.slice(0, size).map(({ body }) => body);
  const last = bodies.at(-1);
  const lastModified = last === undefined ? undefined : modifiedOf(last);
  const more = rows.length > size && lastModified !== undefined;
  const next = more ? `${url}?${nextQuery(feed, query, lastModified).toString()}` : null;
  const includes = query.include && (await loadIncludes(unit.tx, organisationId, query.include, bodies));
  const end = `]${includes === undefined ? '' : `,"includes":${includes}`},"next":${JSON.stringify(form.nextInBody ? next : null)}}`;
  // A record that changes moves to the end of the feed: a page with the same last `modified` and as many records holds
  // the same records. The exception is a filter by what only the event says: the events change, and the records do not.
  const tag = createHash('sha256');
  if (query.filter !== undefined || query.is_test !== undefined)
    for (const body of bodies) tag.update(modifiedOf(body));
  tag.update(JSON.stringify([organisationId, lastModified, bodies.length, end, next]));
  return {
    status: 200,
    json: `{"data":[${bodies.join()}${end}`,
    headers: {
      ...linkToNext(next),
      ...(form.declaresOrder && { [feedOrderHeader]: 'commit' }),
      ETag: `W/"${tag.digest('base64url')}"`,
    },
  };
}

/** What each parameter asks of a row; `?` is its value. */
const conditionOf = {
  cursor: 'r.modified > ?',
  modified_after: 'r.modified >= ?',
  modified_before: 'r.modified <= ?',
  id: 'r.id = ?',
  status: 'r.status = ?',
  sourcing_event: 'r.sourcing_event = ?',
  sourcing_request: 'r.requests[1] = ?',
  sourcing_requests: 'r.requests && ?::uuid[]',
} as const satisfies Record<Exclude<keyof FeedConditions, 'page_size' | 'is_test'>, string>;

/**
 * The statement reads one row more than the page: this row tells whether a page follows. A filter that is a list is
 * planned for its values each time, because the number of matching records decides whether an index or the order of the
 * feed finds them sooner.
 */
function pageStatement(
  organisationId: string,
  feed: FeedName,
  query: FeedQuery,
  size: number,
): { statement: string | PreparedStatement; params: unknown[] } {
  const { rows, params, isPlanned } = matchingRows(organisationId, feed, query, size);
  const text = `select r.body ${rows} order by r.modified limit $2 + 1`;
  return { statement: isPlanned ? text : prepared(text), params };
}

/**
 * The ids of the records that match the filters of a query, whatever its times and its page are; undefined when it has
 * no filter.
 */
export async function findMatchingIds(
  sql: Sql,
  organisationId: string,
  feed: FeedName,
  query: FeedQuery,
): Promise<ReadonlySet<string> | undefined> {
  const {
    modified_after: _after,
    modified_before: _before,
    page_size: _size,
    cursor: _cursor,
    include: _include,
    ...filters
  } = query;
  if (Object.values(filters).every((value) => value === undefined)) return undefined;
  const { rows, params } = matchingRows(organisationId, feed, filters, null);
  const found = await sql.query<{ id: string }>(`select r.id ${rows} limit $2`, params);
  return new Set(found.map(({ id }) => id));
}

/** The rows that match a query, as the end of a statement whose parameter $2 is `size`. */
function matchingRows(
  organisationId: string,
  feed: FeedName,
  query: FeedQuery,
  size: number | null,
): { rows: string; params: unknown[]; isPlanned: boolean } {
  const params: unknown[] = [organisationId, size];
  const conditions = ['r.organisation_id = $1', `r.feed = '${feed}'`, 'r.visible'];
  const where = (condition: string, value: unknown) => {
    if (value === undefined) return;
    params.push(value);
    conditions.push(condition.replace('?', `$${params.length}`));
  };
  const cursor = query.cursor === undefined ? undefined : readCursor(feed, query.cursor);
  const values: typeof query = { ...query, cursor };
  for (const [name, condition] of Object.entries(conditionOf))
    where(condition, values[name as keyof typeof conditionOf]);
  const tags = query.filter?.map(tagText);
  // What is said of an event stands with the event's own record.
  const ofEvent = feeds[feed].tagsOf === 'event' && (tags !== undefined || query.is_test !== undefined);
  const eventRow = ofEvent ? 'e' : 'r';
  where(`${eventRow}.tags @> ?::text[]`, tags);
  where(`${eventRow}.is_test = ?`, query.is_test);
  const event = `join service.feed_records e
    on e.organisation_id = $1 and e.feed = 'sourcing-events' and e.visible and e.sourcing_event = r.sourcing_event`;
  return {
    rows: `from service.feed_records r ${ofEvent ? event : ''} where ${conditions.join(' and ')}`,
    params,
    isPlanned: tags !== undefined || ofEvent || query.sourcing_requests !== undefined,
  };
}

/** The query of the next page: this query, with the place where this page ends. */
function nextQuery(feed: FeedName, query: FeedQuery, last: Timestamp): URLSearchParams {
  const next = new URLSearchParams();
  const { filter, include, cursor: _reached, ...single } = query;
  for (const [name, value] of Object.entries(single)) if (value !== undefined) next.set(name, String(value));
  for (const name of include ?? []) next.append('include', name);
  for (const { name, value } of filter ?? []) next.append(`filter[${tagFilterPrefix(feed)}${name}]`, value);
  next.set('cursor', writeCursor(feed, last));
  return next;
}

/**
 * A place in one feed. It does not contain filters: with other filters, reading goes on from this place under those.
 */
function writeCursor(feed: FeedName, last: Timestamp): string {
  return Buffer.from(`${feed} ${last}`).toString('base64url');
}

function readCursor(feed: FeedName, cursor: string): Timestamp {
  const [, last] = Buffer.from(cursor, 'base64url').toString().split(' ');
  const read = parseTimestamp(last ?? '');
  if (read !== undefined && writeCursor(feed, read) === cursor) return read;
  throw new AppError('invalid', 'The query is not valid: cursor is no cursor of this feed.', {
    issues: [{ path: 'cursor', message: 'is no cursor of this feed' }],
  });
}
