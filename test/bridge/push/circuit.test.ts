import { afterEach, describe, expect, test } from 'vitest';
import { resumeFlow } from '#bridge/ledger/flows/control-flows.ts';
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
/** Pushes with a new process each time: all state of the circuit is in SQL. */
async function push(pusher: Pusher): Promise<void> {
  await (await pusher.worker(erp)).push();
}

describe('the circuit', () => {
  test.each<[string, Outcome | 'throws']>([
    ['refused', refused],
    ['failed', failed],
    ['whose outcome is unknown', 'throws'],
  ])(
    'opens after that many documents in a row that are %s, tries one after the wait, and closes when the ERP takes it',
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
      expect(erp.operations, 'one trial').toHaveLength(4);
      expect(
        new Set(erp.operations.map(({ document }) => document.key)).size,
        'the trial is a document that was not tried yet',
      ).toBe(4);
      pusher.clock.advance(60_000);
      erp.onWrite = async (operations, apply) => operations.map(apply);
      await push(pusher);
      expect(await pusher.flowRow()).toMatchObject({ failures_in_row: 0, circuit_until: null });
      // Refused documents are dead letters. The others are tried again after their own wait, and no later.
      pusher.clock.advance(600_000);
      await push(pusher);
      expect(erp.living()).toHaveLength(outcome === refused ? 4 : 8);
    },
  );

  test('stays closed while the ERP takes some documents in between', async () => {
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

  test.each(['locked', 'rate-limited'] as const)('does not count documents that are %s', async (type) => {
    const pusher = await createPusher(8, { circuit });
    erp = createFakeErp({ batchMax: 8 });
    erp.onWrite = async (operations) => operations.map(() => ({ status: 'retry', error: { type, message: 'later' } }));
    await award(pusher, 0, 8);
    await push(pusher);
    expect(await pusher.flowRow()).toMatchObject({ failures_in_row: 0, circuit_until: null });
  });

  test('that is open is closed by an operator', async () => {
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

test('a circuit whose trial is rate-limited makes another trial after the time that the ERP asked for', async () => {
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

test('while the circuit is half open, documents that need no call take few transactions', async () => {
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

describe('a rate-limited call', () => {
  test('throttles the whole flow for as long as the ERP asks', async () => {
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

  test('without a time throttles the flow for the retry wait of the document', async () => {
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

  test('that asks for an absurd time is tried again after a day', async () => {
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
