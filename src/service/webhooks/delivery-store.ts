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
 * same bytes. So neither waits for the disk: a server that crashes causes the same. Source: API document, "Events";
 * decisions, "Webhooks".
 */
import { addMicros, msFromTimestamp, type Timestamp, timestampFromMs } from '#contract/timestamp.ts';
import type { Trigger } from '#contract/webhook.ts';
import { prepared, type Sql, withoutFlush } from '#platform/database/sql.ts';
import { disabledAfterMs, givenUpAfterMs, heldForMs, retryDelayMs } from './retry-schedule.ts';

/** A notification that this process has claimed. */
export interface ClaimedDelivery {
  id: string;
  trigger: Trigger;
  payload: Readonly<Record<string, unknown>>;
  created: Timestamp;
  /** Attempts to deliver this notification, the claimed one included. */
  attempts: number;
}

/** Where a webhook's notifications go, as the database has it: the secrets are sealed. */
export interface StoredReceiver {
  organisation_id: string;
  url: string;
  signing_key: Buffer;
  authentication: Buffer | null;
  /** Of the signature of Standard Webhooks; null: the webhook has none. */
  standard_key: Buffer | null;
  webhook_domains: string[];
  allowed_networks: string[];
}

/** What became of one attempt to deliver. */
export interface DeliveryAttempt {
  delivery: ClaimedDelivery;
  atMs: number;
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
  const rows = await sql.query<{ id: string }>(dueWebhooks, [now]);
  return rows.map((row) => row.id);
}

// From webhook to webhook, as the index has them: what a receiver that is down has left waiting is not read, which may be
// a million notifications.
const dueWebhooks = `with recursive waiting (webhook_id) as (
    (select webhook_id from service.deliveries where finished is null order by webhook_id limit 1)
    union all
    select (select d.webhook_id from service.deliveries d where d.finished is null and d.webhook_id > waiting.webhook_id
      order by d.webhook_id limit 1)
    from waiting where webhook_id is not null)
  select w.id from waiting join service.webhooks w on w.id = waiting.webhook_id
  cross join lateral (
    select from service.deliveries d
    where d.webhook_id = w.id and d.finished is null and d.due <= $1 and (d.state = 'pending' or d.claimed_until <= $1)
    order by d.due limit 1) as due
  where w.is_active and (w.held_until is null or w.held_until <= $1)`;

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

/** When the next notification after `now` becomes due, or the first webhook is held no longer; undefined when none waits. */
export async function nextDueDelivery(sql: Sql, now: Timestamp): Promise<Timestamp | undefined> {
  const [row] = await sql.query<{ due: Timestamp | null }>(
    `select least(
       (select d.due from service.deliveries d join service.webhooks w on w.id = d.webhook_id
        where d.finished is null and d.state = 'pending' and d.due > $1 and w.is_active order by d.due limit 1),
       (select min(held_until) from service.webhooks where held_until > $1 and is_active)) as due`,
    [now],
  );
  return row?.due ?? undefined;
}

/** How many notifications no receiver has accepted yet, counted up to `most`; those of disabled webhooks wait for nobody. */
export async function countWaitingDeliveries(sql: Sql, most: number): Promise<number> {
  const [row] = await sql.query<{ count: number }>(
    `select count(*)::int as count from (
       select from service.deliveries d join service.webhooks w on w.id = d.webhook_id
       where w.is_active and d.finished is null limit $1) as waiting`,
    [most],
  );
  return row?.count ?? 0;
}

/**
 * Claims the next due notifications of a webhook, up to `most`, for this process. Returns none when the webhook is held,
 * disabled or deleted. Notifications that another process is claiming are skipped. Does not wait for the disk: what a
 * server that crashes forgets as claimed is claimed, and sent, once more.
 */
export function claimDueDeliveries(
  sql: Sql,
  webhookId: string,
  { now, claimMs, most }: { now: Timestamp; claimMs: number; most: number },
): Promise<ClaimedDelivery[]> {
  return sql.query<ClaimedDelivery>(claimDue, [webhookId, addMicros(now, claimMs * 1000), now, most]);
}

// What it changes is in no index, and the page has room for it: a claim writes into the table only. It finds the rows by
// their places in the table, where their locks hold them. One that was changed just before is left out: who did that signals
// the lane.
const claimDue = prepared(
  `update service.deliveries set state = 'sending', claimed_until = $2, attempts = attempts + 1,
     first_attempt = coalesce(first_attempt, $3)
   where (select ${withoutFlush}) is not null and ctid = any(array(
     select ctid from service.deliveries
     where webhook_id = (
         select id from service.webhooks where id = $1 and is_active and (held_until is null or held_until <= $3))
       and finished is null and due <= $3 and (state = 'pending' or claimed_until <= $3)
     order by due, created limit $4 for no key update skip locked))
   returning id, trigger, payload, created, attempts`,
);

/** Where a webhook's notifications go; undefined when it was deleted. */
export async function readReceiver(sql: Sql, webhookId: string): Promise<StoredReceiver | undefined> {
  const [row] = await sql.query<StoredReceiver>(storedReceiver, [webhookId]);
  return row;
}

const storedReceiver = prepared(
  `select w.organisation_id, w.url, w.signing_key, w.authentication, w.standard_key, o.webhook_domains, o.allowed_networks
   from service.webhooks w join service.organisations o on o.id = w.organisation_id where w.id = $1`,
);

/** Settles attempts that were accepted, in one statement: nearly every batch has no others. */
export async function settleAccepted(
  sql: Sql,
  webhookId: string,
  attempts: readonly DeliveryAttempt[],
  now: Timestamp,
): Promise<void> {
  await sql.query(writeAccepted, [...loggedAttempts(attempts), now, webhookId]);
}

/** Three columns: the delivery, the attempt's number, and what the log of the delivery keeps of it, without nulls. */
function loggedAttempts(attempts: readonly DeliveryAttempt[]): unknown[][] {
  return [
    attempts.map(({ delivery }) => delivery.id),
    attempts.map(({ delivery }) => delivery.attempts),
    attempts.map(({ delivery, atMs, status, durationMs, error, operatorError, excerpt }) =>
      JSON.stringify({
        number: delivery.attempts,
        time: timestampFromMs(atMs),
        status: status ?? undefined,
        duration_ms: durationMs,
        error: error ?? undefined,
        operator_error: operatorError ?? undefined,
        response_excerpt: excerpt ?? undefined,
      }),
    ),
  ];
}

const attempt = `unnest($1::uuid[], $2::int[], $3::jsonb[]) as attempt (delivery_id, number, entry)`;
/** An outcome that is settled twice is one attempt. */
const isNotLogged = `not d.attempt_log @> jsonb_build_array(jsonb_build_object('number', attempt.number))`;

/**
 * Also where the claim has run out meanwhile: the receiver has accepted the notification. Writes nothing for a delivery
 * that was deleted meanwhile, together with its webhook.
 */
const writeAccepted = prepared(
  `with healthy as (
     update service.webhooks set failing_since = null where id = $5 and failing_since is not null),
   delivered as (
     update service.deliveries d set state = 'delivered', finished = $4, claimed_until = null,
       attempt_log = d.attempt_log || attempt.entry
     from ${attempt} where d.id = attempt.delivery_id and ${isNotLogged})
   select ${withoutFlush}`,
);

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
  const now = timestampFromMs(nowMs);
  const accepted = attempts.filter(({ status }) => isAccepted(status));
  const failed = attempts.filter(({ status }) => !isAccepted(status));
  if (accepted.length > 0) await settleAccepted(tx, webhookId, accepted, now);
  await tx.query(
    `update service.deliveries d set attempt_log = d.attempt_log || attempt.entry
     from ${attempt} where d.id = attempt.delivery_id and ${isNotLogged}`,
    loggedAttempts(failed),
  );
  const released = await releaseAll(tx, untried);
  const unfinished: { delivery: ClaimedDelivery; attempt?: DeliveryAttempt }[] = [
    ...untried.filter(({ id }) => !released.has(id)).map((delivery) => ({ delivery })),
    ...failed.map((attempt) => ({ delivery: attempt.delivery, attempt })),
  ];
  // The newest first: of two of one trigger the newer one stays.
  unfinished.sort((a, b) => (a.delivery.created < b.delivery.created ? 1 : -1));
  for (const { delivery, attempt } of unfinished)
    if (attempt) await scheduleRetry(tx, webhookId, attempt, nowMs, random);
    else await release(tx, webhookId, delivery, now);
  if (attempts.length === 0) return undefined;
  const gone = failed.some(({ status }) => status === 410);
  const failingSince = accepted.length > 0 ? null : (webhook.failing_since ?? now);
  const failedTooLong = failingSince !== null && nowMs - msFromTimestamp(failingSince) >= disabledAfterMs;
  const disable = gone || failedTooLong;
  const heldMs = heldForMs(
    failed.map(({ retryAfterMs }) => retryAfterMs),
    random,
  );
  await tx.query(
    `update service.webhooks set failing_since = $2, is_active = is_active and not $3,
       held_until = greatest(held_until, $4::timestamptz) where id = $1`,
    [webhookId, failingSince, disable, heldMs === undefined ? null : timestampFromMs(nowMs + heldMs)],
  );
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
    `update service.webhooks set is_active = true, failing_since = null, held_until = null
     where id = $1 and not is_active returning id`,
    [webhookId],
  );
  if (resumed.length === 0) return false;
  // Negative: the attempts until now are no failures of the new schedule.
  await tx.query(
    `update service.deliveries set due = least(due, $2), first_attempt = null, earlier_failures = -attempts
     where webhook_id = $1 and finished is null and state = 'pending'`,
    [webhookId, now],
  );
  return true;
}

/** A disabled webhook keeps the newest notification of each trigger, to be sent when it is resumed. */
async function keepNewestPending(tx: Sql, webhookId: string, now: Timestamp): Promise<void> {
  await tx.query(
    `update service.deliveries as older set state = 'superseded', finished = $2
     where webhook_id = $1 and finished is null and state = 'pending' and exists (
       select from service.deliveries newer
       where newer.webhook_id = $1 and newer.trigger = older.trigger and newer.finished is null
         and newer.state = 'pending' and (newer.created, newer.id) > (older.created, older.id))`,
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
  { delivery, atMs, retryAfterMs }: DeliveryAttempt,
  nowMs: number,
  random: () => number,
): Promise<void> {
  const [begun] = await tx.query<{ earlier_failures: number; first_attempt: Timestamp }>(
    'select earlier_failures, coalesce(first_attempt, $2) as first_attempt from service.deliveries where id = $1',
    [delivery.id, timestampFromMs(atMs)],
  );
  // Its retention has deleted it, after another process had ended it.
  if (!begun) return;
  const now = timestampFromMs(nowMs);
  const failures = delivery.attempts + begun.earlier_failures;
  const dueMs = nowMs + retryDelayMs(failures, retryAfterMs, random);
  const due = timestampFromMs(dueMs);
  const givenUp = dueMs - msFromTimestamp(begun.first_attempt) > givenUpAfterMs;
  const newer = await tx.query(
    `update service.deliveries set due = greatest(due, $3), earlier_failures = greatest(earlier_failures, $4)
     where webhook_id = $1 and coalescing_trigger = $2 returning id`,
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
 * Releases claims of notifications that do not coalesce as if they had never been made, and returns their ids: of a large
 * claim nearly all are such ones.
 */
async function releaseAll(tx: Sql, untried: readonly ClaimedDelivery[]): Promise<Set<string>> {
  if (untried.length === 0) return new Set();
  const rows = await tx.query<{ id: string }>(
    `update service.deliveries d set state = 'pending', claimed_until = null, attempts = d.attempts - 1,
       first_attempt = case when d.attempts > 1 then first_attempt end
     from unnest($1::uuid[], $2::int[]) as claimed (id, attempts)
     where d.id = claimed.id and d.state = 'sending' and d.attempts = claimed.attempts and not d.coalesces
     returning d.id`,
    [untried.map(({ id }) => id), untried.map(({ attempts }) => attempts)],
  );
  return new Set(rows.map(({ id }) => id));
}

/**
 * Releases the claim of one that coalesces as if it had never been made. The notification ends if a newer one of its
 * trigger is pending by now.
 */
async function release(tx: Sql, webhookId: string, delivery: ClaimedDelivery, now: Timestamp): Promise<void> {
  const { id, trigger, attempts } = delivery;
  await tx.query(
    `update service.deliveries set claimed_until = null, attempts = attempts - 1,
       first_attempt = case when attempts > 1 then first_attempt end,
       state = case when newer.waits then 'superseded' else 'pending' end,
       finished = case when newer.waits then $4::timestamptz end
     from (select exists (select from service.deliveries
             where webhook_id = $2 and coalescing_trigger = $5) as waits) as newer
     where id = $1 and state = 'sending' and attempts = $3 and coalesces`,
    [id, webhookId, attempts, now, trigger],
  );
}
