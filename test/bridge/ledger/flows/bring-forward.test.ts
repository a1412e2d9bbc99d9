import { expect, test } from 'vitest';
import { bringForwardDocuments } from '#bridge/ledger/flows/bring-forward.ts';
import type { OutcomeError } from '#connector/connector.ts';
import { timestampNow } from '#platform/clock.ts';
import { createFakeErp } from '../../push/fake-erp.ts';
import { createPusher } from '../../push/pusher.ts';

const dayMs = 86_400_000;

/** An award that the ERP has refused once, by a clock that was so far ahead. */
async function failedAward(error: OutcomeError, aheadMs: number) {
  const pusher = await createPusher();
  const erp = createFakeErp();
  const { push } = await pusher.worker(erp);
  await pusher.award([1, '10']);
  pusher.clock.advance(aheadMs);
  erp.onWrite = async (operations) => operations.map(() => ({ status: 'retry', error }));
  await push();
  pusher.clock.advance(-aheadMs);
  erp.onWrite = async (operations, apply) => operations.map(apply);
  const bringForward = () => bringForwardDocuments(pusher.db.database, timestampNow(pusher.clock));
  return { pusher, erp, push, bringForward };
}

test('an award that failed while the clock was a day ahead is delivered by the next sweep once the clock is right', async () => {
  const { erp, push, bringForward } = await failedAward({ type: 'transient', message: 'busy' }, dayMs);
  await push();
  expect(erp.living()).toEqual([]);
  expect(await bringForward()).toBe(1);
  await push();
  expect(erp.living()).toHaveLength(1);
  expect(await bringForward()).toBe(0);
});

test('a retry by the right clock waits its time', async () => {
  const { pusher, erp, push, bringForward } = await failedAward({ type: 'transient', message: 'busy' }, 0);
  expect(await bringForward()).toBe(0);
  await push();
  expect(erp.living()).toEqual([]);
  pusher.clock.advance(60_000);
  await push();
  expect(erp.living()).toHaveLength(1);
});

test('a wait that the ERP has asked for, up to a day, is kept; no longer one', async () => {
  const limited: OutcomeError = { type: 'rate-limited', message: 'later', retryAfterMs: dayMs };
  expect(await (await failedAward(limited, 0)).bringForward()).toBe(0);
  const { erp, push, bringForward } = await failedAward(limited, dayMs);
  expect(await bringForward()).toBe(1);
  await push();
  expect(erp.living()).toHaveLength(1);
});
