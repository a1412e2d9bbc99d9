import { afterEach, describe, expect, test } from 'vitest';
import { pauseFlow, resumeFlow } from '#bridge/flows/control-flows.ts';
import { timestampNow } from '#platform/clock.ts';
import { idOf, lotAwardRecord } from '../../parts.ts';
import { createFakeErp, type FakeErp } from '../fake-erp.ts';
import { createPusher, event, type Pusher, supplier } from '../pusher.ts';

let erp: FakeErp;
let pusher: Pusher;
afterEach(() => erp.throwFaults());

/** One lot for each supplier, so that each is won and lost by itself. */
async function won(...suppliers: number[]): Promise<void> {
  await pusher.store(
    'awards',
    ...suppliers.map((n) => lotAwardRecord(idOf(500 + n), event, [{ supplier: supplier(n) }])),
  );
}
async function lost(...suppliers: number[]): Promise<void> {
  await pusher.store('awards', ...suppliers.map((n) => lotAwardRecord(idOf(500 + n), event, [])));
}
async function push(): Promise<void> {
  await (await pusher.worker(erp)).push();
}
async function delivered(suppliers: number): Promise<void> {
  pusher = await createPusher(suppliers + 2, { withdrawals: { most: 3, share: 0.5, hours: 1 } });
  erp = createFakeErp({ batchMax: 2 });
  await won(...range(suppliers));
  await push();
  expect(erp.living()).toHaveLength(suppliers);
}
const range = (count: number, from = 0) => Array.from({ length: count }, (_, n) => from + n);
const cancels = () => erp.operations.filter(({ action }) => action === 'cancel').length;
const resume = (agreeToWithdrawals: boolean) =>
  resumeFlow(pusher.db.database, 'erp', { agreeToWithdrawals }, timestampNow(pusher.clock));

describe('more withdrawals at once than both bounds', () => {
  test('pause the flow before any is sent, and tell how many of how many and what agrees to them', async () => {
    await delivered(10);
    await lost(...range(6));
    await push();
    expect(cancels()).toBe(0);
    const flow = await pusher.flowRow();
    expect(flow?.paused_kind).toBe('withdrawals');
    expect(flow?.paused_reason).toContain('6 of 10 delivered documents');
    expect(flow?.paused_reason).toContain('bridge resume erp --agree-to-withdrawals');
  });

  test('are found although they come little by little', async () => {
    await delivered(10);
    for (const n of range(6)) {
      await lost(n);
      await push();
      pusher.clock.advance(60_000);
    }
    // Of 10 the first 5 are half, and no more than that.
    expect(cancels()).toBe(5);
    expect((await pusher.flowRow())?.paused_reason).toContain('1 of 10 delivered documents');
    expect((await pusher.flowRow())?.paused_reason).toContain('5 were withdrawn within the last 1 h');
  });

  test('are sent once a person has agreed, and only those', async () => {
    await delivered(10);
    await lost(...range(6));
    await push();
    pusher.clock.advance(1);
    await resume(true);
    await push();
    expect(cancels()).toBe(6);
    await won(...range(6));
    pusher.clock.advance(1);
    await push();
    expect(erp.living()).toHaveLength(10);
    await lost(...range(7));
    await push();
    expect(cancels(), 'agreed once, not for ever').toBe(6);
    expect((await pusher.flowRow())?.paused_kind).toBe('withdrawals');
  });

  test('pause it again when it is resumed without agreement', async () => {
    await delivered(10);
    await lost(...range(6));
    await push();
    await resume(false);
    await push();
    expect(cancels()).toBe(0);
    expect((await pusher.flowRow())?.paused_kind).toBe('withdrawals');
  });

  test('are none any more when the source shows them again', async () => {
    await delivered(10);
    await lost(...range(6));
    await push();
    await won(...range(6));
    await resume(false);
    await push();
    expect(cancels()).toBe(0);
    expect(await pusher.flowRow()).toMatchObject({ paused_kind: null });
    expect(await pusher.row(0)).toMatchObject({ due: null, waiting_since: null });
  });
});

test('withdrawals of what the ERP may hold, as nobody knows how its creation ended, count like any other', async () => {
  pusher = await createPusher(6, { withdrawals: { most: 3, share: 0.5, hours: 1 } });
  erp = createFakeErp();
  await won(...range(5));
  erp.onWrite = async (operations, apply) => {
    operations.map(apply);
    throw new Error('connection lost');
  };
  await push();
  erp.onWrite = async (operations, apply) => operations.map(apply);
  pusher.clock.advance(60_000);
  await lost(...range(5));
  await push();
  expect(erp.living()).toHaveLength(5);
  expect((await pusher.flowRow())?.paused_reason).toContain('5 of 5 delivered documents');
});

describe('withdrawals within one bound', () => {
  test.each([
    ['few of few', 4, 3],
    ['a small share of many', 20, 8],
  ])('are sent: %s', async (_what, suppliers, count) => {
    await delivered(suppliers);
    await lost(...range(count));
    await push();
    expect(cancels()).toBe(count);
    expect(await pusher.flowRow()).toMatchObject({ paused_kind: null });
  });

  test('are sent after what else became due with them', async () => {
    await delivered(6);
    await pusher.store(
      'awards',
      ...range(3).map((n) => lotAwardRecord(idOf(500 + n), event, [])),
      ...range(3, 3).map((n) => lotAwardRecord(idOf(500 + n), event, [{ supplier: supplier(n), cost: '77' }])),
    );
    erp.calls.length = 0;
    await push();
    expect(erp.calls.join(' ').replaceAll('write ', '')).toBe('amend amend amend cancel cancel cancel');
  });

  test('do not count for ever', async () => {
    await delivered(10);
    await lost(...range(5));
    await push();
    pusher.clock.advance(3_600_001);
    await lost(...range(2, 5));
    await push();
    expect(cancels()).toBe(7);
  });
});

describe('withdrawals and a queue that is long already', () => {
  test('are all counted before any is sent, also of documents that have waited for long', async () => {
    await delivered(10);
    await pauseFlow(pusher.db.database, 'erp', 'month end', timestampNow(pusher.clock));
    // Each has differed for a time of its own, and keeps its place.
    for (const n of range(8)) {
      pusher.clock.advance(1_000);
      await pusher.store('awards', lotAwardRecord(idOf(500 + n), event, [{ supplier: supplier(n), cost: '77' }]));
    }
    pusher.clock.advance(1_000);
    await lost(...range(8));
    await resume(false);
    await push();
    expect(cancels()).toBe(0);
    expect((await pusher.flowRow())?.paused_reason).toContain('8 of 10 delivered documents');
  });

  test('are all counted before the one that tries a circuit is sent', async () => {
    await delivered(10);
    await pusher.db.database.query('update bridge.flows set circuit_until = $1', [timestampNow(pusher.clock)]);
    await lost(...range(8));
    await push();
    expect(cancels()).toBe(0);
    expect((await pusher.flowRow())?.paused_kind).toBe('withdrawals');
  });

  test('one that changes all the time is sent in its turn', async () => {
    await delivered(8);
    Object.assign(erp.connector.capabilities, { batchMax: 1 });
    const before = erp.operations.length;
    const change = (n: number) =>
      pusher.store(
        'awards',
        lotAwardRecord(idOf(500 + n), event, [{ supplier: supplier(n), cost: String(erp.operations.length) }]),
      );
    await lost(0);
    await change(1);
    await change(2);
    erp.onWrite = async (operations, apply) => {
      if (erp.operations.length < before + 12) {
        pusher.clock.advance(1_000);
        await change(1);
        await change(2);
        // It wins something, and loses it before anybody has looked.
        await won(0);
        await lost(0);
      }
      return operations.map(apply);
    };
    await push();
    expect(erp.operations.slice(before, before + 4).map(({ action }) => action)).toContain('cancel');
  });
});

test('what was never delivered is no withdrawal', async () => {
  await delivered(1);
  pusher = await createPusher(12, { withdrawals: { most: 3, share: 0.5, hours: 1 } });
  await won(...range(10));
  await lost(...range(10));
  await push();
  expect(cancels()).toBe(0);
  expect(await pusher.flowRow()).toMatchObject({ paused_kind: null });
});
