/**
 * The state of each notification, as it stands in `service.deliveries`:
 *
 *     pending  --claimed by a process-->                             sending
 *     sending  --the receiver accepted it-->                         delivered
 *     sending  --the attempt failed-->                               pending, with a later `due`
 *     sending  --the attempt failed, too late for another one-->     failed
 *     sending  --the attempt failed, and a newer one is pending-->   superseded
 *     sending  --the claim ran out: its process is gone-->           claimed by another process
 *
 * A claim is committed before the notification is sent, and its outcome is settled after. A process that dies in
 * between leaves a claim that runs out, and the notification is sent again: at least once, with the same id and the
 * same bytes. Source: API document, "Events"; decisions, "Webhooks".
 */
import { addMicros, msFromTimestamp, type Timestamp, timestampFromMs } from '#contract/timestamp.ts';
import { prepared, type Sql } from '#platform/database/sql.ts';
import { disabledAfterMs, givenUpAfterMs, retryDelayMs } from './retry-schedule.ts';

/** A notification that this process has claimed. */
export interface ClaimedDelivery {
  id: string;
  trigger: string;
  coalesces: boolean;
  payload: object;
  created: Timestamp;
  /** Attempts to deliver this notification, the claimed one included. */
  attempts: number;
  /** Failed attempts of the notifications that it replaced. Negative after a resend, which restarts the schedule. */
  earlier_failures: number;
  first_attempt: Timestamp;
}

/** Where a webhook's notifications go, as the database has it: the secrets are sealed. */
export interface StoredReceiver {
  organisation_id: string;
  url: string;
  signing_key: Buffer;
  authentication: Buffer | null;
  webhook_domains: string[];
  allowed_networks: string[];
}

/** What became of one attempt to deliver. */
export interface DeliveryAttempt {
  delivery: ClaimedDelivery;
  at: Timestamp;
  durationMs: number;
  /** The receiver's answer; null when there was none. */
  status: number | null;
  /** For the organisation. */
  error: string | null;
  /** For the operator, where it says more than `error`. */
  operatorError: string | null;
  excerpt: string | null;
  retryAfterMs: number | undefined;
}

/** Whether the receiver has accepted the notification. */
export function isAccepted(status: number | null): boolean {
  return status !== null && status >= 200 && status < 300;
}

/** The ids of the active webhooks that have a notification due, or one whose claim has run out. */
export async function webhooksWithDueDeliveries(sql: Sql, now: Timestamp): Promise<string[]> {
  const rows = await sql.query<{ webhook_id: string }>(
    `select distinct d.webhook_id from service.deliveries d join service.webhooks w on w.id = d.webhook_id
     where w.is_active and ((d.state = 'pending' and d.due <= $1) or (d.state = 'sending' and d.claimed_until <= $1))`,
    [now],
  );
  return rows.map((row) => row.webhook_id);
}

/** Whose webhook it is, and whether its last notification failed; undefined when it is disabled or deleted. */
export async function readWebhookOwner(
  sql: Sql,
  webhookId: string,
): Promise<{ organisationId: string; isFailing: boolean } | undefined> {
  const [row] = await sql.query<{ organisation_id: string; is_failing: boolean }>(webhookOwner, [webhookId]);
  return row && { organisationId: row.organisation_id, isFailing: row.is_failing };
}

const webhookOwner = prepared(
  'select organisation_id, failing_since is not null as is_failing from service.webhooks where id = $1 and is_active',
);

/** When the next notification after `now` becomes due; undefined when none waits. */
export async function nextDueDelivery(sql: Sql, now: Timestamp): Promise<Timestamp | undefined> {
  const [row] = await sql.query<{ due: Timestamp }>(
    `select d.due from service.deliveries d join service.webhooks w on w.id = d.webhook_id
     where d.state = 'pending' and d.due > $1 and w.is_active order by d.due limit 1`,
    [now],
  );
  return row?.due;
}

/**
 * Claims the next due notifications of a webhook, up to `most`, for this process. The first is returned with the receiver
 * as it is stored now: to read it with each would cost as much as the rest of them. Returns none when the webhook is
 * disabled or deleted. Notifications that another process is claiming are skipped.
 */
export async function claimDueDeliveries(
  sql: Sql,
  webhookId: string,
  { now, claimMs, most }: { now: Timestamp; claimMs: number; most: number },
): Promise<[] | [ClaimedDelivery & StoredReceiver, ...ClaimedDelivery[]]> {
  const rows = await sql.query<ClaimedDelivery & StoredReceiver>(claimDue, [
    webhookId,
    addMicros(now, claimMs * 1000),
    now,
    most,
  ]);
  const [first, ...rest] = rows;
  return first ? [first, ...rest] : [];
}

const claimDue = prepared(
  `with claimed as (
     update service.deliveries set state = 'sending', claimed_until = $2, attempts = attempts + 1,
       first_attempt = coalesce(first_attempt, $3)
     where id in (
       select id from service.deliveries
       where webhook_id = (select id from service.webhooks where id = $1 and is_active)
         and state in ('pending', 'sending')
         and ((state = 'pending' and due <= $3) or (state = 'sending' and claimed_until <= $3))
       order by due, created limit $4 for update skip locked)
     returning id, trigger, coalesces, payload, created, attempts, earlier_failures, first_attempt)
   select c.id, c.trigger, c.coalesces, c.payload, c.created, c.attempts, c.earlier_failures, c.first_attempt, r.*
   from (select row_number() over () as place, * from claimed) c
     left join (
       select 1 as at, w.organisation_id, w.url, w.signing_key, w.authentication, o.webhook_domains, o.allowed_networks
       from service.webhooks w join service.organisations o on o.id = w.organisation_id where w.id = $1) r
     on r.at = c.place
   order by c.place`,
);

/** Settles a batch of which every notification was accepted, in one statement: nearly every batch is such a one. */
export async function settleAccepted(
  sql: Sql,
  webhookId: string,
  attempts: readonly DeliveryAttempt[],
  now: Timestamp,
): Promise<void> {
  await sql.query(writeAccepted, [...attemptColumns(attempts), now, webhookId]);
}

/** Writes nothing for a delivery that was deleted meanwhile, together with its webhook. */
const writeAccepted = prepared(
  `with attempt (delivery_id, number, at, status, duration_ms, error, response_excerpt) as (
     select * from unnest($1::uuid[], $2::int[], $3::timestamptz[], $4::int[], $5::int[], $6::text[], $7::text[])),
   delivered as (
     update service.deliveries set state = 'delivered', finished = $8, claimed_until = null
     where id in (select delivery_id from attempt) returning id),
   healthy as (
     update service.webhooks set failing_since = null where id = $9 and failing_since is not null)
   insert into service.delivery_attempts (delivery_id, number, at, status, duration_ms, error, response_excerpt)
   select attempt.* from attempt join delivered on delivered.id = attempt.delivery_id
   on conflict do nothing`,
);

function attemptColumns(attempts: readonly DeliveryAttempt[]): unknown[][] {
  return [
    attempts.map(({ delivery }) => delivery.id),
    attempts.map(({ delivery }) => delivery.attempts),
    attempts.map(({ at }) => at),
    attempts.map(({ status }) => status),
    attempts.map(({ durationMs }) => durationMs),
    attempts.map(({ error }) => error),
    attempts.map(({ excerpt }) => excerpt),
  ];
}

/**
 * Settles any batch, in the caller's transaction: the accepted are delivered, the failed are scheduled for a retry or
 * given up, the untried are released. A webhook that answered 410 or has failed for too long is disabled; then it
 * returns whether the reason was 410 (`gone`), else undefined. Does nothing when the webhook was deleted meanwhile.
 */
export async function settleBatch(
  tx: Sql,
  webhookId: string,
  { attempts, untried }: { attempts: readonly DeliveryAttempt[]; untried: readonly ClaimedDelivery[] },
  { nowMs, random }: { nowMs: number; random: () => number },
): Promise<{ gone: boolean } | undefined> {
  // Locked until the commit: a command that enqueues a notification waits, so `pending` rows can be read and then
  // changed.
  const [webhook] = await tx.query<{ failing_since: Timestamp | null }>(
    'select failing_since from service.webhooks where id = $1 for update',
    [webhookId],
  );
  if (!webhook) return undefined;
  await tx.query(
    `insert into service.delivery_attempts
       (delivery_id, number, at, status, duration_ms, error, response_excerpt, operator_error)
     select * from
       unnest($1::uuid[], $2::int[], $3::timestamptz[], $4::int[], $5::int[], $6::text[], $7::text[], $8::text[])
     on conflict do nothing`,
    [...attemptColumns(attempts), attempts.map(({ operatorError }) => operatorError)],
  );
  const now = timestampFromMs(nowMs);
  const accepted = attempts.filter(({ status }) => isAccepted(status));
  const failed = attempts.filter(({ status }) => !isAccepted(status));
  await tx.query(
    `update service.deliveries set state = 'delivered', finished = $2, claimed_until = null where id = any($1)`,
    [accepted.map(({ delivery }) => delivery.id), now],
  );
  // The newest first: when two of one trigger are released together, the newer one stays. None that was tried is newer.
  for (const delivery of untried.toReversed()) await release(tx, webhookId, delivery, now);
  if (attempts.length === 0) return undefined;
  failed.sort((a, b) => (a.delivery.created < b.delivery.created ? 1 : -1));
  for (const attempt of failed) await scheduleRetry(tx, webhookId, attempt, nowMs, random);
  const gone = failed.some(({ status }) => status === 410);
  const failingSince = accepted.length > 0 ? null : (webhook.failing_since ?? now);
  const failedTooLong = failingSince !== null && nowMs - msFromTimestamp(failingSince) >= disabledAfterMs;
  const disable = gone || failedTooLong;
  await tx.query('update service.webhooks set failing_since = $2, is_active = is_active and not $3 where id = $1', [
    webhookId,
    failingSince,
    disable,
  ]);
  if (!disable) return undefined;
  await keepNewestPending(tx, webhookId, now);
  return { gone };
}

/**
 * Makes a disabled webhook active again, in the caller's transaction, which has locked its row. The notifications that it
 * has kept are due now, and their retry schedules start anew, as does the time that it may fail. Returns whether it was
 * disabled: an active one stays as it is.
 */
export async function resumeWebhook(tx: Sql, webhookId: string, now: Timestamp): Promise<boolean> {
  const resumed = await tx.query(
    'update service.webhooks set is_active = true, failing_since = null where id = $1 and not is_active returning id',
    [webhookId],
  );
  if (resumed.length === 0) return false;
  // Negative: the attempts until now are no failures of the new schedule.
  await tx.query(
    `update service.deliveries set due = least(due, $2), first_attempt = null, earlier_failures = -attempts
     where webhook_id = $1 and state = 'pending'`,
    [webhookId, now],
  );
  return true;
}

/** A disabled webhook keeps the newest notification of each trigger, to be sent when it is resumed. */
async function keepNewestPending(tx: Sql, webhookId: string, now: Timestamp): Promise<void> {
  await tx.query(
    `update service.deliveries as older set state = 'superseded', finished = $2
     where webhook_id = $1 and state = 'pending' and exists (
       select from service.deliveries newer
       where newer.webhook_id = $1 and newer.trigger = older.trigger and newer.state = 'pending'
         and (newer.created, newer.id) > (older.created, older.id))`,
    [webhookId, now],
  );
}

/**
 * Makes a failed notification `pending` again, for its next attempt. If a newer one of its trigger is pending, that one
 * replaces it and takes over its due time and its count of failures.
 */
async function scheduleRetry(
  tx: Sql,
  webhookId: string,
  { delivery, retryAfterMs }: DeliveryAttempt,
  nowMs: number,
  random: () => number,
): Promise<void> {
  const now = timestampFromMs(nowMs);
  const failures = delivery.attempts + delivery.earlier_failures;
  const dueMs = nowMs + retryDelayMs(failures, retryAfterMs, random);
  const due = timestampFromMs(dueMs);
  const givenUp = dueMs - msFromTimestamp(delivery.first_attempt) > givenUpAfterMs;
  const newer = await tx.query(
    `update service.deliveries set due = greatest(due, $3), earlier_failures = greatest(earlier_failures, $4)
     where webhook_id = $1 and trigger = $2 and state = 'pending' and coalesces returning id`,
    [webhookId, delivery.trigger, due, failures],
  );
  const state = newer.length > 0 ? 'superseded' : givenUp ? 'failed' : 'pending';
  await tx.query(
    // Changes nothing if the claim has run out and another process has claimed or delivered the notification.
    `update service.deliveries set state = $2, due = $3, claimed_until = null, finished = $4
     where id = $1 and state = 'sending' and attempts = $5`,
    [delivery.id, state, due, state === 'pending' ? null : now, delivery.attempts],
  );
}

/**
 * Releases a claim as if it had never been made. The notification ends if a newer one of its trigger is pending by now.
 */
async function release(tx: Sql, webhookId: string, delivery: ClaimedDelivery, now: Timestamp): Promise<void> {
  const { id, trigger, coalesces, attempts } = delivery;
  await tx.query(
    `update service.deliveries set claimed_until = null, attempts = attempts - 1,
       first_attempt = case when attempts > 1 then first_attempt end,
       state = case when newer.waits then 'superseded' else 'pending' end,
       finished = case when newer.waits then $4::timestamptz end
     from (select $5::boolean and exists (select from service.deliveries
             where webhook_id = $2 and trigger = $6 and state = 'pending' and coalesces) as waits) as newer
     where id = $1 and state = 'sending' and attempts = $3`,
    [id, webhookId, attempts, now, coalesces, trigger],
  );
}
