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
  audited: Timestamp | null;
  /** What an operator should know, although the feed is being read. */
  warning: string | null;
  /** For how many seconds the watermark has stood still; 0 while it moves. */
  stillSeconds: number;
  /** It stands still for longer than the lateness bound allows, and not because a pull fails or waits. */
  stalled: boolean;
  /** Since when the order of commits that the feed declares is not believed, and what was seen; null: it is. */
  orderBroken: Timestamp | null;
  orderBrokenWhy: string | null;
  /** Why the read for records without a time broke off, and when it begins again; null while it does not fail. */
  unfilteredWhy: string | null;
  unfilteredDue: Timestamp | null;
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
    `select source, feed, watermark, last_pull as "lastPull", next_pull as "nextPull", failures,
       last_error as "lastError", coalesce(commit_ordered, false) as ordered, warning,
       stalled_since as "stalledSince", stalled_why as "stalledWhy", order_broken as "orderBroken",
       order_broken_why as "orderBrokenWhy", unfiltered_why as "unfilteredWhy", unfiltered_due as "unfilteredDue",
       late_arrivals as "lateArrivals", audited, lateness_ms::float8 / 1000 as "raisedSeconds",
       (select modified from bridge.mirror m where m.source = c.source and m.feed = c.feed
        order by modified desc limit 1) as newest,
       -- A record that is stamped in the future counts from its own time on.
       (select greatest(seen, modified) from bridge.mirror m
        where m.source = c.source and m.feed = c.feed and m.modified > coalesce(c.watermark, 'epoch')
        order by modified limit 1) as "unprovedSince",
       (select count(*)::int from bridge.inbox i
        where i.source = c.source and i.feed = c.feed and i.id > c.answered) as waiting,
       (select count(*)::int from bridge.suspect_versions d where d.source = c.source and d.feed = c.feed) as suspects
     from bridge.checkpoints c order by source, feed`,
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
  return shown.toSorted((a, b) => (`${a.source} ${a.feed}` < `${b.source} ${b.feed}` ? -1 : 1));
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
  suspects: 0,
  lateArrivals: 0,
  audited: null,
  warning: null,
  stalledSince: null,
  stalledWhy: null,
  unprovedSince: null,
  orderBroken: null,
  orderBrokenWhy: null,
  unfilteredWhy: null,
  unfilteredDue: null,
};
