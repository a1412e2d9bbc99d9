/**
 * Audits in SQL: when an audit is due, and what its end changes in the checkpoint. One operation a function.
 *
 * An audit is a backfill that the bridge starts by itself: `audit` reads the last hours before the watermark again and
 * counts late arrivals; `full` reads the whole feed again and also finds records that have vanished.
 */

import type { SourceSettings } from '#bridge/settings/settings.ts';
import type { FeedName } from '#contract/feed.ts';
import { addMicros, type Timestamp } from '#contract/timestamp.ts';
import type { Database } from '#platform/database/database.ts';
import type { Sql } from '#platform/database/sql.ts';
import type { FeedId } from '../feed/checkpoint-store.ts';
import { type Backfill, insertBackfill } from './backfill-store.ts';

const hourMicros = 3_600_000_000;
/** Each audit that has found late arrivals doubles the lateness bound, up to an hour. */
const latenessMostMs = 3_600_000;
const beginning: Timestamp = '1970-01-01T00:00:00.000000Z';

type AuditSettings = Pick<SourceSettings, 'name' | 'audit_hours' | 'audit_window_hours' | 'audit_full_days'>;

/** SQL: feeds with the times at which an interval ends that is over now, as `auditTimes` gives them; null: none is made. */
const withTimes = `unnest($2::text[], $3::text[], $4::timestamptz[], $5::timestamptz[]) as own (source, feed, audit, full_audit)
  where c.source = own.source and c.feed = own.feed`;

/**
 * SQL: the interval that began at the column's time has passed. A time that is still to come was stored before the
 * clock was set back: that interval counts as passed, too.
 */
function isOver(column: string, since: string): string {
  return `(${since} is not null and (${column} <= ${since} or ${column} > $1::timestamptz + interval '1 minute'))`;
}

/** SQL: no such audit of `bridge.checkpoints c` is open. */
function isNotOpen(which: string): string {
  return `not exists (select from bridge.backfills b where b.source = c.source and b.feed = c.feed and ${which})`;
}

/**
 * SQL: an audit that does the work of this kind is open in `bridge.backfills b`. An audit of the whole feed does the work
 * of one of the window, unless it cannot get on.
 */
const isOpen = {
  full: `b.finished is null and b.cancelled is null and b.kind = 'full'`,
  audit: `b.finished is null and b.cancelled is null and (b.kind = 'audit' or b.kind = 'full' and b.failures = 0)`,
};

/** SQL: such an audit of `bridge.checkpoints c`, by intervals that end at these times, is due and not open yet. */
function dueBy(audit: string, fullAudit: string) {
  const isDue = {
    full: `((c.audit_asked is not null or ${isOver('c.fully_audited', fullAudit)}) and ${isNotOpen(isOpen.full)})`,
    audit: `(${isOver('c.audited', audit)} and ${isNotOpen(isOpen.audit)})`,
  };
  const any = `(c.watermark is not null or c.audit_asked is not null and c.last_pull is not null)
    and (c.audited is null or ${isDue.full} or ${isDue.audit})`;
  return { ...isDue, any };
}
const isDue = dueBy('own.audit', 'own.full_audit');

/** When an interval began that is over now; null: no audit is made. */
function intervalBefore(now: Timestamp, hours: number): Timestamp | null {
  return hours > 0 ? addMicros(now, -hours * hourMicros) : null;
}

/** The values of $1 to $5 of the statements above. */
function auditTimes(feeds: readonly { source: AuditSettings; feed: FeedName }[], now: Timestamp): unknown[] {
  return [
    now,
    feeds.map(({ source }) => source.name),
    feeds.map(({ feed }) => feed),
    feeds.map(({ source }) => intervalBefore(now, source.audit_hours)),
    feeds.map(({ source }) => intervalBefore(now, source.audit_full_days * 24)),
  ];
}

/** The shortest of the intervals in hours; 0 when no audit is made. */
function shortest(hours: readonly number[]): number {
  const made = hours.filter((each) => each > 0);
  return made.length > 0 ? made.reduce((a, b) => Math.min(a, b)) : 0;
}

/**
 * Opens the audits that are due of these sources' feeds. It is called with every sweep, and nearly always none is: so the
 * first statement has no value for each feed, and finds those that would be due if all had the shortest interval.
 */
export async function openDueAudits(
  database: Database,
  sources: readonly (AuditSettings & Pick<SourceSettings, 'feeds'>)[],
  now: Timestamp,
): Promise<void> {
  const perhaps = nameSet(
    await database.query<FeedId>(
      `select c.source, c.feed from bridge.checkpoints c where ${dueBy('$2::timestamptz', '$3::timestamptz').any}`,
      [
        now,
        intervalBefore(now, shortest(sources.map(({ audit_hours }) => audit_hours))),
        intervalBefore(now, shortest(sources.map(({ audit_full_days }) => audit_full_days * 24))),
      ],
    ),
  );
  const feeds = sources.flatMap((source) =>
    source.feeds.filter((feed) => perhaps.has(`${source.name}/${feed}`)).map((feed) => ({ source, feed })),
  );
  if (feeds.length === 0) return;
  const due = nameSet(
    await database.query<FeedId>(
      `select c.source, c.feed from bridge.checkpoints c, ${withTimes} and ${isDue.any}`,
      auditTimes(feeds, now),
    ),
  );
  for (const { source, feed } of feeds)
    if (due.has(`${source.name}/${feed}`)) await database.transaction((tx) => openDueAudit(tx, source, feed, now));
}

function nameSet(feeds: readonly FeedId[]): ReadonlySet<string> {
  return new Set(feeds.map(({ source, feed }) => `${source}/${feed}`));
}

/**
 * Opens the audit of the feed that is due, unless one is open already. The whole feed is audited when that was
 * requested or its interval has passed; otherwise the window before the watermark, or before now where the source's
 * stamps lie in the future. The first audit comes its interval after the first pull. Of a feed without a watermark, as
 * none of its records has a time, only a requested audit is made. Several processes may call it at once: it opens one
 * audit.
 */
async function openDueAudit(tx: Sql, source: AuditSettings, feed: FeedName, now: Timestamp): Promise<void> {
  const id: FeedId = { source: source.name, feed };
  const [row] = await tx.query<{ end: Timestamp; full: boolean; window: boolean }>(
    `update bridge.checkpoints c set audited = coalesce(c.audited, $1), fully_audited = coalesce(c.fully_audited, $1)
     from ${withTimes} and ${isDue.any}
     returning least(c.watermark, $1) as "end", ${isDue.full} as full, ${isDue.audit} as window`,
    auditTimes([{ source, feed }], now),
  );
  if (!row || (!row.full && !row.window)) return;
  const kind = row.full ? 'full' : 'audit';
  // Checked again under the lock, as another process may have opened it just now.
  const opened = await tx.query(
    `select from bridge.backfills b where b.source = $1 and b.feed = $2 and ${isOpen[kind]} limit 1`,
    [source.name, feed],
  );
  if (opened.length > 0) return;
  await insertBackfill(tx, id, {
    kind,
    from: row.full ? beginning : addMicros(row.end, -source.audit_window_hours * hourMicros),
    to: row.end,
    now,
  });
}

export async function addLateArrivals(tx: Sql, { source, feed }: FeedId, count: number): Promise<void> {
  await tx.query('update bridge.checkpoints set late_arrivals = late_arrivals + $3 where source = $1 and feed = $2', [
    source,
    feed,
    count,
  ]);
}

/** For an audit that was cancelled: the next one comes after its usual interval. */
export async function skipAudit(tx: Sql, { source, feed }: FeedId, audit: Backfill, now: Timestamp): Promise<void> {
  await tx.query(
    `update bridge.checkpoints set audited = $3,
       fully_audited = case when $4 then $3 else fully_audited end,
       audit_asked = case when $4 and audit_asked <= $5 then null else audit_asked end
     where source = $1 and feed = $2`,
    [source, feed, now, audit.kind === 'full', audit.asked],
  );
}

/**
 * Stores the end of an audit: its interval begins again, and an audit that has found late arrivals raises the lateness
 * bound of a feed that does not declare its order.
 */
export async function finishAudit(
  tx: Sql,
  { source, feed }: FeedId,
  audit: Backfill,
  options: { latenessMs: number; warning: string | undefined; now: Timestamp },
): Promise<void> {
  const full = audit.kind === 'full';
  await tx.query(
    `update bridge.checkpoints set audited = $3,
       fully_audited = case when $4 then $3 else fully_audited end,
       audit_asked = case when $4 and audit_asked <= $5 then null else audit_asked end,
       warning = case when $4 then $6 else warning end,
       lateness_ms = case when $7 and commit_ordered is not true
         then least($8::bigint, $9::bigint * 2) else lateness_ms end,
       -- Records without a time lie in no window: the next pull reads the feed without a filter once more.
       -- What the passes find counts as found by this audit.
       (unfiltered, unfiltered_pass, unfiltered_audit) = (
         select case when passes then null else unfiltered end, case when passes then 1 else unfiltered_pass end,
           case when passes then $10::bigint else unfiltered_audit end
         from (select $4 and commit_ordered is not true and exists (
           select from bridge.mirror m where m.source = $1 and m.feed = $2 and m.modified <= 'epoch')) as t (passes))
     where source = $1 and feed = $2`,
    [
      source,
      feed,
      options.now,
      full,
      audit.asked,
      options.warning ?? null,
      audit.lateArrivals > 0,
      Math.max(latenessMostMs, options.latenessMs),
      options.latenessMs,
      audit.id,
    ],
  );
}
