/** How far the mirror of each feed is complete, read from the checkpoints. */
import type { BridgeSettings } from '#bridge/settings/settings.ts';
import type { Timestamp } from '#contract/timestamp.ts';
import type { Sql } from '#platform/database/sql.ts';
import { type FeedProgress, isStalled, type Lag, lagOfFeed, stillSeconds } from './feed-lag.ts';

export interface FeedStatus extends FeedProgress {
  source: string;
  feed: string;
  /** How many records audits found after the feed should have shown them. */
  lateArrivals: number;
  /** What an operator should know, although the feed is being read. */
  warning: string | null;
  /** For how many seconds the watermark has stood still; 0 while it moves. */
  stillSeconds: number;
  /** It stands still for longer than the lateness bound allows, and not because a pull fails or waits. */
  stalled: boolean;
  /** Since when the order of commits that the feed declares is not believed, and what was seen; null: it is. */
  orderBroken: Timestamp | null;
  orderBrokenWhy: string | null;
  lag: Lag;
}

/** Reads how far the configured feeds have been read. Rejects when the database is not available. */
export async function readFeedStatuses(
  sql: Sql,
  { sources }: Pick<BridgeSettings, 'sources'>,
  now: Timestamp,
): Promise<FeedStatus[]> {
  const rows = await sql.query<
    Omit<FeedStatus, 'lag' | 'pollSeconds' | 'latenessSeconds' | 'stillSeconds' | 'stalled'> & {
      raisedSeconds: number | null;
    }
  >(
    `select c.source, c.feed, watermark, last_pull as "lastPull", next_pull as "nextPull", c.failures,
       c.last_error as "lastError", source_profile ? 'orderProved' as ordered, stalled_why as "stalledWhy",
       source_profile ->> 'orderBroken' as "orderBroken", source_profile ->> 'orderBrokenWhy' as "orderBrokenWhy",
       (source_profile -> 'latenessMs')::float8 / 1000 as "raisedSeconds",
       coalesce(audits.late_arrivals, 0)::float8 as "lateArrivals", audits.warning, created,
       oldest.modified as oldest, newest.modified as newest, unproved.since as "unprovedSince",
       (select count(*)::int from bridge.inbox i
        where i.source = c.source and i.feed = c.feed and i.id > c.answered) as waiting
     from bridge.checkpoints c
       left join lateral (select modified from bridge.mirror m where m.source = c.source and m.feed = c.feed
         and m.modified > 'epoch' order by modified limit 1) oldest on true
       left join lateral (select modified from bridge.mirror m where m.source = c.source and m.feed = c.feed
         order by modified desc limit 1) newest on true
       -- A record that is stamped in the future counts from its own time on.
       left join lateral (select greatest(seen, modified) as since from bridge.mirror m where m.source = c.source
         and m.feed = c.feed and m.modified > coalesce(c.watermark, 'epoch') order by modified limit 1) unproved on true
       left join (select source, feed, sum(late_arrivals) as late_arrivals,
         (array_agg(warning order by id desc) filter (where kind = 'full' and finished is not null))[1] as warning
         from bridge.backfills where kind <> 'range' group by source, feed) audits using (source, feed)
     order by c.source, c.feed`,
  );
  const byFeed = new Map(rows.map((row) => [`${row.source} ${row.feed}`, row]));
  const shown = sources.flatMap((source) =>
    source.feeds.map((feed): FeedStatus => {
      const row = byFeed.get(`${source.name} ${feed}`);
      const { raisedSeconds, ...progress } = row ?? { ...neverRead, source: source.name, feed, nextPull: now };
      const state = {
        ...progress,
        pollSeconds: source.poll_seconds,
        latenessSeconds: Math.max(raisedSeconds ?? 0, source.lateness_seconds),
      };
      const still = {
        stillSeconds: stillSeconds(state, now),
        stalled: state.lastError === null && isStalled(state, now),
      };
      return { ...state, ...still, lag: row ? lagOfFeed(state, now) : neverStarted };
    }),
  );
  return shown.toSorted((a, b) => inOrder(a.source, b.source) || inOrder(a.feed, b.feed));
}

function inOrder(a: string, b: string): number {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}

const neverStarted: Lag = {
  seconds: null,
  inStep: false,
  why: 'no process with the role pull has begun with it yet',
};

const neverRead = {
  raisedSeconds: null,
  watermark: null,
  lastPull: null,
  newest: null,
  ordered: false,
  waiting: 0,
  failures: 0,
  lastError: null,
  lateArrivals: 0,
  warning: null,
  created: null,
  oldest: null,
  stalledWhy: null,
  unprovedSince: null,
  orderBroken: null,
  orderBrokenWhy: null,
};
