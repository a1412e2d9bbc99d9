/**
 * The deliverer: the worker of the lane `deliveries`, one webhook a key. A notification is claimed (committed) before it
 * is sent and settled after, so a process that dies in between leaves a claim that runs out, and the notification is
 * sent again: at least once, with the same bytes. Source: API document, "Events"; decisions, "Webhooks".
 */
import { signBody } from '#contract/signature.ts';
import { addMicros, msFromTimestamp, type Timestamp, timestampFromMs } from '#contract/timestamp.ts';
import type { Clock } from '#platform/clock.ts';
import type { Database, Sql } from '#platform/database/database.ts';
import { errorText } from '#platform/errors.ts';
import type { GuardedFetch, GuardedResponse } from '#platform/guarded-fetch.ts';
import type { Logger } from '#platform/log.ts';
import { Counter, type Registry } from '#platform/metrics.ts';
import { domainAllowed, parseCidrs } from '#platform/network-guard.ts';
import { readRetryAfterMs } from '#platform/retry-after.ts';
import type { SecretBox } from '#platform/secrets.ts';
import {
  disabledAfterMs,
  exchangeMs,
  givenUpAfterMs,
  responseBytesMax,
  retryDelayMs,
} from '../domain/delivery-schedule.ts';
import { signingKeyContext } from './webhook-row.ts';

export interface DelivererDeps {
  database: Database;
  fetch: GuardedFetch;
  secrets: SecretBox;
  clock: Clock;
  log: Logger;
  registry: Registry;
  /** 0 to 1, for jitter. */
  random: () => number;
}

interface Delivery {
  id: string;
  trigger: string;
  payload: object;
  created: Timestamp;
  /** Tries of this one, the claimed one included. */
  attempts: number;
  /** Failed tries of those that it replaced. */
  earlier_failures: number;
  first_attempt: Timestamp;
}

interface Target {
  id: string;
  url: string;
  signing_key: Buffer;
  webhook_domains: string[];
  allowed_networks: string[];
}

interface Attempt {
  delivery: Delivery;
  at: Timestamp;
  durationMs: number;
  status: number | null;
  error: string | null;
  excerpt: string | null;
  retryAfterMs: number | undefined;
}

/** As many as may be sent to one origin at once: one that waited for a connection would lose time of its exchange. */
const batchSize = 4;
/** Longer than an exchange can take: a claim that has run out belongs to a process that is gone. */
const claimMs = exchangeMs + 10_000;
const excerptCharacters = 500;

export function createDeliverer(deps: DelivererDeps) {
  const outcomes = new Counter({
    name: 'webhook_attempts_total',
    help: 'Attempts to deliver a notification, by outcome',
    labelNames: ['outcome'],
    registers: [deps.registry],
  });
  return {
    /** Delivers what is due for one webhook; returns when nothing is. */
    deliver: async (webhookId: string, signal: AbortSignal): Promise<void> => {
      while (!signal.aborted) {
        const claimed = await deps.database.transaction((tx) => claim(tx, webhookId, deps.clock.nowMs()));
        if (!claimed) return;
        let attempts = await Promise.all(
          claimed.deliveries.map((delivery) => attempt(deps, claimed.target, delivery, signal)),
        );
        // Cut short by us, so nobody knows: the claim is left to run out, and the notification is sent again.
        if (signal.aborted) attempts = attempts.filter(({ status }) => status !== null);
        if (attempts.length === 0) return;
        for (const { status } of attempts) outcomes.inc({ outcome: isSuccess(status) ? 'delivered' : 'failed' });
        await deps.database.transaction((tx) => settle(tx, webhookId, attempts, deps));
      }
    },
    /** The webhooks that have something due: what the sweep wakes. */
    webhooksWithDue: async (): Promise<string[]> => {
      const rows = await deps.database.query<{ webhook_id: string }>(
        `select distinct d.webhook_id from service.deliveries d join service.webhooks w on w.id = d.webhook_id
         where w.is_active and ((d.state = 'pending' and d.due <= $1) or (d.state = 'sending' and d.claimed_until <= $1))`,
        [timestampFromMs(deps.clock.nowMs())],
      );
      return rows.map((row) => row.webhook_id);
    },
  };
}

async function claim(
  tx: Sql,
  webhookId: string,
  nowMs: number,
): Promise<{ target: Target; deliveries: Delivery[] } | undefined> {
  const [target] = await tx.query<Target>(
    `select w.id, w.url, w.signing_key, o.webhook_domains, o.allowed_networks
     from service.webhooks w join service.organisations o on o.id = w.organisation_id
     where w.id = $1 and w.is_active`,
    [webhookId],
  );
  if (!target) return undefined;
  const now = timestampFromMs(nowMs);
  const deliveries = await tx.query<Delivery>(
    `update service.deliveries set state = 'sending', claimed_until = $2, attempts = attempts + 1,
       first_attempt = coalesce(first_attempt, $3)
     where id in (
       select id from service.deliveries
       where webhook_id = $1 and ((state = 'pending' and due <= $3) or (state = 'sending' and claimed_until <= $3))
       order by due limit ${batchSize} for update skip locked)
     returning id, trigger, payload, created, attempts, earlier_failures, first_attempt`,
    [webhookId, addMicros(now, claimMs * 1000), now],
  );
  return deliveries.length === 0 ? undefined : { target, deliveries };
}

/** Sends once. Every way it can fail is an attempt, not an exception. */
async function attempt(deps: DelivererDeps, target: Target, delivery: Delivery, signal: AbortSignal): Promise<Attempt> {
  const startedMs = deps.clock.nowMs();
  const at = timestampFromMs(startedMs);
  const took = () => Math.max(0, Math.round(deps.clock.nowMs() - startedMs));
  try {
    const answer = await send(deps, target, delivery, { nowMs: startedMs, signal });
    return {
      delivery,
      at,
      durationMs: took(),
      status: answer.status,
      error: isSuccess(answer.status) ? null : `answered ${answer.status}`,
      // PostgreSQL keeps no NUL, and the receiver may send anything.
      excerpt: answer.body.toString('utf8').replaceAll('\u0000', '').slice(0, excerptCharacters),
      retryAfterMs: readRetryAfterMs(answer.headers['retry-after'], startedMs),
    };
  } catch (error) {
    return {
      delivery,
      at,
      durationMs: took(),
      status: null,
      error: errorText(error),
      excerpt: null,
      retryAfterMs: undefined,
    };
  }
}

async function send(
  deps: DelivererDeps,
  target: Target,
  delivery: Delivery,
  { nowMs, signal }: { nowMs: number; signal: AbortSignal },
): Promise<GuardedResponse> {
  const host = new URL(target.url).hostname;
  if (!domainAllowed(host, target.webhook_domains)) throw new Error(`the host "${host}" is no longer whitelisted`);
  const body = JSON.stringify({ trigger: delivery.trigger, timestamp: delivery.created, payload: delivery.payload });
  return deps.fetch({
    url: target.url,
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      'x-signature': signBody(body, deps.secrets.open(target.signing_key, signingKeyContext(target.id))),
      'webhook-id': delivery.id,
      'webhook-timestamp': String(Math.floor(nowMs / 1000)),
      'webhook-attempt': String(delivery.attempts),
    },
    body,
    allowedNetworks: parseCidrs(target.allowed_networks),
    timeoutMs: exchangeMs,
    responseBytesMax,
    signal,
  });
}

function isSuccess(status: number | null): boolean {
  return status !== null && status >= 200 && status < 300;
}

async function settle(tx: Sql, webhookId: string, attempts: readonly Attempt[], deps: DelivererDeps): Promise<void> {
  // Held until the commit: a command that announces something waits, so `pending` can be looked at and then changed.
  const [webhook] = await tx.query<{ failing_since: Timestamp | null }>(
    'select failing_since from service.webhooks where id = $1 for update',
    [webhookId],
  );
  // It was deleted meanwhile, and its deliveries with it.
  if (!webhook) return;
  await tx.query(
    `insert into service.delivery_attempts (delivery_id, number, at, status, duration_ms, error, response_excerpt)
     select * from unnest($1::uuid[], $2::int[], $3::timestamptz[], $4::int[], $5::int[], $6::text[], $7::text[])
     on conflict do nothing`,
    [
      attempts.map(({ delivery }) => delivery.id),
      attempts.map(({ delivery }) => delivery.attempts),
      attempts.map(({ at }) => at),
      attempts.map(({ status }) => status),
      attempts.map(({ durationMs }) => durationMs),
      attempts.map(({ error }) => error),
      attempts.map(({ excerpt }) => excerpt),
    ],
  );
  const nowMs = deps.clock.nowMs();
  const now = timestampFromMs(nowMs);
  const delivered = attempts.filter(({ status }) => isSuccess(status));
  const failed = attempts.filter(({ status }) => !isSuccess(status));
  await tx.query(
    `update service.deliveries set state = 'delivered', finished = $2, claimed_until = null where id = any($1)`,
    [delivered.map(({ delivery }) => delivery.id), now],
  );
  // The newest first: of two of one trigger that failed together, it is the one to stay.
  failed.sort((a, b) => (a.delivery.created < b.delivery.created ? 1 : -1));
  for (const one of failed) await reschedule(tx, webhookId, one, nowMs, deps.random);
  const gone = failed.some(({ status }) => status === 410);
  const failingSince = delivered.length > 0 ? null : (webhook.failing_since ?? now);
  const tooLong = failingSince !== null && nowMs - msFromTimestamp(failingSince) >= disabledAfterMs;
  const disable = gone || tooLong;
  await tx.query('update service.webhooks set failing_since = $2, is_active = is_active and not $3 where id = $1', [
    webhookId,
    failingSince,
    disable,
  ]);
  if (!disable) return;
  await keepNewestPending(tx, webhookId, now);
  deps.log.warn({ webhook: webhookId, gone }, 'webhook disabled');
}

/** What a disabled webhook keeps: for each trigger the newest notification, for when it is set right. */
async function keepNewestPending(tx: Sql, webhookId: string, now: Timestamp): Promise<void> {
  await tx.query(
    `update service.deliveries as one set state = 'superseded', finished = $2
     where webhook_id = $1 and state = 'pending' and exists (
       select from service.deliveries newer
       where newer.webhook_id = $1 and newer.trigger = one.trigger and newer.state = 'pending'
         and (newer.created, newer.id) > (one.created, one.id))`,
    [webhookId, now],
  );
}

/** Back to `pending` for its next try, unless a newer notification of its trigger waits: that one takes its turn over. */
async function reschedule(
  tx: Sql,
  webhookId: string,
  { delivery, retryAfterMs }: Attempt,
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
    `update service.deliveries set state = $2, due = $3, claimed_until = null, finished = $4 where id = $1`,
    [delivery.id, state, due, state === 'pending' ? null : now],
  );
}
