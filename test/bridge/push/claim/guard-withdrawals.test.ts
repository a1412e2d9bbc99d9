import { afterEach, describe, expect, test } from 'vitest';
import { pauseFlow, resumeFlow } from '#bridge/ledger/flows/control-flows.ts';
import type { FlowSettings } from '#bridge/settings/settings.ts';
import { timestampNow } from '#platform/clock.ts';
import { eventRecord, idOf, lotAwardRecord } from '../../parts.ts';
import { createFakeErp, type FakeErp } from '../fake-erp.ts';
import { createPusher, event, type Pusher, supplier } from '../pusher.ts';

let erp: FakeErp;
let pusher: Pusher;
afterEach(() => erp.throwFaults());

/** Each supplier has a lot of its own, so that it wins and loses independently of the others. */
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
  pusher = await createPusher(suppliers + 2, { withdrawals: { most: 3, share: 0.5 } });
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
  test('pause the flow before any is sent; the reason says how many of how many, and how to agree', async () => {
    await delivered(10);
    await lost(...range(6));
    await push();
    expect(cancels()).toBe(0);
    const flow = await pusher.flowRow();
    expect(flow?.paused_kind).toBe('withdrawals');
    expect(flow?.paused_reason).toContain('6 of 10 delivered documents');
    expect(flow?.paused_reason).toContain('bridge resume erp --agree');
  });

  test('pause the flow although they come little by little', async () => {
    await delivered(10);
    for (const n of range(6)) {
      await lost(n);
      await push();
      pusher.clock.advance(60_000);
    }
    // The first 5 of 10 are half, which is within the bound.
    expect(cancels()).toBe(5);
    expect((await pusher.flowRow())?.paused_reason).toContain('1 of 10 delivered documents');
    expect((await pusher.flowRow())?.paused_reason).toContain('5 were withdrawn within the last 24 h');
  });

  test('are sent once an operator has agreed, and only those', async () => {
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
    expect(cancels(), 'the agreement holds once').toBe(6);
    expect((await pusher.flowRow())?.paused_kind).toBe('withdrawals');
  });

  test('pause the flow again when it is resumed without agreement', async () => {
    await delivered(10);
    await lost(...range(6));
    await push();
    await resume(false);
    await push();
    expect(cancels()).toBe(0);
    expect((await pusher.flowRow())?.paused_kind).toBe('withdrawals');
  });

  test('are withdrawals no longer when the source shows the awards again', async () => {
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

test('withdrawals of objects whose creation has an unknown outcome are counted, too', async () => {
  pusher = await createPusher(6, { withdrawals: { most: 3, share: 0.5 } });
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

test('the share is that of what was delivered, not of what is being created', async () => {
  pusher = await createPusher(9, { withdrawals: { most: 2, share: 0.5 } });
  erp = createFakeErp();
  await won(...range(5));
  await push();
  erp.onWrite = async () => {
    throw new Error('connection lost');
  };
  await won(...range(4, 5));
  await push();
  erp.onWrite = async (operations, apply) => operations.map(apply);
  // Before the look-up of those whose outcome is unknown is due.
  await lost(...range(3));
  await push();
  expect(cancels()).toBe(0);
  expect((await pusher.flowRow())?.paused_reason).toContain('3 of 5 delivered documents');
});

test('withdrawals whose outcome is unknown are counted also after their documents have changed again', async () => {
  const documents: FlowSettings['documents'] = ['sourcing-event', 'award'];
  pusher = await createPusher(10, { documents, withdrawals: { most: 2, share: 0.1 } });
  erp = createFakeErp({ kinds: documents, lateEffectMs: 3_600_000 });
  await won(...range(10));
  await push();
  erp.onWrite = async (operations, apply) => {
    operations.map(apply);
    throw new Error('connection lost');
  };
  await lost(0, 1);
  await push();
  erp.onWrite = async (operations, apply) => operations.map(apply);
  expect(cancels()).toBe(2);
  // That changes each document of the event. Those of its own kind are looked at first.
  await pusher.store('sourcing-events', eventRecord(event, range(10).map(supplier), { status: 'DELETED' }));
  await push();
  expect(cancels()).toBe(2);
  expect((await pusher.flowRow())?.paused_reason).toContain('3 of 11 delivered documents');
});

describe('withdrawals within one bound', () => {
  test.each([
    ['few of few documents', 4, 3],
    ['a small share of many documents', 20, 8],
  ])('are sent: %s', async (_what, suppliers, count) => {
    await delivered(suppliers);
    await lost(...range(count));
    await push();
    expect(cancels()).toBe(count);
    expect(await pusher.flowRow()).toMatchObject({ paused_kind: null });
  });

  test('are sent after other documents that became due at the same time', async () => {
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

  test('stop counting after a day', async () => {
    await delivered(10);
    await lost(...range(5));
    await push();
    pusher.clock.advance(24 * 3_600_000 + 1);
    await lost(...range(2, 5));
    await push();
    expect(cancels()).toBe(7);
  });
});

describe('withdrawals in a long queue', () => {
  test('are all counted before any is sent, also those of documents that have waited for long', async () => {
    await delivered(10);
    await pauseFlow(pusher.db.database, 'erp', 'month end', timestampNow(pusher.clock));
    // Each document became due at another time, and keeps its place.
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

  test('are all counted before the trial of a half-open circuit is sent', async () => {
    await delivered(10);
    await pusher.db.database.query('update bridge.flows set circuit_until = $1', [timestampNow(pusher.clock)]);
    await lost(...range(8));
    await push();
    expect(cancels()).toBe(0);
    expect((await pusher.flowRow())?.paused_kind).toBe('withdrawals');
  });

  test('of a document that changes all the time are sent in their turn', async () => {
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
        // The supplier wins and loses again before the pusher looks.
        await won(0);
        await lost(0);
      }
      return operations.map(apply);
    };
    await push();
    expect(erp.operations.slice(before, before + 4).map(({ action }) => action)).toContain('cancel');
  });
});

test('taking back what was never delivered is no withdrawal', async () => {
  await delivered(1);
  pusher = await createPusher(12, { withdrawals: { most: 3, share: 0.5 } });
  await won(...range(10));
  await lost(...range(10));
  await push();
  expect(cancels()).toBe(0);
  expect(await pusher.flowRow()).toMatchObject({ paused_kind: null });
});
