/**
 * The deliverer: the worker of the lane `deliveries`. The lane's key is a webhook. It claims what is due for the
 * webhook, sends a few notifications at a time, and settles their outcomes. Organisations share the slots for webhooks
 * fairly, so that the dead receivers of one delay no other. `delivery-store.ts` has the states and the
 * SQL, `send-delivery.ts` one HTTP delivery, `retry-schedule.ts` the waits between attempts.
 */
import { isDeepStrictEqual } from 'node:util';
import { timestampFromMs } from '#contract/timestamp.ts';
import type { Database } from '#platform/database/database.ts';
import { createFairSlots } from '#platform/fair-slots.ts';
import type { Logger } from '#platform/log.ts';
import { Counter, Gauge, type Registry } from '#platform/metrics.ts';
import type { Signals } from '#platform/queue.ts';
import type { SecretBox } from '#platform/secrets.ts';
import { createDueTimer } from '../due-timer.ts';
import {
  type ClaimedDelivery,
  claimDueDeliveries,
  countWaitingDeliveries,
  type DeliveryAttempt,
  isAccepted,
  nextDueDelivery,
  readReceiver,
  readWebhookOwner,
  type StoredReceiver,
  settleAccepted,
  settleBatch,
  webhooksWithDueDeliveries,
} from './delivery-store.ts';
import { exchangeMs } from './exchange-limits.ts';
import { attemptDelivery, openReceiver, type Receiver, type SenderDeps } from './send-delivery.ts';

export interface DelivererDeps extends SenderDeps {
  database: Database;
  secrets: SecretBox;
  signals: Pick<Signals, 'wakeHere'>;
  log: Logger;
  registry: Registry;
  /** 0 to 1, for the jitter of retries. */
  random: () => number;
}

/**
 * How many are sent to one webhook at once: no more than `GuardedFetch` opens connections to one origin. One that
 * waited for a connection would lose time of its exchange.
 */
const sentAtOnce = 4;
/** Webhooks that are sent to at once. Waiting for receivers costs little, so there are many. */
export const deliverySlots = 256;
/**
 * Of one organisation. Webhooks that have failed last use half of them, of all slots and of the organisation's: receivers
 * that do not answer leave room for those that do.
 */
const deliverySlotsEach = 16;
/**
 * How many are claimed, and settled, together: they share the price of a commit. After the first claim there are as many
 * as the receiver would have taken in `claimWorkMs`, so a slow one keeps few waiting in a claim.
 */
const claimLeast = 16;
const claimMost = 256;
const claimWorkMs = 500;
/** No notification is sent from a claim that is older than this: a slow receiver is sent few of the batch. */
const beginWithinMs = 5_000;
/** Longer than sending and settling a batch can take: a claim that has run out belongs to a process that is gone. */
const claimMs = beginWithinMs + exchangeMs + 5_000;
/** A scrape counts no further: what a receiver that is down has left waiting may be a million. */
const countedMax = 10_000;

interface Claim {
  readonly claimed: readonly ClaimedDelivery[];
  /** Where they go, as it is stored now; undefined when the webhook was deleted. */
  readonly stored: StoredReceiver | undefined;
  /** Whether more may be due. */
  readonly isFull: boolean;
  /** No notification of it is sent later. */
  readonly beginUntilMs: number;
}

/** Creates the deliverer, and starts a timer that wakes the lane when the next retry is due. */
export function createDeliverer(deps: DelivererDeps) {
  const outcomes = new Counter({
    name: 'webhook_attempts_total',
    help: 'Attempts to deliver a notification, by outcome',
    labelNames: ['outcome'],
    registers: [deps.registry],
  });
  const waiting = new Gauge({
    name: 'service_notifications_waiting',
    help: `Notifications that no receiver has accepted yet, counted up to ${countedMax}`,
    registers: [deps.registry],
    async collect() {
      waiting.set(await countWaitingDeliveries(deps.database, countedMax));
    },
  });
  const slots = createFairSlots({ slots: deliverySlots, slotsEach: deliverySlotsEach });
  const due = () => webhooksWithDueDeliveries(deps.database, timestampFromMs(deps.clock.nowMs()));
  const dueTimer = createDueTimer({
    ...deps,
    lane: 'deliveries',
    due,
    nextMoment: (now) => nextDueDelivery(deps.database, now),
  });
  async function claim(webhookId: string, most: number): Promise<Claim> {
    const beganMs = deps.clock.nowMs();
    const now = timestampFromMs(beganMs);
    const claimed = await claimDueDeliveries(deps.database, webhookId, { now, claimMs, most });
    const stored = await readReceiver(deps.database, webhookId);
    return { claimed, stored, isFull: claimed.length === most, beginUntilMs: beganMs + beginWithinMs };
  }

  async function deliverDue(webhookId: string, signal: AbortSignal): Promise<void> {
    // While an accepted batch is being settled, the next one is sent already. After a failure the next batch waits: a
    // failed notification must not be overtaken by a later one.
    let settled: Promise<unknown> = Promise.resolve();
    let most = claimLeast;
    let next: Promise<Claim> | undefined;
    const openUnlessKept = keepReceiver((stored) => openReceiver(deps.secrets, webhookId, stored));
    try {
      while (!signal.aborted) {
        const { claimed, stored, isFull, beginUntilMs } = await (next ?? claim(webhookId, most));
        if (!stored || claimed.length === 0) break;
        // The next batch of a quick receiver is claimed while this one is sent.
        next = isFull && most > claimLeast ? claim(webhookId, most) : undefined;
        // A rejection is thrown where this promise is awaited; until then it must not count as unhandled.
        next?.catch(() => undefined);
        const receiver = once(() => openUnlessKept(stored));
        const beganMs = deps.clock.nowMs();
        const { attempts, untried } = await attemptBatch(deps, receiver, { claimed, beginUntilMs, signal });
        const tookMs = Math.max(1, deps.clock.nowMs() - beganMs);
        const accepted = attempts.filter(({ status }) => isAccepted(status)).length;
        if (accepted > 0) outcomes.inc({ outcome: 'delivered' }, accepted);
        if (attempts.length > accepted) outcomes.inc({ outcome: 'failed' }, attempts.length - accepted);
        await settled;
        if (untried.length === 0 && attempts.length === accepted && !signal.aborted) {
          settled = settleAccepted(deps.database, webhookId, attempts, timestampFromMs(deps.clock.nowMs()));
          settled.catch(() => undefined);
          if (!isFull) break;
          most = Math.min(Math.max(claimLeast, Math.floor((claimed.length * claimWorkMs) / tookMs)), claimMost);
          continue;
        }
        if (next) untried.push(...(await next).claimed);
        next = undefined;
        if (attempts.length + untried.length === 0) break;
        const disabled = await deps.database.transaction((tx) =>
          settleBatch(tx, webhookId, { attempts, untried }, { nowMs: deps.clock.nowMs(), random: deps.random }),
        );
        if (disabled) deps.log.warn({ webhook: webhookId, gone: disabled.gone }, 'webhook disabled');
        dueTimer.lookAgain();
        // This batch had all that was due. Notifications that were enqueued since then have signalled the lane.
        if (!isFull && untried.length === 0) break;
        most = claimLeast;
      }
    } finally {
      await settled;
    }
  }

  return {
    /**
     * Delivers what is due for one webhook, in a slot of its organisation; returns when nothing is due any more, or when
     * it is to stop.
     */
    deliver: async (webhookId: string, signal: AbortSignal): Promise<void> => {
      const owner = await readWebhookOwner(deps.database, webhookId);
      if (!owner) return;
      const free = await slots
        .enter(owner.organisationId, { signal, doubtful: owner.isFailing })
        .catch((error: unknown) => {
          if (!signal.aborted) throw error;
        });
      if (!free) return;
      try {
        await deliverDue(webhookId, signal);
      } finally {
        free();
      }
    },
    /**
     * The webhooks that have something due: what the sweep wakes. Also makes the timer look for the next retry again.
     */
    webhooksWithDue: async (): Promise<string[]> => {
      const webhookIds = await due();
      dueTimer.lookAgain();
      return webhookIds;
    },
    /** Stops the timer. */
    close: (): Promise<void> => dueTimer.close(),
  };
}

/** Makes the value at the first call and returns it at each call; throws at each call for which `make` throws. */
function once<T>(make: () => T): () => T {
  let made: { value: T } | undefined;
  return () => (made ??= { value: make() }).value;
}

/** Opens a receiver again only when what is stored of it has changed: to decrypt costs more than to compare. */
function keepReceiver(open: (stored: StoredReceiver) => Receiver): (stored: StoredReceiver) => Receiver {
  let kept: { stored: StoredReceiver; receiver: Receiver } | undefined;
  return (stored) => {
    if (!kept || !isDeepStrictEqual(kept.stored, stored)) kept = { stored, receiver: open(stored) };
    return kept.receiver;
  };
}

/**
 * Sends a batch, the oldest first, a few at once, for as long as the claim allows. A notification whose sending was
 * aborted by our own shutdown is in neither list: its outcome is unknown, so its claim is left to run out, and it is
 * sent again.
 */
async function attemptBatch(
  deps: DelivererDeps,
  receiver: () => Receiver,
  { claimed, beginUntilMs, signal }: Pick<Claim, 'claimed' | 'beginUntilMs'> & { signal: AbortSignal },
): Promise<{ attempts: DeliveryAttempt[]; untried: ClaimedDelivery[] }> {
  const untried = claimed.toSorted((a, b) => (a.created < b.created ? -1 : 1));
  const attempts: DeliveryAttempt[] = [];
  let mayGoOn = true;
  const sendInTurn = async () => {
    while (!signal.aborted && mayGoOn && deps.clock.nowMs() <= beginUntilMs) {
      const next = untried.shift();
      if (!next) return;
      const attempt = await attemptDelivery(deps, receiver, next, signal);
      if (attempt.status === 410 || asksToWait(attempt)) mayGoOn = false;
      if (!signal.aborted || attempt.status !== null) attempts.push(attempt);
    }
  };
  await Promise.all(Array.from({ length: sentAtOnce }, sendInTurn));
  return { attempts, untried };
}

/** A receiver that names a time gets nothing before it. */
function asksToWait({ status, retryAfterMs = 0 }: DeliveryAttempt): boolean {
  return !isAccepted(status) && retryAfterMs > 0;
}
