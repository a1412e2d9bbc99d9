import { afterEach, expect, test } from 'vitest';
import { replayDocuments } from '#bridge/ledger/flows/control-flows.ts';
import { timestampNow } from '#platform/clock.ts';
import { eventRecord, idOf, lotAwardRecord, startProcess } from '../parts.ts';
import { createFakeErp, type FakeErp } from './fake-erp.ts';
import { createPusher, event, keyOf, type Pusher, supplier } from './pusher.ts';

let erp: FakeErp;
afterEach(() => erp.throwFaults());

const all = (n: number): [number, string][] => Array.from({ length: n }, (_, at) => [at, '1']);

/** An `onWrite` whose calls a test ends one by one. */
function gates() {
  const open: { keys: string[]; end: () => void }[] = [];
  const onWrite: FakeErp['onWrite'] = async (operations, apply) => {
    const { promise, resolve } = Promise.withResolvers<void>();
    open.push({ keys: operations.map(({ document }) => document.key), end: resolve });
    await promise;
    return operations.map(apply);
  };
  return { open, onWrite };
}

test('as many calls at once as the connector takes, and a new one as soon as one has ended', async () => {
  const pusher = await createPusher(6);
  erp = createFakeErp({ batchMax: 1, concurrency: 3 });
  const { open, onWrite } = gates();
  erp.onWrite = onWrite;
  await pusher.award(...all(6));
  const running = (await pusher.worker(erp)).push();
  await expect.poll(() => open.length).toBe(3);
  open[1]?.end();
  await expect.poll(() => open.length).toBe(4);
  for (let ended = 0; ended < 6; ended += 1) {
    await expect.poll(() => open.length).toBeGreaterThan(ended);
    open[ended]?.end();
  }
  await running;
  expect(erp.living()).toHaveLength(6);
});

test('a call that hangs does not block the outcomes of other calls, nor new documents', async () => {
  const pusher = await createPusher(4);
  erp = createFakeErp({ batchMax: 1, concurrency: 2 });
  const { open, onWrite } = gates();
  erp.onWrite = (operations, apply, signal) =>
    operations[0]?.document.key === keyOf(0)
      ? onWrite(operations, apply, signal)
      : Promise.resolve(operations.map(apply));
  await pusher.award(...all(3));
  const running = (await pusher.worker(erp)).push();
  await expect.poll(() => pusher.row(2)).toMatchObject({ due: null, intent_id: null });
  expect(await pusher.row(1)).toMatchObject({ due: null, intent_id: null });
  await pusher.store('awards', lotAwardRecord(idOf(501), event, [{ supplier: supplier(3) }]));
  await expect.poll(() => pusher.row(3)).toMatchObject({ due: null, intent_id: null });
  expect((await pusher.row(0))?.intent_id).not.toBeNull();
  for (const { end } of open) end();
  await running;
  expect(erp.living()).toHaveLength(4);
});

/** A worker whose transactions are counted, to see what it does while a call is in flight. */
async function countingWorker(pusher: Pusher) {
  const process = await startProcess(pusher.db);
  const counted = { transactions: 0 };
  const worker = await pusher.worker(erp, {
    process,
    database: {
      ...process.database,
      transaction: (work) => {
        counted.transactions += 1;
        return process.database.transaction(work);
      },
    },
  });
  /** Resolves when the worker has looked for due documents several times. */
  const looksForMore = async () => {
    const before = counted.transactions;
    await expect.poll(() => counted.transactions).toBeGreaterThan(before + 4);
  };
  return { push: worker.push, counted, looksForMore };
}

test('kinds are written in their order, and never two kinds at once', async () => {
  const pusher = await createPusher(3, { documents: ['award', 'sourcing-event'] });
  erp = createFakeErp({ kinds: ['sourcing-event', 'award'], batchMax: 1, concurrency: 4 });
  const { push, looksForMore } = await countingWorker(pusher);
  await pusher.award(...all(3));
  let renamed = false;
  erp.onWrite = async (operations, apply) => {
    const isAward = operations[0]?.document.kind === 'award';
    // The event changes while awards are written: it waits until their calls have ended.
    if (isAward && !renamed) {
      renamed = true;
      await pusher.store('sourcing-events', eventRecord(event, [0, 1, 2].map(supplier), { name: 'Desks' }));
    }
    await looksForMore();
    return operations.map(apply);
  };
  await push();
  const kinds = erp.operations.map(({ document }) => document.kind);
  expect(kinds.slice(0, 5)).toEqual(['sourcing-event', 'award', 'award', 'award', 'sourcing-event']);
  expect(erp.living(event)).toMatchObject([{ total: 'Desks' }]);
});

test('lookup is not called before all calls have ended', async () => {
  const pusher = await createPusher(4);
  erp = createFakeErp({ batchMax: 1, concurrency: 3 });
  await pusher.award([1, '1']);
  const { push, looksForMore } = await countingWorker(pusher);
  await push();
  await pusher.award([0, '1'], [1, '1']);
  let replayed = false;
  erp.onWrite = async (operations, apply) => {
    if (!replayed) {
      replayed = true;
      await replayDocuments(pusher.db.database, { flow: 'erp', keys: [keyOf(1)] }, timestampNow(pusher.clock));
      await looksForMore();
    }
    return operations.map(apply);
  };
  await push();
  expect(erp.calls).toEqual(['write create', 'write create', 'lookup 1', 'write amend']);
});

test('when a call ends and the lease turns out to be lost, the signals of the other calls abort at once', async () => {
  const pusher = await createPusher(2);
  erp = createFakeErp({ batchMax: 1, concurrency: 2, timeoutMs: 120_000 });
  const { open, onWrite } = gates();
  const stopped: string[] = [];
  erp.onWrite = (operations, apply, signal) => {
    const { key } = operations[0]?.document ?? { key: '' };
    signal.addEventListener('abort', () => stopped.push(key));
    return onWrite(operations, apply, signal);
  };
  await pusher.award(...all(2));
  const running = (await pusher.worker(erp)).push();
  await expect.poll(() => open.length).toBe(2);
  await pusher.db.database.query('update bridge.leases set fencing_token = fencing_token + 1');
  open[0]?.end();
  await expect.poll(() => stopped).toEqual(open[1]?.keys);
  open[1]?.end();
  await running;
});

test('documents that change all the time do not keep another document from its turn', async () => {
  const pusher = await createPusher(3);
  erp = createFakeErp({ batchMax: 1 });
  const change = (n: number) =>
    pusher.store(
      'awards',
      lotAwardRecord(idOf(500 + n), event, [{ supplier: supplier(n), cost: String(erp.operations.length) }]),
    );
  for (const n of [0, 1, 2]) await change(n);
  erp.onWrite = async (operations, apply) => {
    if (erp.operations.length < 12) {
      pusher.clock.advance(1_000);
      for (const { document } of operations) await change([0, 1, 2].find((n) => keyOf(n) === document.key) ?? 0);
      await change(2);
    }
    return operations.map(apply);
  };
  await (await pusher.worker(erp)).push();
  expect(new Set(erp.operations.slice(0, 3).map(({ document }) => document.key)).size).toBe(3);
  expect(erp.living()).toHaveLength(3);
});

test('many documents that need no call take few transactions, whatever the batch size', async () => {
  const pusher = await createPusher(16);
  erp = createFakeErp({ batchMax: 1 });
  await pusher.award(...all(16));
  await (await pusher.worker(erp)).push();
  expect(erp.calls).toHaveLength(16);
  await pusher.award(...all(16));
  const { push, counted } = await countingWorker(pusher);
  await push();
  expect(await pusher.row(15)).toMatchObject({ due: null });
  expect(erp.calls).toHaveLength(16);
  // 1, 2, 4, 8 and the rest, and one that finds nothing.
  expect(counted.transactions).toBeLessThanOrEqual(7);
});
