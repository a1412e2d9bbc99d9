/** The notifications that came in and were genuine, the newest first, and what they led to. */
import { feedNames } from '#contract/feed.ts';
import type { Timestamp } from '#contract/timestamp.ts';
import type { Sql } from '#platform/database/sql.ts';

export interface LoggedNotification {
  readonly id: number;
  readonly source: string;
  readonly trigger: string;
  readonly feed: string | null;
  /** As it was received: JSON text. */
  readonly body: string;
  readonly received: Timestamp;
  /** When a pull had read the feed because of it; null: none has, or the notification announces no feed. */
  readonly answered: Timestamp | null;
  /** That pull; null as `answered`. */
  readonly pull: string | null;
}

/** `before` is the id of the last one of the page before. Reads along the index by feed, for each feed a page. */
export function readNotifications(
  sql: Sql,
  { sources, before, limit }: { sources: readonly string[]; before: number | undefined; limit: number },
): Promise<LoggedNotification[]> {
  const rows = 'i.id, i.source, i.trigger, i.feed, i.body, i.received';
  const page = `and ($3::bigint is null or i.id < $3) order by i.id desc limit ${Math.trunc(limit)}`;
  return sql.query<LoggedNotification>(
    `select p.*, a.answered, a.pull from (
       select i.* from unnest($1::text[]) as s (name) cross join unnest($2::text[]) as f (name) cross join lateral (
         select ${rows} from bridge.inbox i where i.source = s.name and i.feed = f.name ${page}) i
       union all
       select i.* from unnest($1::text[]) as s (name) cross join lateral (
         select ${rows} from bridge.inbox i where i.source = s.name and i.feed is null ${page}) i
       order by id desc limit ${Math.trunc(limit)}) p
     left join lateral (
       select a.answered, a.pull from bridge.answers a
       where a.source = p.source and a.feed = p.feed and a.last_id >= p.id and a.after_id < p.id
       order by a.last_id limit 1) a on true
     order by p.id desc`,
    [sources, feedNames, before ?? null],
  );
}
