/**
 * Sends notifications as a misbehaving source does: some never, twice, late, in another order, or followed by a forgery.
 * What is sent later has been answered with 200 to the deliverer, and is tried a few times by itself.
 */
import type { Clock } from '#platform/clock.ts';
import type { Database } from '#platform/database/database.ts';
import type { GuardedRequest, GuardedResponse } from '#platform/guarded-fetch/guarded-request.ts';
import type { GuardedFetch } from '#platform/guarded-fetch.ts';
import { planNotification } from './hostile-notifications.ts';
import type { Fraction } from './hostile-versions.ts';
import type { Misbehaviour } from './misbehaviour.ts';

interface Deps {
  readonly fetch: GuardedFetch;
  readonly database: Pick<Database, 'query'>;
  readonly clock: Clock;
  readonly misbehaviour: Misbehaviour;
  readonly random: Fraction;
  readonly isCalm: (organisationId: string) => boolean;
}

const triesMax = 5;
const betweenTriesMs = 2_000;
const heldMs = 10_000;
/** So many notifications may wait to be sent later; the others are sent at once. */
const waitingMax = 1_000;

/** Creates the fetch of the deliverer. `close` drops what waits. */
export function createMisbehavingFetch({ fetch, database, clock, misbehaviour, random, isCalm }: Deps): {
  readonly fetch: GuardedFetch;
  readonly close: () => Promise<void>;
} {
  const closing = new AbortController();
  const waiting = new Set<Promise<void>>();
  /** By URL: releases the notifications that wait for the next one. */
  const held = new Map<string, (() => void)[]>();

  async function sendWhen(ready: Promise<unknown>, request: GuardedRequest, tries: number): Promise<void> {
    const { signal: _signal, ...asked } = request;
    await ready;
    for (let left = tries; left > 0; left -= 1) {
      const answer = await fetch({ ...asked, signal: closing.signal }).catch(() => undefined);
      if (answer !== undefined && answer.status < 300) return release(request.url);
      if (left > 1) await clock.sleep(betweenTriesMs, closing.signal);
    }
  }

  function later(ready: Promise<unknown>, request: GuardedRequest, tries: number): void {
    const sending = sendWhen(ready, request, tries)
      // It was closed meanwhile.
      .catch(() => undefined)
      .finally(() => waiting.delete(sending));
    waiting.add(sending);
  }

  /** Resolves when the next notification to this URL has been sent, or after a while. */
  function afterNext(url: string): Promise<unknown> {
    const { promise, resolve } = Promise.withResolvers<void>();
    held.set(url, [...(held.get(url) ?? []), resolve]);
    return Promise.race([promise, clock.sleep(heldMs, closing.signal)]);
  }

  function release(url: string): void {
    for (const resolve of held.get(url) ?? []) resolve();
    held.delete(url);
  }

  const organisationOf = async ({ headers }: GuardedRequest): Promise<string | undefined> => {
    const [row] = await database.query<{ organisation_id: string }>(
      'select w.organisation_id from service.deliveries d join service.webhooks w on w.id = d.webhook_id where d.id = $1',
      [headers?.['webhook-id']],
    );
    return row?.organisation_id;
  };

  return {
    fetch: async (request) => {
      const organisationId = await organisationOf(request);
      if (organisationId === undefined || isCalm(organisationId) || waiting.size >= waitingMax) return fetch(request);
      const plan = planNotification(misbehaviour.webhooks, random);
      if (plan.isLost) return accepted;
      const delay = clock.sleep(plan.delayMs, closing.signal);
      // Nothing may wait for it.
      delay.catch(() => undefined);
      const ready = plan.isHeld ? Promise.all([delay, afterNext(request.url)]) : delay;
      const isLater = plan.isHeld || plan.delayMs > 0;
      const first = isLater ? accepted : await fetch(request);
      if (!isLater) release(request.url);
      for (let copy = isLater ? 0 : 1; copy < plan.copies; copy += 1) later(ready, request, triesMax);
      if (plan.isForged) later(ready, forgeryOf(request), 1);
      return first;
    },
    close: async () => {
      closing.abort();
      await Promise.all(waiting);
    },
  };
}

const accepted: GuardedResponse = { status: 200, headers: {}, body: Buffer.of(), truncated: false };

/** The same notification with another content: the signature in its headers is that of the original. */
function forgeryOf(request: GuardedRequest): GuardedRequest {
  const { payload, ...rest } = JSON.parse(String(request.body)) as { payload: object };
  return { ...request, body: JSON.stringify({ ...rest, payload: { ...payload, forged: true } }) };
}
