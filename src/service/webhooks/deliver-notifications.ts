/**
 * The deliverer: the worker of the lane `deliveries`. The lane's key is a webhook. It claims what is due for the
 * webhook, sends a few notifications at a time, and settles their outcomes. Organisations share the slots for webhooks
 * fairly, so that the dead receivers of one delay no other. `delivery-store.ts` has the states and the
 * SQL, `send-delivery.ts` one HTTP delivery, `retry-schedule.ts` the waits between attempts.
 */
import { timestampFromMs } from '#contract/timestamp.ts';
import type { Database } from '#platform/database/database.ts';
import { createDueTimer } from '#platform/due-timer.ts';
import { createFairSlots } from '#platform/fair-slots.ts';
import type { Logger } from '#platform/log.ts';
import { Counter, type Registry } from '#platform/metrics.ts';
import type { Signals } from '#platform/queue.ts';
import type { SecretBox } from '#platform/secrets.ts';
import {
  type ClaimedDelivery,
  claimDueDeliveries,
  type DeliveryAttempt,
  isAccepted,
  nextDueDelivery,
  readWebhookOwner,
  settleAccepted,
  settleBatch,
  webhooksWithDueDeliveries,
} from './delivery-store.ts';
import { exchangeMs } from './exchange-limits.ts';
import { attemptDelivery, openReceiver, type Receiver, type SenderDeps } from './send-delivery.ts';

export interface DelivererDeps extends SenderDeps {
  database: Database;
  secrets: SecretBox;
  signals: Pick<Signals, 'signal'>;
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
 * How many are claimed, and settled, together: they share the price of a commit. A receiver that takes a whole claim
 * within `quickMs` gets a claim twice as large the next time, so a slow one keeps few waiting in a claim.
 */
const claimLeast = 16;
const claimMost = 128;
const quickMs = 500;
/** No notification is sent from a claim that is older than this: a slow receiver is sent few of the batch. */
const beginWithinMs = 5_000;
/** Longer than sending and settling a batch can take: a claim that has run out belongs to a process that is gone. */
const claimMs = beginWithinMs + exchangeMs + 5_000;

/** Creates the deliverer, and starts a timer that wakes the lane when the next retry is due. */
export function createDeliverer(deps: DelivererDeps) {
  const outcomes = new Counter({
    name: 'webhook_attempts_total',
    help: 'Attempts to deliver a notification, by outcome',
    labelNames: ['outcome'],
    registers: [deps.registry],
  });
  const slots = createFairSlots({ slots: deliverySlots, slotsEach: deliverySlotsEach });
  const due = () => webhooksWithDueDeliveries(deps.database, timestampFromMs(deps.clock.nowMs()));
  const dueTimer = createDueTimer({
    ...deps,
    lane: 'deliveries',
    due,
    nextMoment: (now) => nextDueDelivery(deps.database, now),
  });
  async function deliverDue(webhookId: string, signal: AbortSignal): Promise<void> {
    // While an accepted batch is being settled, the next one is sent already. After a failure the next batch waits: a
    // failed notification must not be overtaken by a later one.
    let settled: Promise<unknown> = Promise.resolve();
    let most = claimLeast;
    try {
      while (!signal.aborted) {
        const beganMs = deps.clock.nowMs();
        const now = timestampFromMs(beganMs);
        const claimed = await claimDueDeliveries(deps.database, webhookId, { now, claimMs, most });
        const [first] = claimed;
        if (!first) break;
        const receiver = once(() => openReceiver(deps.secrets, webhookId, first));
        const { attempts, untried } = await attemptBatch(deps, receiver, claimed, signal);
        if (attempts.length + untried.length === 0) break;
        for (const { status } of attempts) outcomes.inc({ outcome: isAccepted(status) ? 'delivered' : 'failed' });
        await settled;
        if (untried.length === 0 && attempts.every(({ status }) => isAccepted(status))) {
          settled = settleAccepted(deps.database, webhookId, attempts, timestampFromMs(deps.clock.nowMs()));
          // A rejection is thrown where this promise is awaited; until then it must not count as unhandled.
          settled.catch(() => undefined);
        } else {
          const disabled = await deps.database.transaction((tx) =>
            settleBatch(tx, webhookId, { attempts, untried }, { nowMs: deps.clock.nowMs(), random: deps.random }),
          );
          if (disabled) deps.log.warn({ webhook: webhookId, gone: disabled.gone }, 'webhook disabled');
          dueTimer.lookAgain();
        }
        // This batch had all that was due. Notifications that were enqueued since then have signalled the lane.
        if (claimed.length < most && untried.length === 0) break;
        const isQuick = untried.length === 0 && deps.clock.nowMs() - beganMs < quickMs;
        most = isQuick ? Math.min(2 * most, claimMost) : claimLeast;
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

/**
 * Sends a batch, the oldest first, a few at once, for as long as the claim allows. A notification whose sending was
 * aborted by our own shutdown is in neither list: its outcome is unknown, so its claim is left to run out, and it is
 * sent again.
 */
async function attemptBatch(
  deps: DelivererDeps,
  receiver: () => Receiver,
  claimed: readonly ClaimedDelivery[],
  signal: AbortSignal,
): Promise<{ attempts: DeliveryAttempt[]; untried: ClaimedDelivery[] }> {
  const untried = claimed.toSorted((a, b) => (a.created < b.created ? -1 : 1));
  const attempts: DeliveryAttempt[] = [];
  const beginUntilMs = deps.clock.nowMs() + beginWithinMs;
  let gone = false;
  const sendInTurn = async () => {
    while (!signal.aborted && !gone && deps.clock.nowMs() <= beginUntilMs) {
      const next = untried.shift();
      if (!next) return;
      const attempt = await attemptDelivery(deps, receiver, next, signal);
      if (attempt.status === 410) gone = true;
      if (!signal.aborted || attempt.status !== null) attempts.push(attempt);
    }
  };
  await Promise.all(Array.from({ length: sentAtOnce }, sendInTurn));
  return { attempts, untried };
}
