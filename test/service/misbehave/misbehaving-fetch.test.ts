/** Each quirk of webhooks: what reaches the receiver, and when. */
import { describe, expect, onTestFinished, test } from 'vitest';
import { signBody } from '#contract/signature.ts';
import type { GuardedRequest } from '#platform/guarded-fetch/guarded-request.ts';
import { createMisbehavingFetch } from '#service/misbehave/misbehaving-fetch.ts';
import { readMisbehaviour } from '#service/misbehave/misbehaviour.ts';
import { quirkTable } from '#service/misbehave/quirk-table.ts';
import { seededFraction } from '#service/misbehave/seeded-fraction.ts';
import { createManualClock } from '../../harness/manual-clock.ts';

const signingKey = 'key';

/** A misbehaving fetch, and what has reached the receiver by now. */
function receiverOf(list: string, { status = 200, seed = 'seed' } = {}) {
  const clock = createManualClock();
  const received: GuardedRequest[] = [];
  const receiver = { status, calm: false };
  const { fetch, close } = createMisbehavingFetch({
    fetch: async (request) => {
      received.push(request);
      return { status: receiver.status, headers: {}, body: Buffer.of(), truncated: false };
    },
    // Stands for the table of deliveries, which is asked whose notification it is.
    database: { query: async () => [{ organisation_id: 'acme' }] as never },
    clock,
    misbehaviour: readMisbehaviour(list),
    random: seededFraction(seed),
    isCalm: () => receiver.calm,
  });
  onTestFinished(close);
  const notify = (name: string) => {
    const body = JSON.stringify({ trigger: 'AWARDS_FEED_UPDATED', payload: { sourcing_event_name: name } });
    return fetch({
      url: 'https://receiver.test/hook',
      method: 'POST',
      headers: { 'webhook-id': name, 'x-signature': signBody(body, signingKey) },
      body,
      allowedNetworks: [],
      timeoutMs: 1_000,
      responseBytesMax: 1_000,
    });
  };
  const names = () => received.map(({ headers }) => headers?.['webhook-id']);
  return { clock, received, receiver, notify, names };
}

const isGenuine = ({ body, headers }: GuardedRequest) =>
  headers?.['x-signature'] === signBody(String(body), signingKey);

/** Lets everything run that waits for nothing but promises. */
const settled = () => new Promise((resolve) => setImmediate(resolve));

const proofs: Record<string, () => Promise<void>> = {
  'webhooks-lost': async () => {
    const { notify, names } = receiverOf('webhooks-lost=1');
    expect((await notify('one')).status).toBe(200);
    await settled();
    expect(names()).toEqual([]);
  },
  'webhooks-twice': async () => {
    const { notify, names, received } = receiverOf('webhooks-twice=1');
    await notify('one');
    await settled();
    expect(names()).toEqual(['one', 'one']);
    expect(received.every(isGenuine)).toBe(true);
  },
  'webhooks-late': async () => {
    const { notify, names, clock } = receiverOf('webhooks-late=10');
    for (const name of ['one', 'two', 'three', 'four']) expect((await notify(name)).status).toBe(200);
    await settled();
    expect(names()).toEqual([]);
    clock.advance(10_000);
    await settled();
    expect(names()).toHaveLength(4);
  },
  'webhooks-reordered': async () => {
    const { notify, names, clock } = receiverOf('webhooks-reordered=0.5', { seed: 'one held' });
    for (let n = 0; n < 12; n += 1) {
      await notify(String(n));
      await settled();
    }
    const [seen, sent] = [names(), Array.from({ length: 12 }, (_, n) => String(n))];
    expect(seen.length).toBeGreaterThan(5);
    expect(seen).not.toEqual(sent.filter((name) => seen.includes(name)));
    clock.advance(10_000);
    await settled();
    expect(new Set(names())).toEqual(new Set(sent));
    expect(names()).toHaveLength(12);
  },
  'webhooks-forged': async () => {
    const { notify, received } = receiverOf('webhooks-forged=1', { status: 401 });
    await notify('one');
    await settled();
    expect(received).toHaveLength(2);
    expect(received.map(isGenuine)).toEqual([true, false]);
    expect(JSON.parse(String(received[1]?.body))).toMatchObject({ payload: { sourcing_event_name: 'one' } });
  },
};

describe('the quirk', () => {
  test.each(quirkTable.filter(({ webhooks }) => webhooks).map(({ name }) => name))('%s shows itself', async (name) => {
    expect(Object.keys(proofs), 'the proofs of this test').toContain(name);
    await proofs[name]?.();
  });
});

test('without quirks, and while the organisation is calm, notifications pass as they are', async () => {
  const plain = receiverOf('page-numbers', { status: 503 });
  expect((await plain.notify('one')).status).toBe(503);
  expect(plain.names()).toEqual(['one']);
  const all = 'webhooks-lost=1,webhooks-twice=1,webhooks-late=10,webhooks-reordered=1,webhooks-forged=1';
  const calm = receiverOf(all);
  calm.receiver.calm = true;
  await calm.notify('two');
  await settled();
  expect(calm.names()).toEqual(['two']);
});

test('a notification that is sent later is tried again when it is refused, and not for ever', async () => {
  const { notify, names, clock, receiver } = receiverOf('webhooks-late=10', { status: 503 });
  await notify('one');
  clock.advance(10_000);
  await settled();
  expect(names()).toHaveLength(1);
  for (let tries = 2; tries <= 5; tries += 1) {
    await settled();
    clock.advance(2_000);
    await settled();
    expect(names()).toHaveLength(tries);
  }
  await settled();
  clock.advance(60_000);
  await settled();
  expect(names()).toHaveLength(5);
  receiver.status = 200;
});
