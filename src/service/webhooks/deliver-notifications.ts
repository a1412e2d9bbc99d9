/**
 * The deliverer: the worker of the lane `deliveries`, one webhook a key. A notification is claimed (committed) before it
 * is sent and settled after, so a process that dies in between leaves a claim that runs out, and the notification is
 * sent again: at least once, with the same bytes. Source: API document, "Events"; decisions, "Webhooks".
 */
import { signBody } from '#contract/signature.ts';
import { addMicros, msFromTimestamp, type Timestamp, timestampFromMs } from '#contract/timestamp.ts';
import type { Clock } from '#platform/clock.ts';
import { type Database, prepared, type Sql } from '#platform/database/database.ts';
import { createDueTimer } from '#platform/due-timer.ts';
import { AppError, errorText } from '#platform/errors.ts';
import type { GuardedFetch, GuardedResponse } from '#platform/guarded-fetch.ts';
import type { Logger } from '#platform/log.ts';
import { Counter, type Registry } from '#platform/metrics.ts';
import { type Cidr, domainAllowed, parseCidrs } from '#platform/network-guard.ts';
import type { Signals } from '#platform/queue.ts';
import { readRetryAfterMs } from '#platform/retry-after.ts';
import type { SecretBox } from '#platform/secrets.ts';
import {
  disabledAfterMs,
  exchangeMs,
  givenUpAfterMs,
  responseBytesMax,
  retryDelayMs,
} from '../domain/delivery-schedule.ts';
import type { AccessTokens, TokenParameters } from './access-tokens.ts';
import { authenticationContext, signingKeyContext } from './webhook-row.ts';

export interface DelivererDeps {
  database: Database;
  fetch: GuardedFetch;
  secrets: SecretBox;
  accessTokens: AccessTokens;
  signals: Pick<Signals, 'signal'>;
  clock: Clock;
  log: Logger;
  registry: Registry;
  /** 0 to 1, for jitter. */
  random: () => number;
}

interface Delivery {
  id: string;
  trigger: string;
  coalesces: boolean;
  payload: object;
  created: Timestamp;
  /** Tries of this one, the claimed one included. */
  attempts: number;
  /** Failed tries of those that it replaced; after a resend less than nothing, so that its own count from there. */
  earlier_failures: number;
  first_attempt: Timestamp;
}

/** A webhook as the database has it. */
interface SealedTarget {
  url: string;
  signing_key: Buffer;
  authentication: Buffer | null;
  webhook_domains: string[];
  allowed_networks: string[];
}

interface Target {
  id: string;
  url: string;
  signingKey: string;
  oauth: TokenParameters | undefined;
  allowedNetworks: readonly Cidr[];
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
const sentAtOnce = 4;
/** How many are claimed, and written down, together: a receiver that is quick gets many for the price of one commit. */
const batchSize = 16;
/** From a claim that is older than this nothing more is sent: a receiver that is slow gets few of the batch. */
const beginWithinMs = 5_000;
/** Longer than all of it can take: a claim that has run out belongs to a process that is gone. */
const claimMs = beginWithinMs + exchangeMs + 5_000;
const excerptCharacters = 500;

/** Waits, from now on, for the moment of the next try, so that it is on time. */
export function createDeliverer(deps: DelivererDeps) {
  const outcomes = new Counter({
    name: 'webhook_attempts_total',
    help: 'Attempts to deliver a notification, by outcome',
    labelNames: ['outcome'],
    registers: [deps.registry],
  });
  const due = () => webhooksWithDue(deps.database, deps.clock.nowMs());
  const keeper = createDueTimer({
    ...deps,
    lane: 'deliveries',
    due,
    nextMoment: (now) => nextTry(deps.database, now),
  });
  return {
    /** Delivers what is due for one webhook; returns when nothing is. */
    deliver: async (webhookId: string, signal: AbortSignal): Promise<void> => {
      // While what was delivered is being written down, the next ones are sent already. After a failure they wait: what
      // it puts off must not be overtaken.
      let written: Promise<unknown> = Promise.resolve();
      try {
        while (!signal.aborted) {
          const claimed = await claim(deps.database, webhookId, deps.clock.nowMs());
          if (claimed.length === 0) break;
          const target = once(() => openTarget(deps, webhookId, claimed[0] as SealedTarget));
          const { attempts, untried } = await tryAll(deps, target, claimed, signal);
          if (attempts.length + untried.length === 0) break;
          for (const { status } of attempts) outcomes.inc({ outcome: isSuccess(status) ? 'delivered' : 'failed' });
          await written;
          if (untried.length === 0 && attempts.every(({ status }) => isSuccess(status))) {
            written = settleDelivered(deps, webhookId, attempts);
            // Its rejection is met where it is awaited.
            written.catch(() => undefined);
          } else {
            await deps.database.transaction((tx) => settle(tx, webhookId, { attempts, untried }, deps));
            keeper.lookAgain();
          }
          // All that was due; what has come since has sent a signal.
          if (claimed.length < batchSize && untried.length === 0) break;
        }
      } finally {
        await written;
      }
    },
    /** The webhooks that have something due: what the sweep wakes. Also looks again for the next moment. */
    webhooksWithDue: async (): Promise<string[]> => {
      const webhookIds = await due();
      keeper.lookAgain();
      return webhookIds;
    },
    /** Ends the waiting. */
    close: (): Promise<void> => keeper.close(),
  };
}

async function webhooksWithDue(sql: Sql, nowMs: number): Promise<string[]> {
  const rows = await sql.query<{ webhook_id: string }>(
    `select distinct d.webhook_id from service.deliveries d join service.webhooks w on w.id = d.webhook_id
     where w.is_active and ((d.state = 'pending' and d.due <= $1) or (d.state = 'sending' and d.claimed_until <= $1))`,
    [timestampFromMs(nowMs)],
  );
  return rows.map((row) => row.webhook_id);
}

async function nextTry(sql: Sql, now: Timestamp): Promise<Timestamp | undefined> {
  const [row] = await sql.query<{ due: Timestamp }>(
    `select d.due from service.deliveries d join service.webhooks w on w.id = d.webhook_id
     where d.state = 'pending' and d.due > $1 and w.is_active order by d.due limit 1`,
    [now],
  );
  return row?.due;
}

/**
 * Takes the next due ones for this process, with the webhook as it is now: nothing where it is disabled or deleted. What
 * another process is claiming is passed over.
 */
async function claim(sql: Sql, webhookId: string, nowMs: number): Promise<(Delivery & SealedTarget)[]> {
  const now = timestampFromMs(nowMs);
  return sql.query<Delivery & SealedTarget>(claimDue, [webhookId, addMicros(now, claimMs * 1000), now]);
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
       order by due, created limit ${batchSize} for update skip locked)
     returning id, trigger, coalesces, payload, created, attempts, earlier_failures, first_attempt, webhook_id)
   select c.id, c.trigger, c.coalesces, c.payload, c.created, c.attempts, c.earlier_failures, c.first_attempt,
     w.url, w.signing_key, w.authentication, o.webhook_domains, o.allowed_networks
   from claimed c join service.webhooks w on w.id = c.webhook_id
     join service.organisations o on o.id = w.organisation_id`,
);

/** Throws where it may not be sent to, or its secrets cannot be read: then that is the outcome of each attempt. */
function openTarget({ secrets }: DelivererDeps, id: string, sealed: SealedTarget): Target {
  const host = new URL(sealed.url).hostname;
  if (!domainAllowed(host, sealed.webhook_domains)) throw new Error(`the host "${host}" is no longer whitelisted`);
  return {
    id,
    url: sealed.url,
    signingKey: secrets.open(sealed.signing_key, signingKeyContext(id)),
    oauth: sealed.authentication
      ? (JSON.parse(secrets.open(sealed.authentication, authenticationContext(id))) as TokenParameters)
      : undefined,
    allowedNetworks: parseCidrs(sealed.allowed_networks),
  };
}

/** Makes it when it is first asked for, and throws each time if that throws. */
function once<T>(make: () => T): () => T {
  let made: { value: T } | undefined;
  return () => (made ??= { value: make() }).value;
}

/**
 * Sends a batch, the oldest first, a few at once, for as long as the claim allows. What was cut short by our own shutdown
 * is in neither list: nobody knows what became of it, so its claim is left to run out, and it is sent again.
 */
async function tryAll(
  deps: DelivererDeps,
  target: () => Target,
  claimed: readonly Delivery[],
  signal: AbortSignal,
): Promise<{ attempts: Attempt[]; untried: Delivery[] }> {
  const untried = claimed.toSorted((a, b) => (a.created < b.created ? -1 : 1));
  const attempts: Attempt[] = [];
  const untilMs = deps.clock.nowMs() + beginWithinMs;
  let gone = false;
  const sendSome = async () => {
    while (!signal.aborted && !gone && deps.clock.nowMs() <= untilMs) {
      const next = untried.shift();
      if (!next) return;
      const made = await attempt(deps, target, next, signal);
      if (made.status === 410) gone = true;
      if (!signal.aborted || made.status !== null) attempts.push(made);
    }
  };
  await Promise.all(Array.from({ length: sentAtOnce }, sendSome));
  return { attempts, untried };
}

/** Sends once. Every way it can fail is an attempt, not an exception. */
async function attempt(
  deps: DelivererDeps,
  target: () => Target,
  delivery: Delivery,
  signal: AbortSignal,
): Promise<Attempt> {
  const startedMs = deps.clock.nowMs();
  const at = timestampFromMs(startedMs);
  const took = () => Math.max(0, Math.round(deps.clock.nowMs() - startedMs));
  try {
    const { answer, secrets } = await send(deps, target(), delivery, { startedMs, signal });
    return {
      delivery,
      at,
      durationMs: took(),
      status: answer.status,
      error: isSuccess(answer.status) ? null : `answered ${answer.status}`,
      excerpt: excerptOf(answer.body, secrets),
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
      retryAfterMs: error instanceof AppError && error.recovery.do === 'retry' ? error.recovery.afterMs : undefined,
    };
  }
}

/** What the receiver said, without what it may have heard from us: the log is read by people who may not know it. */
function excerptOf(body: Buffer, secrets: readonly string[]): string {
  // PostgreSQL keeps no NUL, and no half of a surrogate pair.
  let text = body.toString('utf8').replaceAll('\u0000', '');
  for (const secret of secrets) text = text.replaceAll(secret, '[secret]');
  return text.slice(0, excerptCharacters).toWellFormed();
}

/**
 * One POST; a second one with a new token when the receiver refuses the token. All of it, the token server included, has
 * the time of one exchange.
 */
async function send(
  { fetch, clock, accessTokens }: DelivererDeps,
  target: Target,
  delivery: Delivery,
  { startedMs, signal }: { startedMs: number; signal: AbortSignal },
): Promise<{ answer: GuardedResponse; secrets: string[] }> {
  const { oauth, allowedNetworks } = target;
  const secrets = [target.signingKey];
  const body = JSON.stringify({ trigger: delivery.trigger, timestamp: delivery.created, payload: delivery.payload });
  const headers = {
    'content-type': 'application/json',
    'x-signature': signBody(body, target.signingKey),
    'webhook-id': delivery.id,
    'webhook-timestamp': String(Math.floor(startedMs / 1000)),
    'webhook-attempt': String(delivery.attempts),
  };
  const bounds = () => {
    const leftMs = startedMs + exchangeMs - clock.nowMs();
    if (leftMs <= 0) throw new Error('the token server took so long that no time was left for the notification');
    return { allowedNetworks, timeoutMs: Math.min(exchangeMs, leftMs), signal };
  };
  const post = (authorization: { authorization?: string }) =>
    fetch({
      url: target.url,
      method: 'POST',
      headers: { ...headers, ...authorization },
      body,
      responseBytesMax,
      ...bounds(),
    });
  if (!oauth) return { answer: await post({}), secrets };

  secrets.push(oauth.parameters.client_secret);
  const postWith = (token: string) => {
    secrets.push(token);
    return post({ authorization: `Bearer ${token}` });
  };
  const token = await accessTokens.tokenOf(target.id, oauth, bounds());
  const answer = await postWith(token);
  if (answer.status !== 401) return { answer, secrets };
  const renewed = await accessTokens.tokenOf(target.id, oauth, { ...bounds(), refused: token });
  const second = renewed === token ? answer : await postWith(renewed);
  // The next attempt begins with a new one.
  if (second.status === 401) accessTokens.drop(target.id, renewed);
  return { answer: second, secrets };
}

function isSuccess(status: number | null): boolean {
  return status !== null && status >= 200 && status < 300;
}

/** Writes down that all were delivered, in one statement: what nearly every batch needs. */
function settleDelivered(deps: DelivererDeps, webhookId: string, attempts: readonly Attempt[]): Promise<unknown> {
  return deps.database.query(writeDelivered, [
    ...attemptColumns(attempts),
    timestampFromMs(deps.clock.nowMs()),
    webhookId,
  ]);
}

/** Of a delivery that was deleted meanwhile, with its webhook, nothing is written. */
const writeDelivered = prepared(
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

function attemptColumns(attempts: readonly Attempt[]): unknown[][] {
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

async function settle(
  tx: Sql,
  webhookId: string,
  { attempts, untried }: { attempts: readonly Attempt[]; untried: readonly Delivery[] },
  deps: DelivererDeps,
): Promise<void> {
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
    attemptColumns(attempts),
  );
  const nowMs = deps.clock.nowMs();
  const now = timestampFromMs(nowMs);
  const delivered = attempts.filter(({ status }) => isSuccess(status));
  const failed = attempts.filter(({ status }) => !isSuccess(status));
  await tx.query(
    `update service.deliveries set state = 'delivered', finished = $2, claimed_until = null where id = any($1)`,
    [delivered.map(({ delivery }) => delivery.id), now],
  );
  // The newest first: of two of one trigger that go back together, it is the one to stay. None that was tried is newer.
  for (const one of untried.toReversed()) await giveBack(tx, webhookId, one, now);
  if (attempts.length === 0) return;
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
    // Not when its claim ran out and another process has it, or has delivered it.
    `update service.deliveries set state = $2, due = $3, claimed_until = null, finished = $4
     where id = $1 and state = 'sending' and attempts = $5`,
    [delivery.id, state, due, state === 'pending' ? null : now, delivery.attempts],
  );
}

/** As if it had not been claimed; one whose turn a newer one has taken meanwhile is not needed any more. */
async function giveBack(tx: Sql, webhookId: string, delivery: Delivery, now: Timestamp): Promise<void> {
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
