/** When the ERP is asked what it holds: not before the effect of every earlier call is visible in it. */
import { afterEach, beforeEach, expect, test } from 'vitest';
import { replayDocuments } from '#bridge/flows/control-flows.ts';
import type { ProcessIdentity } from '#bridge/leases/process-identity.ts';
import { timestampFromMs } from '#contract/timestamp.ts';
import { timestampNow } from '#platform/clock.ts';
import { startProcess } from '../parts.ts';
import { createFakeErp, type FakeErp } from './fake-erp.ts';
import { createPusher, type Pusher } from './pusher.ts';

let pusher: Pusher;
let erp: FakeErp;
beforeEach(async () => {
  pusher = await createPusher();
});
afterEach(() => erp.throwFaults());

const push = async (processIdentity?: ProcessIdentity) =>
  (await pusher.worker(erp, processIdentity ? { processIdentity } : {})).push();
const foreign: ProcessIdentity = { own: 'another machine', isOver: () => false };
const replay = () => replayDocuments(pusher.db.database, { flow: 'erp' }, timestampNow(pusher.clock));
/** Advances the clock by each of these waits and pushes after it, as a process on another machine. */
async function after(...waits: number[]): Promise<void> {
  for (const ms of waits) {
    pusher.clock.advance(ms);
    await push(foreign);
  }
}

test('a document that is replayed right after its delivery is not looked up before the ERP shows it', async () => {
  erp = createFakeErp({ lateEffectMs: 60_000 });
  await pusher.award([1, '10']);
  let shownFromMs = 0;
  erp.onLookup = async (_documents, find) => (pusher.clock.nowMs() < shownFromMs ? [] : find());
  await push();
  shownFromMs = pusher.clock.nowMs() + 60_000;
  await replay();
  await after(0, 30_000, 29_999);
  expect(erp.calls).toEqual(['write create']);
  await after(60_000);
  expect(erp.calls).toEqual(['write create', 'lookup 1', 'write amend']);
  expect(erp.objects).toHaveLength(1);
});

test('a document that is replayed right after its cancellation is looked up when the ERP shows that', async () => {
  erp = createFakeErp({ lateEffectMs: 60_000 });
  await pusher.award([1, '10']);
  await push();
  await pusher.award();
  await push();
  await replay();
  await after(0, 59_999);
  expect(erp.calls).toEqual(['write create', 'write cancel']);
  await after(60_000);
  expect(erp.calls).toEqual(['write create', 'write cancel', 'lookup 1']);
});

test('a call that reached the ERP after another process is not looked up before the ERP shows it', async () => {
  erp = createFakeErp({ lateEffectMs: 60_000 });
  await pusher.award([1, '10']);
  await push();
  pusher.clock.advance(600_000);
  await pusher.award([1, '11']);
  const { promise: taken, resolve: takeOver } = Promise.withResolvers<void>();
  const { promise: ended, resolve: end } = Promise.withResolvers<void>();
  erp.onWrite = async (operations, apply) => {
    takeOver();
    await ended;
    return operations.map(apply);
  };
  const slow = await pusher.worker(erp);
  const running = slow.push();
  await taken;
  erp.forgetCalls();
  erp.onWrite = async (operations, apply) => operations.map(apply);
  await pusher.db.database.query(`update bridge.leases set expires = now() - interval '1 s'`);
  await pusher.award([1, '12']);
  await after(600_000);
  expect(erp.living()).toMatchObject([{ total: '12' }]);
  pusher.clock.advance(600_000);
  end();
  await running;
  expect(erp.living(), 'overwritten').toMatchObject([{ total: '11' }]);
  const asked = erp.calls.length;
  await after(0, 30_000, 29_999);
  expect(erp.calls).toHaveLength(asked);
  await after(60_000);
  expect(erp.living()).toMatchObject([{ total: '12' }]);
});

test('a call that reached the ERP after another process, and ended before it, is corrected', async () => {
  erp = createFakeErp();
  await pusher.award([1, '10']);
  await push();
  await pusher.award([1, '11']);
  const { promise: taken, resolve: takeOver } = Promise.withResolvers<void>();
  const { promise: ended, resolve: end } = Promise.withResolvers<void>();
  erp.onWrite = async (operations, apply) => {
    takeOver();
    await ended;
    return operations.map(apply);
  };
  const running = (await pusher.worker(erp)).push();
  await taken;
  erp.forgetCalls();
  let calls = 0;
  erp.onWrite = async (operations, apply) => {
    const outcomes = operations.map(apply);
    calls += 1;
    if (calls > 1) return outcomes;
    end();
    await running;
    expect(erp.living(), 'overwritten').toMatchObject([{ total: '11' }]);
    return outcomes;
  };
  await pusher.db.database.query(`update bridge.leases set expires = now() - interval '1 s'`);
  await pusher.award([1, '12']);
  pusher.clock.advance(600_000);
  await push();
  expect(erp.living()).toMatchObject([{ total: '12' }]);
});

test('a call that ended late makes its document uncertain, even when the database is away at that moment', async () => {
  erp = createFakeErp();
  await pusher.award([1, '10']);
  const process = await startProcess(pusher.db);
  let refused = 0;
  const worker = await pusher.worker(erp, {
    process,
    database: {
      ...process.database,
      query: async (statement, params) => {
        const text = typeof statement === 'string' ? statement : statement.text;
        if (text.includes('uncertain_since = $2') && ++refused < 3) throw new Error('no database');
        return process.database.query(statement, params);
      },
    },
  });
  erp.onWrite = async (operations, apply) => {
    await pusher.db.database.query('update bridge.leases set fencing_token = fencing_token + 1');
    return operations.map(apply);
  };
  await worker.push();
  expect(refused).toBe(3);
  const [row] = await pusher.db.database.query('select uncertain_since from bridge.flow_documents');
  expect(row).not.toEqual({ uncertain_since: null });
});

test('a call of another machine is also waited for as long as the clocks may differ', async () => {
  erp = createFakeErp({ timeoutMs: 5_000 });
  await pusher.award([1, '10']);
  erp.onWrite = async () => {
    throw new Error('connection lost');
  };
  await push({ own: 'one machine', isOver: () => false });
  erp.onWrite = async (operations, apply) => operations.map(apply);
  // The time limit of the call, the time to stop, and two seconds: 5 + 5 + 2 s.
  await after(0, 6_000, 5_999);
  expect(erp.calls).toEqual(['write create']);
  await after(60_000);
  expect(erp.calls).toEqual(['write create', 'lookup 1', 'write create']);
});

test('a call under a clock that was years ahead is waited for as long as any other call', async () => {
  erp = createFakeErp({ timeoutMs: 5_000, lateEffectMs: 60_000 });
  await pusher.award([1, '10']);
  erp.onWrite = async () => {
    throw new Error('connection lost');
  };
  await push();
  erp.onWrite = async (operations, apply) => operations.map(apply);
  const years = timestampFromMs(pusher.clock.nowMs() + 3 * 365 * 86_400_000);
  await pusher.db.database.query('update bridge.flow_documents set intent_at = $1', [years]);
  // Time limit of the call, time to stop, late effect and two seconds, from when it is found: 5 + 5 + 60 + 2 s.
  await after(2_000, 71_999);
  expect(erp.calls).toEqual(['write create']);
  await after(60_000);
  expect(erp.calls).toEqual(['write create', 'lookup 1', 'write create']);
});
