/**
 * The rows of alerts, notices and messages. Each function is part of a transaction under the lease `alerts`, so one
 * process at a time decides what is an alert and what is sent. A process that dies at any line leaves rows from which
 * the next one goes on.
 */
import { msFromTimestamp, type Timestamp, timestampFromMs } from '#contract/timestamp.ts';
import type { Sql } from '#platform/database/sql.ts';
import { timeOrderedId } from '#platform/time-ordered-id.ts';
import { storableText } from '../storable-text.ts';
import type { Alert, AlertMessage, Condition } from './alert.ts';
import type { ChannelSettings } from './alert-settings.ts';

/** What is gone for less is not over: what comes and goes is one alert. */
const overAfterMs = 60_000;

const columns = 'id, kind, subject, grouped_by as "group", summary, action, started, ended';

/**
 * Compares the conditions with the open alerts: opens, refreshes and ends them. Returns those that have started and
 * those that have ended.
 */
export async function noteConditions(
  tx: Sql,
  conditions: readonly Condition[],
  now: Timestamp,
): Promise<{ started: Alert[]; ended: Alert[] }> {
  const open = await tx.query<Alert & { gone: Timestamp | null }>(
    `select ${columns}, gone from bridge.alerts where ended is null`,
  );
  const keyOf = ({ kind, subject, group }: Condition) => JSON.stringify([kind, subject, group]);
  const byKey = new Map(open.map((alert) => [keyOf(alert), alert]));
  const started: Alert[] = [];
  for (const condition of conditions) {
    const { kind, subject, group, summary, action } = condition;
    const known = byKey.get(keyOf(condition));
    byKey.delete(keyOf(condition));
    if (!known) {
      const id = timeOrderedId(msFromTimestamp(now));
      await tx.query(
        `insert into bridge.alerts (id, kind, subject, grouped_by, summary, action, started)
         values ($1, $2, $3, $4, $5, $6, $7)`,
        [id, kind, subject, group, storableText(summary), action, now],
      );
      started.push({ ...condition, id, started: now, ended: null });
    } else if (known.gone !== null || known.summary !== storableText(summary) || known.action !== action)
      await tx.query('update bridge.alerts set summary = $2, action = $3, gone = null where id = $1', [
        known.id,
        storableText(summary),
        action,
      ]);
  }
  const ended: Alert[] = [];
  for (const { gone, ...alert } of byKey.values()) {
    if (gone === null) await tx.query('update bridge.alerts set gone = $2 where id = $1', [alert.id, now]);
    else if (Math.abs(msFromTimestamp(now) - msFromTimestamp(gone)) >= overAfterMs) {
      await tx.query('update bridge.alerts set ended = $2 where id = $1', [alert.id, now]);
      ended.push({ ...alert, ended: now });
    }
  }
  return { started, ended };
}

/**
 * Notes what the channel is to be told: each alert when it starts, once more when it lasts, and when it ends. A channel
 * that is new is told of what is open.
 */
export async function addNotices(
  tx: Sql,
  { name, kinds }: Pick<ChannelSettings, 'name' | 'kinds'>,
  { reminderHours, now }: { reminderHours: number; now: Timestamp },
): Promise<void> {
  const known = (event: string) =>
    `select from bridge.alert_notices n where n.alert = a.id and n.channel = $1 and n.event = '${event}'`;
  const add = (event: string, condition: string, more: readonly unknown[] = []) =>
    tx.query(
      `insert into bridge.alert_notices (alert, channel, event, noticed)
       select a.id, $1, '${event}', $2::timestamptz from bridge.alerts a where ${condition}
       on conflict do nothing`,
      [name, now, ...more],
    );
  await add('started', `a.ended is null and a.kind = any($3) and not exists (${known('started')})`, [kinds]);
  if (reminderHours > 0)
    await add(
      'reminder',
      `a.ended is null and a.gone is null and not exists (${known('reminder')})
       and exists (${known('started')} and n.noticed <= $2::timestamptz - $3 * interval '1 hour')`,
      [reminderHours],
    );
  // A channel that was away from the settings for a week is not told of what has ended meanwhile.
  await add(
    'ended',
    `a.ended > $2::timestamptz - interval '7 days' and exists (${known('started')}) and not exists (${known('ended')})`,
  );
}

/** More alerts of one message are only counted. */
const shownMax = 30;

/**
 * Makes the channel's next message of the notices that wait, if it is time for it: the channel sends no other message,
 * its notices have gathered for long enough, and the hour has room for one more. The message is stored with its text.
 */
export async function makeMessage(
  tx: Sql,
  channel: Pick<ChannelSettings, 'name' | 'gather_seconds' | 'messages_per_hour'>,
  { bridge, now }: { bridge: string; now: Timestamp },
): Promise<void> {
  const [state] = await tx.query<{ isBusy: boolean; lately: number; oldest: Timestamp | null }>(
    `select exists (select from bridge.alert_messages where channel = $1 and due is not null) as "isBusy",
       (select count(*)::int from bridge.alert_messages
        where channel = $1 and made > $2::timestamptz - interval '1 hour') as lately,
       (select min(noticed) from bridge.alert_notices where channel = $1 and message is null) as oldest`,
    [channel.name, now],
  );
  if (!state || state.isBusy || state.oldest === null || state.lately >= channel.messages_per_hour) return;
  // The absolute difference: after the clock was set back, alerts must not wait until it has caught up.
  if (Math.abs(msFromTimestamp(now) - msFromTimestamp(state.oldest)) < channel.gather_seconds * 1_000) return;
  const waiting = await tx.query<AlertMessage['alerts'][number]>(
    `select a.id, n.event, a.kind, a.subject, a.started, a.ended, a.summary, a.action
     from bridge.alert_notices n join bridge.alerts a on a.id = n.alert
     where n.channel = $1 and n.message is null order by n.noticed, n.event desc, a.id`,
    [channel.name],
  );
  const message: AlertMessage = {
    id: timeOrderedId(msFromTimestamp(now)),
    bridge,
    made: now,
    test: false,
    alerts: waiting.slice(0, shownMax),
    more: Math.max(0, waiting.length - shownMax),
  };
  await tx.query('insert into bridge.alert_messages (id, channel, body, made, due) values ($1, $2, $3, $4, $4)', [
    message.id,
    channel.name,
    JSON.stringify(message),
    now,
  ]);
  await tx.query('update bridge.alert_notices set message = $2 where channel = $1 and message is null', [
    channel.name,
    message.id,
  ]);
}

export interface DueMessage {
  readonly id: string;
  readonly channel: string;
  readonly message: AlertMessage;
  readonly attempts: number;
}

/** Returns the messages to send now, at most one of each channel. */
export async function readDueMessages(sql: Sql, channels: readonly string[], now: Timestamp): Promise<DueMessage[]> {
  const rows = await sql.query<{ id: string; channel: string; body: string; attempts: number }>(
    'select id, channel, body, attempts from bridge.alert_messages where channel = any($1) and due <= $2 order by made',
    [channels, now],
  );
  return rows.map(({ body, ...row }) => ({ ...row, message: JSON.parse(body) as AlertMessage }));
}

/** A message that could not be sent for so long is given up: newer ones tell of what is still wrong. */
const triedHours = 24;

/** Notes what became of a try: sent, or an error and the time of the next try. Returns whether it was given up. */
export async function noteTry(
  tx: Sql,
  id: string,
  result: { error: string; waitMs: number } | undefined,
  now: Timestamp,
): Promise<boolean> {
  if (result === undefined) {
    await tx.query(
      `update bridge.alert_messages set sent = $2, due = null, last_error = null, attempts = attempts + 1
       where id = $1 and due is not null`,
      [id, now],
    );
    return false;
  }
  const [noted] = await tx.query<{ isGivenUp: boolean }>(
    `with tried as (
       select id, made < $2::timestamptz - interval '${triedHours} hours' as over from bridge.alert_messages where id = $1)
     update bridge.alert_messages m set attempts = attempts + 1, last_error = $3,
       due = case when t.over then null else $4::timestamptz end,
       given_up = case when t.over then $2::timestamptz end
     from tried t where m.id = t.id and m.due is not null returning t.over as "isGivenUp"`,
    [id, now, storableText(result.error), timestampFromMs(msFromTimestamp(now) + result.waitMs)],
  );
  return noted?.isGivenUp ?? false;
}

/** Deletes alerts that ended, and messages that were made, more than `days` ago. */
export async function pruneAlerts(tx: Sql, days: number, now: Timestamp): Promise<void> {
  await tx.query(`delete from bridge.alerts where ended < $1::timestamptz - $2 * interval '1 day'`, [now, days]);
  await tx.query(`delete from bridge.alert_messages where made < $1::timestamptz - $2 * interval '1 day'`, [now, days]);
}

/** The state of a channel. */
export interface ChannelState {
  readonly channel: string;
  /** When a message was last sent. */
  readonly sent: Timestamp | null;
  /** The message that waits to be sent or failed, how often it was tried, and why it failed. */
  readonly attempts: number;
  readonly lastError: string | null;
  readonly nextTry: Timestamp | null;
  /** Messages that were given up within the last day. */
  readonly givenUp: number;
  /** How many notices wait for a message. */
  readonly waiting: number;
}

/** Returns the state of these channels, in their order. */
export function readChannels(sql: Sql, channels: readonly string[], now: Timestamp): Promise<ChannelState[]> {
  return sql.query<ChannelState>(
    `select c.name as channel, coalesce(m.attempts, 0) as attempts, m.last_error as "lastError", m.due as "nextTry",
       (select max(sent) from bridge.alert_messages where channel = c.name) as sent,
       (select count(*)::int from bridge.alert_messages
        where channel = c.name and given_up > $2::timestamptz - interval '1 day') as "givenUp",
       (select count(*)::int from bridge.alert_notices where channel = c.name and message is null) as waiting
     from unnest($1::text[]) with ordinality as c (name, place)
     left join bridge.alert_messages m on m.channel = c.name and m.due is not null order by c.place`,
    [channels, now],
  );
}

/** Returns the open alerts, the oldest first, and with `endedSince` also those that have ended since then. */
export function readAlerts(sql: Sql, { endedSince }: { endedSince?: Timestamp } = {}): Promise<Alert[]> {
  return sql.query<Alert>(
    `select ${columns} from bridge.alerts where ended is null or ended > $1 order by ended is not null, started, id
     limit 500`,
    [endedSince ?? 'infinity'],
  );
}
