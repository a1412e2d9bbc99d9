/**
 * What each channel was told of, one row for each condition that lasts. Each function that writes is part of a
 * transaction under the lease `alerts`. A process that dies at any line leaves rows from which the next one goes on.
 *
 * | row of (email, flow-paused, flow sap)         | told | gone | message | event   |
 * |-----------------------------------------------|------|------|---------|---------|
 * | noticed                                       |      |      |         |         |
 * | a message is made of all that wait, and sent  |      |      | 7c1…    | began   |
 * | the receiver has taken it                     | 9:01 |      |         |         |
 * | a day later                                   | 9:01 |      | 88a…    | lasts   |
 * | gone for a minute                             | 9:01 | 9:30 | 91d…    | ended   |
 * | the receiver has taken it: the row is deleted |      |      |         |         |
 *
 * The rows of a message are not touched until it is sent or given up: a repeat has the same id and the same text.
 */
import type { AlertChannel } from '#bridge/settings/alert-settings.ts';
import { msFromTimestamp, type Timestamp, timestampFromMs } from '#contract/timestamp.ts';
import type { Sql } from '#platform/database/sql.ts';
import { storableText } from '#platform/database/storable-text.ts';
import { firstIdAt, timeOrderedId } from '#platform/time-ordered-id.ts';
import { type Condition, passingKinds, type UnsentAlerts } from '../status/conditions.ts';

/** What is gone for less is not over: what comes and goes is one alert. */
const overAfterMs = 60_000;
/** A condition that lasts is told of once a day. */
const againMs = 24 * 3_600_000;
/** A message that could not be sent for so long is given up: the next ones tell of what is still wrong. */
const triedMs = 24 * 3_600_000;

/** Compares the conditions with what the channel was told of, and makes its next message if one is to be sent. */
export async function noteConditions(
  tx: Sql,
  channel: AlertChannel,
  conditions: readonly Condition[],
  { now, behindMinutes }: { now: Timestamp; behindMinutes: number },
): Promise<void> {
  const before = (ms: number) => timestampFromMs(msFromTimestamp(now) - ms);
  const own = conditions.filter(({ kind, subject }) => kind !== 'alerts-not-sent' || subject !== `alerts ${channel}`);
  await tx.query(
    `insert into bridge.alerts as a (channel, kind, subject, id, since, summary, action)
     select $1, * from unnest($2::text[], $3::text[], $4::uuid[], $5::timestamptz[], $6::text[], $7::text[])
     on conflict (channel, kind, subject) do update
       set summary = excluded.summary, action = excluded.action, gone = null
       where a.message is null
         and (a.gone, a.summary, a.action) is distinct from (null::timestamptz, excluded.summary, excluded.action)`,
    [
      channel,
      own.map(({ kind }) => kind),
      own.map(({ subject }) => subject),
      own.map(() => timeOrderedId(msFromTimestamp(now))),
      own.map(({ since }) => since ?? now),
      own.map(({ summary }) => storableText(summary)),
      own.map(({ action }) => action),
    ],
  );
  await tx.query(
    `with missing as (
       select kind, subject from bridge.alerts where channel = $1 and message is null
       except select * from unnest($2::text[], $3::text[])),
     forgotten as (
       delete from bridge.alerts a using missing m
       where a.channel = $1 and a.kind = m.kind and a.subject = m.subject and a.told is null)
     update bridge.alerts a set gone = $4 from missing m
     where a.channel = $1 and a.kind = m.kind and a.subject = m.subject and a.told is not null and a.gone is null`,
    [channel, own.map(({ kind }) => kind), own.map(({ subject }) => subject), now],
  );
  await tx.query(
    `with waiting as (
       select kind, subject, case when told is null then 'began' when gone is null then 'lasts' else 'ended' end as event
       from bridge.alerts
       where channel = $1 and case
         when told is null then not kind = any($3) or since <= $4
         when gone is null then told <= $5
         else gone <= $6 end)
     update bridge.alerts a set message = $2, event = w.event, tries = 0, due = $7
     from waiting w where a.channel = $1 and a.kind = w.kind and a.subject = w.subject
       and not exists (select from bridge.alerts open where open.channel = $1 and open.message is not null)`,
    [
      channel,
      timeOrderedId(msFromTimestamp(now)),
      passingKinds,
      before(behindMinutes * 60_000),
      before(againMs),
      before(overAfterMs),
      now,
    ],
  );
}

export type AlertEvent = 'began' | 'lasts' | 'ended';

/** A condition in a message. Its id is the same from its beginning to its end. */
export interface ToldCondition extends Pick<Condition, 'kind' | 'subject' | 'summary' | 'action'> {
  readonly id: string;
  readonly event: AlertEvent;
  readonly since: Timestamp;
}

/** One message to one channel. */
export interface AlertMessage {
  /** The same for each try to send this message: a receiver that knows it may drop the repeat. */
  readonly id: string;
  /** The bridge's `public_host`. */
  readonly bridge: string;
  /** The first ones. */
  readonly alerts: readonly ToldCondition[];
  /** How many further ones did not fit: `bridge status` shows all that lasts. */
  readonly more: number;
}

/** More conditions of one message are only counted. */
const shownMax = 30;

/** Returns the message that is to be sent to the channel now, and how often it was tried; undefined: none is. */
export async function readDueMessage(
  sql: Sql,
  channel: AlertChannel,
  { bridge, now }: { bridge: string; now: Timestamp },
): Promise<{ message: AlertMessage; tries: number } | undefined> {
  const rows = await sql.query<ToldCondition & { message: string; tries: number; count: number }>(
    `select id, event, kind, subject, since, summary, action, message, tries, (count(*) over ())::int as count
     from bridge.alerts where channel = $1 and message is not null and due <= $2
     order by event, since, id limit ${shownMax}`,
    [channel, now],
  );
  const [first] = rows;
  if (!first) return undefined;
  const alerts = rows.map(({ id, event, kind, subject, since, summary, action }) => ({
    id,
    event,
    kind,
    subject,
    since,
    summary,
    action,
  }));
  return {
    message: { id: first.message, bridge, alerts, more: first.count - rows.length },
    tries: first.tries,
  };
}

/** Notes that the receiver has taken the message, or that it is given up. */
export async function noteMessageSent(tx: Sql, message: string, now: Timestamp): Promise<void> {
  await tx.query(`delete from bridge.alerts where message = $1 and event = 'ended'`, [message]);
  await tx.query(
    `update bridge.alerts set told = $2, message = null, event = null, due = null, error = null where message = $1`,
    [message, now],
  );
}

/** Notes why the message was not taken, and when it is tried next. Returns whether it was given up. */
export async function noteFailure(
  tx: Sql,
  message: string,
  { error, waitMs, now }: { error: string; waitMs: number; now: Timestamp },
): Promise<boolean> {
  const nowMs = msFromTimestamp(now);
  if (message < firstIdAt(nowMs - triedMs)) {
    await noteMessageSent(tx, message, now);
    return true;
  }
  await tx.query(`update bridge.alerts set tries = tries + 1, error = $2, due = $3 where message = $1`, [
    message,
    storableText(error),
    timestampFromMs(nowMs + waitMs),
  ]);
  return false;
}

/** Deletes what channels that are no longer configured were told of. */
export async function forgetOtherChannels(tx: Sql, channels: readonly AlertChannel[]): Promise<void> {
  await tx.query('delete from bridge.alerts where not channel = any($1)', [channels]);
}

/** Returns the channels whose message was not taken when it was tried last. */
export function readUnsent(sql: Sql): Promise<UnsentAlerts[]> {
  return sql.query<UnsentAlerts>(
    `select channel, min(since) as since, min(error) as error from bridge.alerts
     where message is not null and error is not null group by channel order by channel`,
  );
}
