/**
 * Audits in SQL: when an audit is due, and what its end changes. One operation a function.
 *
 * An audit is a backfill that the bridge starts by itself: `audit` reads the last hours before the watermark again and
 * counts late arrivals; `full` reads the whole feed again and also finds records that have vanished; `untimed` reads the
 * records that have no time, which lie in no window.
 */

import { withoutTime } from '#bridge/mirror/read-version.ts';
import type { SourceSettings } from '#bridge/settings/settings.ts';
import { addMicros, type Timestamp } from '#contract/timestamp.ts';
import type { Database } from '#platform/database/database.ts';
import type { Sql } from '#platform/database/sql.ts';
import { type FeedId, learnProfile, lockCheckpoint, lockCheckpoints, readProfile } from '../feed/checkpoint-store.ts';
import {
  type AskedBackfill,
  type Backfill,
  insertBackfill,
  insertBackfills,
  openUntimedRead,
} from './backfill-store.ts';

const hourMicros = 3_600_000_000;
/** Each audit that has found late arrivals doubles the lateness bound, up to an hour. */
const latenessMostMs = 3_600_000;
const beginning: Timestamp = '1970-01-01T00:00:00.000000Z';

type AuditSettings = Pick<SourceSettings, 'name' | 'audit_hours' | 'audit_window_hours' | 'audit_full_days' | 'feeds'>;

/** When a feed was last audited; where it never was, when it was first read, or was set back to its beginning. */
interface AuditTimes extends FeedId {
  readonly watermark: Timestamp | null;
  readonly isOrdered: boolean;
  readonly wasRead: boolean;
  readonly audited: Timestamp;
  readonly fullyAudited: Timestamp;
  /** An audit of the whole feed does the work of one of a window, unless it cannot get on. */
  readonly isAuditOpen: boolean;
  readonly isFullOpen: boolean;
  readonly hasUntimedRead: boolean;
}

/** An audit that was cancelled counts as made: the next one comes after its usual interval. */
async function readAuditTimes(sql: Sql, only?: readonly FeedId[]): Promise<AuditTimes[]> {
  return sql.query<AuditTimes>(
    `select c.source, c.feed, c.watermark, c.source_profile ? 'orderProved' as "isOrdered",
       c.last_pull is not null as "wasRead",
       coalesce(max(b.ended) filter (where b.kind in ('audit', 'full')), c.created) as audited,
       coalesce(max(b.ended) filter (where b.kind = 'full'), c.created) as "fullyAudited",
       coalesce(bool_or(b.ended is null and (b.kind = 'audit' or b.kind = 'full' and b.failures = 0)), false)
         as "isAuditOpen",
       coalesce(bool_or(b.ended is null and b.kind = 'full'), false) as "isFullOpen",
       coalesce(bool_or(b.kind = 'untimed'), false) as "hasUntimedRead"
     from bridge.checkpoints c left join (
       select source, feed, kind, failures, coalesce(finished, cancelled) as ended from bridge.backfills
       where kind <> 'range') b using (source, feed)
     where $1::text[] is null or (c.source, c.feed) in (select * from unnest($1::text[], $2::text[]))
     group by c.source, c.feed`,
    [only?.map(({ source }) => source) ?? null, only?.map(({ feed }) => feed) ?? null],
  );
}

/** Of thousands that are due at once, after a first start, more would delay what is read by schedule. */
const openedMax = 200;

/**
 * Opens the audits that are due of these sources' feeds; of very many some, and the next call others. Of a feed without a
 * watermark, as none of its records has a time, none is made by itself. Several processes may call it at once: each audit
 * is opened once.
 */
export async function openDueAudits(
  database: Database,
  sources: readonly AuditSettings[],
  now: Timestamp,
): Promise<void> {
  const settings = new Map(sources.map((source) => [source.name, source]));
  const dueOf = (times: readonly AuditTimes[]) =>
    times.flatMap((feed) => {
      const source = settings.get(feed.source);
      return source?.feeds.some((name) => name === feed.feed) ? dueAudit(feed, source, now) : [];
    });
  const seen = dueOf(await readAuditTimes(database)).slice(0, openedMax);
  if (seen.length === 0) return;
  await database.transaction(async (tx) => {
    await lockCheckpoints(tx, seen);
    // Checked again under the locks, as another process may have opened them just now.
    await insertBackfills(tx, dueOf(await readAuditTimes(tx, seen)), now);
  });
}

/** The audit of the feed that is due and not open yet; none or one. */
function dueAudit(feed: AuditTimes, source: AuditSettings, now: Timestamp): AskedBackfill[] {
  const { source: name, feed: feedName, watermark } = feed;
  const asked = { source: name, feed: feedName };
  if (feed.wasRead && !feed.isOrdered && !feed.hasUntimedRead)
    return [{ ...asked, kind: 'untimed', from: withoutTime, to: withoutTime }];
  if (watermark === null) return [];
  const to = endOf(watermark, now);
  if (!feed.isFullOpen && isOver(feed.fullyAudited, source.audit_full_days * 24, now))
    return [{ ...asked, kind: 'full', from: beginning, to }];
  if (feed.isAuditOpen || !isOver(feed.audited, source.audit_hours, now)) return [];
  return [{ ...asked, kind: 'audit', from: addMicros(to, -source.audit_window_hours * hourMicros), to }];
}

/**
 * Whether the interval that began then has passed; no audit is made where it is 0. A time that is still to come was stored
 * before the clock was set back: that interval counts as passed, too.
 */
function isOver(since: Timestamp, hours: number, now: Timestamp): boolean {
  return hours > 0 && (since <= addMicros(now, -hours * hourMicros) || since > addMicros(now, hourMicros / 60));
}

/** Where an audit ends: at the watermark; now, where there is none, or where the source's stamps lie in the future. */
function endOf(watermark: Timestamp | null, now: Timestamp): Timestamp {
  return watermark !== null && watermark < now ? watermark : now;
}

/** Opens an audit of the whole feed that an operator has asked for. */
export async function openAskedAudit(tx: Sql, feed: FeedId, now: Timestamp): Promise<void> {
  await lockCheckpoint(tx, feed);
  const [held] = await readAuditTimes(tx, [feed]);
  await insertBackfill(tx, feed, { kind: 'full', from: beginning, to: endOf(held?.watermark ?? null, now), now });
}

/**
 * Stores the end of an audit: what an operator should know, and a longer lateness bound where it has found late arrivals in
 * a feed that does not declare its order. Records without a time lie in no window: after an audit of the whole feed they
 * are read once more.
 */
export async function finishAudit(
  tx: Sql,
  feed: FeedId,
  audit: Backfill,
  options: { latenessMs: number; warning: string | undefined; now: Timestamp },
): Promise<void> {
  const { latenessMs, warning = null, now } = options;
  await tx.query('update bridge.backfills set warning = $2 where id = $1', [audit.id, warning]);
  const { orderProved } = await readProfile(tx, feed);
  if (orderProved !== undefined) return;
  if (audit.lateArrivals > 0)
    await learnProfile(tx, feed, { latenessMs: Math.min(Math.max(latenessMostMs, latenessMs), latenessMs * 2) });
  if (audit.kind === 'full' && (await holdsUntimed(tx, feed))) await openUntimedRead(tx, feed, { passes: 0, now });
}

async function holdsUntimed(tx: Sql, { source, feed }: FeedId): Promise<boolean> {
  const rows = await tx.query(
    `select from bridge.mirror where source = $1 and feed = $2 and modified <= 'epoch' limit 1`,
    [source, feed],
  );
  return rows.length > 0;
}
