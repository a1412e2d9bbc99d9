import { afterEach, describe, expect, test } from 'vitest';
import { resumeFlow } from '#bridge/flows/control-flows.ts';
import type { Outcome } from '#connector/connector.ts';
import { timestampFromMs } from '#contract/timestamp.ts';
import { timestampNow } from '#platform/clock.ts';
import { startProcess } from '../parts.ts';
import { createFakeErp, type FakeErp } from './fake-erp.ts';
import { createPusher, keyOf, type Pusher } from './pusher.ts';

let erp: FakeErp;
afterEach(() => erp.throwFaults());

const refused: Outcome = { status: 'rejected', error: { type: 'data', message: 'period closed' } };
const failed: Outcome = { status: 'retry', error: { type: 'transient', message: 'down' } };
const circuit = { failures: 3, seconds: 60 };

async function award(pusher: Pusher, from: number, to: number, cost = '1'): Promise<void> {
  await pusher.award(...Array.from({ length: to }, (_, n): [number, string] => [n, n >= from ? cost : '1']));
}
/** A process of its own each time: what is remembered is in SQL. */
async function push(pusher: Pusher): Promise<void> {
  await (await pusher.worker(erp)).push();
}

describe('the circuit', () => {
  test.each<[string, Outcome | 'throws']>([
    ['refused', refused],
    ['failed', failed],
    ['whose outcome is unknown', 'throws'],
  ])(
    'opens after so many documents in a row that are %s, tries one when its time is over, and closes when it is taken',
    async (_what, outcome) => {
      const pusher = await createPusher(8, { circuit });
      erp = createFakeErp({ batchMax: 1 });
      erp.onWrite = async () => {
        if (outcome === 'throws') throw new Error('connection lost');
        return [outcome];
      };
      await award(pusher, 0, 8);
      await push(pusher);
      expect(erp.operations).toHaveLength(3);
      const openUntil = timestampFromMs(pusher.clock.nowMs() + 60_000);
      expect(await pusher.flowRow()).toMatchObject({ failures_in_row: 3, circuit_until: openUntil });
      pusher.clock.advance(59_999);
      await push(pusher);
      expect(erp.operations).toHaveLength(3);
      pusher.clock.advance(1);
      await push(pusher);
      expect(erp.operations, 'one is tried').toHaveLength(4);
      expect(new Set(erp.operations.map(({ document }) => document.key)).size, 'one that was not tried yet').toBe(4);
      pusher.clock.advance(60_000);
      erp.onWrite = async (operations, apply) => operations.map(apply);
      await push(pusher);
      expect(await pusher.flowRow()).toMatchObject({ failures_in_row: 0, circuit_until: null });
      // Those that were refused are dead letters; the others are tried again, with no more delay than their own.
      pusher.clock.advance(600_000);
      await push(pusher);
      expect(erp.living()).toHaveLength(outcome === refused ? 4 : 8);
    },
  );

  test('stays closed while some are taken in between', async () => {
    const pusher = await createPusher(8, { circuit });
    erp = createFakeErp({ batchMax: 1 });
    let count = 0;
    erp.onWrite = async (operations, apply) => {
      count += 1;
      return count % 3 === 0 ? operations.map(apply) : [refused];
    };
    await award(pusher, 0, 8);
    await push(pusher);
    expect(erp.operations).toHaveLength(8);
    expect(await pusher.flowRow()).toMatchObject({ circuit_until: null });
  });

  test.each(['locked', 'rate-limited'] as const)('does not count what is %s', async (type) => {
    const pusher = await createPusher(8, { circuit });
    erp = createFakeErp({ batchMax: 8 });
    erp.onWrite = async (operations) => operations.map(() => ({ status: 'retry', error: { type, message: 'later' } }));
    await award(pusher, 0, 8);
    await push(pusher);
    expect(await pusher.flowRow()).toMatchObject({ failures_in_row: 0, circuit_until: null });
  });

  test('that is open is closed by a person', async () => {
    const pusher = await createPusher(4, { circuit });
    erp = createFakeErp({ batchMax: 1 });
    erp.onWrite = async () => [refused];
    await award(pusher, 0, 4);
    await push(pusher);
    erp.onWrite = async (operations, apply) => operations.map(apply);
    await resumeFlow(pusher.db.database, 'erp', { agreeToWithdrawals: false }, timestampNow(pusher.clock));
    await push(pusher);
    expect(erp.living().map(({ key }) => key)).toHaveLength(1);
  });
});

test('a circuit whose trial is told to wait tries again when that time is over', async () => {
  const pusher = await createPusher(4, { circuit });
  erp = createFakeErp({ batchMax: 1 });
  erp.onWrite = async () => [refused];
  await award(pusher, 0, 4);
  await push(pusher);
  pusher.clock.advance(60_000);
  erp.onWrite = async () => [
    { status: 'retry', error: { type: 'rate-limited', message: 'slowly', retryAfterMs: 2_000 } },
  ];
  await push(pusher);
  erp.onWrite = async (operations, apply) => operations.map(apply);
  pusher.clock.advance(2_500);
  await push(pusher);
  expect(erp.living()).toHaveLength(1);
  expect(await pusher.flowRow()).toMatchObject({ circuit_until: null });
});

test('while a circuit is tried, what needs no call is settled in few transactions', async () => {
  const pusher = await createPusher(40);
  erp = createFakeErp({ batchMax: 1 });
  await award(pusher, 0, 40);
  await push(pusher);
  await award(pusher, 0, 40);
  await pusher.db.database.query('update bridge.flows set circuit_until = $1', [timestampNow(pusher.clock)]);
  const process = await startProcess(pusher.db);
  let transactions = 0;
  const worker = await pusher.worker(erp, {
    process,
    database: {
      ...process.database,
      transaction: (work) => {
        transactions += 1;
        return process.database.transaction(work);
      },
    },
  });
  await worker.push();
  expect(await pusher.row(39)).toMatchObject({ due: null });
  expect(erp.calls).toHaveLength(40);
  // 1, 2, 4, 8, 16 and the rest, and one that finds nothing.
  expect(transactions).toBeLessThanOrEqual(8);
});

describe('an ERP that limits its callers', () => {
  test('is left alone by all documents for as long as it asks', async () => {
    const pusher = await createPusher(4);
    erp = createFakeErp({ batchMax: 1 });
    erp.onWrite = async () => [
      { status: 'retry', error: { type: 'rate-limited', message: 'slow down', retryAfterMs: 90_000 } },
    ];
    await award(pusher, 0, 4);
    await push(pusher);
    expect(erp.operations).toHaveLength(1);
    pusher.clock.advance(89_999);
    await push(pusher);
    expect(erp.operations).toHaveLength(1);
    erp.onWrite = async (operations, apply) => operations.map(apply);
    pusher.clock.advance(1);
    await push(pusher);
    expect(
      erp
        .living()
        .map(({ key }) => key)
        .toSorted(),
    ).toEqual([0, 1, 2, 3].map(keyOf));
  });

  test('and does not say for how long is left alone for the backoff of the document', async () => {
    const pusher = await createPusher(2);
    erp = createFakeErp({ batchMax: 1 });
    erp.onWrite = async () => [{ status: 'retry', error: { type: 'rate-limited', message: 'slow down' } }];
    await award(pusher, 0, 2);
    await push(pusher);
    expect(erp.operations).toHaveLength(1);
    pusher.clock.advance(1_200);
    await push(pusher);
    expect(erp.operations).toHaveLength(2);
  });

  test('and asks for an absurd time is tried again after a day', async () => {
    const pusher = await createPusher(2);
    erp = createFakeErp({ batchMax: 1 });
    erp.onWrite = async () => [
      { status: 'retry', error: { type: 'rate-limited', message: 'slow down', retryAfterMs: 1e300 } },
    ];
    await award(pusher, 0, 1);
    await push(pusher);
    expect(await pusher.row(0)).toMatchObject({ due: '2030-01-02T00:00:00.000000Z', intent_id: null });
  });
});
