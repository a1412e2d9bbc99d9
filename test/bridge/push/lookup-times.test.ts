/** When the ERP is asked what it holds: not before the effect of every earlier call is visible in it. */
import { afterEach, beforeEach, expect, onTestFinished, test } from 'vitest';
import { replayDocuments } from '#bridge/ledger/flows/control-flows.ts';
import { createProcessIdentity, type ProcessIdentity } from '#bridge/settings/process-identity.ts';
import { timestampFromMs } from '#contract/timestamp.ts';
import { timestampNow } from '#platform/clock.ts';
import { startProcess } from '../parts.ts';
import { createFakeErp, type FakeErp } from './fake-erp.ts';
import { createPusher, keyOf, type Pusher } from './pusher.ts';

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

/** Makes a call in a process that is then killed: no process sees the end of the call. */
async function killedDuringCall(processIdentity: ProcessIdentity): Promise<void> {
  const reached = Promise.withResolvers<void>();
  erp.onWrite = () => {
    reached.resolve();
    return new Promise(() => undefined);
  };
  const killed = await pusher.worker(erp, { processIdentity });
  onTestFinished(() => killed.stop.abort(new Error('the test is over')));
  void killed.push().catch(() => undefined);
  await reached.promise;
  await killed.process.die();
  erp.forgetCalls();
  erp.onWrite = async (operations, apply) => operations.map(apply);
}

test('a call of a process that another machine cannot see is waited for as long as it may run', async () => {
  erp = createFakeErp({ timeoutMs: 5_000 });
  await pusher.award([1, '10']);
  await killedDuringCall({ own: 'one machine', isOver: () => false });
  // The time limit of the call, the time to stop, and two seconds between the clocks: 5 + 5 + 2 s.
  await after(0, 6_000, 5_999);
  expect(erp.calls).toEqual(['write create']);
  await after(1);
  expect(erp.calls).toEqual(['write create', 'lookup 1', 'write create']);
});

test('a call that outlives its bridge, which was closed and started anew in the same process, is waited for, too', async () => {
  erp = createFakeErp({ timeoutMs: 5_000 });
  await pusher.award([1, '10']);
  await killedDuringCall(createProcessIdentity());
  const next = createProcessIdentity();
  for (const ms of [0, 6_000, 5_999]) {
    pusher.clock.advance(ms);
    await push(next);
  }
  expect(erp.calls).toEqual(['write create']);
  pusher.clock.advance(1);
  await push(next);
  expect(erp.calls).toEqual(['write create', 'lookup 1', 'write create']);
});

test('a call of a process that is seen to be dead is waited for from then on, also after a restart', async () => {
  erp = createFakeErp({ timeoutMs: 60_000, lateEffectMs: 10_000 });
  await pusher.award([1, '10']);
  await killedDuringCall({ own: 'killed', isOver: () => false });
  // The late effect and two seconds, counted from the first push that sees it: 10 + 2 s, and not 60 + 5 + 10 + 2 s.
  pusher.clock.advance(3_000);
  await push({ own: 'next', isOver: (identity) => identity === 'killed' });
  pusher.clock.advance(6_000);
  await push({ own: 'after next', isOver: () => true });
  await after(5_999);
  expect(erp.calls).toEqual(['write create']);
  await after(1);
  expect(erp.calls).toEqual(['write create', 'lookup 1', 'write create']);
});

test('a call that the ERP answered is looked up when its object is visible, one that was cut off later', async () => {
  erp = createFakeErp({ timeoutMs: 60_000, lateEffectMs: 30_000, visibleAfterMs: 4_000 });
  await pusher.award([1, '10'], [2, '20']);
  erp.onWrite = async (operations) =>
    operations.map(({ document }) => ({
      status: 'unknown',
      message: 'the ERP answered 500',
      answered: document.key === keyOf(1),
    }));
  await push();
  erp.onWrite = async (operations, apply) => operations.map(apply);
  for (const ms of [2_000, 1_999]) {
    pusher.clock.advance(ms);
    await push();
  }
  expect(erp.calls).toEqual(['write create create']);
  pusher.clock.advance(1);
  await push();
  expect(erp.calls).toEqual(['write create create', 'lookup 1', 'write create']);
  pusher.clock.advance(25_999);
  await push();
  expect(erp.living().map(({ key }) => key)).toEqual([keyOf(1)]);
  pusher.clock.advance(1);
  await push();
  expect(erp.calls).toEqual(['write create create', 'lookup 1', 'write create', 'lookup 1', 'write create']);
});

test('a process that was frozen and runs again notes the end of its call, although it has lost the lease', async () => {
  erp = createFakeErp({ timeoutMs: 600_000, lateEffectMs: 10_000 });
  await pusher.award([1, '10']);
  const { promise: taken, resolve: takeOver } = Promise.withResolvers<void>();
  const { promise: ended, resolve: end } = Promise.withResolvers<void>();
  erp.onWrite = async (operations, apply) => {
    takeOver();
    await ended;
    return operations.map(apply);
  };
  const frozen = await pusher.worker(erp, { processIdentity: { own: 'frozen', isOver: () => false } });
  const running = frozen.push();
  await taken;
  erp.forgetCalls();
  await pusher.db.database.query(`update bridge.leases set expires = now() - interval '1 s'`);
  // Another process takes over, and waits, as the call may still be under way.
  await after(60_000, 60_000);
  expect(erp.calls).toEqual(['write create']);
  end();
  await running;
  // The late effect and two seconds from then on: 10 + 2 s, and not 600 + 5 + 10 + 2 s.
  await after(0, 6_000, 5_999);
  expect(erp.calls).toEqual(['write create']);
  await after(1);
  expect(erp.calls).toEqual(['write create', 'lookup 1']);
  expect(erp.objects).toHaveLength(1);
});

test.each([
  ['while its process has the lease', false],
  ['after its process has lost the lease', true],
])(
  'a call that did not stop in time, %s, has not ended: it is waited for as long as it may run',
  async (_case, isLost) => {
    erp = createFakeErp({ timeoutMs: 20, lateEffectMs: 0 });
    await pusher.award([1, '10']);
    const { promise: ended, resolve: end } = Promise.withResolvers<void>();
    onTestFinished(() => end());
    erp.onWrite = async () => {
      if (isLost) await pusher.db.database.query('update bridge.leases set fencing_token = fencing_token + 1');
      await ended;
      return [];
    };
    const stubborn = await pusher.worker(erp, { processIdentity: { own: 'stubborn', isOver: () => false } });
    await stubborn.push();
    erp.forgetCalls();
    erp.onWrite = async (operations, apply) => operations.map(apply);
    if (isLost) await pusher.db.database.query(`update bridge.leases set expires = now() - interval '1 s'`);
    // 20 ms, 5 s to stop, and 2 s between the clocks.
    await after(0, 7_019);
    expect(erp.calls).toEqual(['write create']);
    await after(1);
    expect(erp.calls).toEqual(['write create', 'lookup 1', 'write create']);
  },
);

test('a call under a clock that was years ahead is waited for as long as any other call', async () => {
  erp = createFakeErp({ timeoutMs: 5_000, lateEffectMs: 60_000 });
  await pusher.award([1, '10']);
  await killedDuringCall({ own: 'one machine', isOver: () => false });
  const years = timestampFromMs(pusher.clock.nowMs() + 3 * 365 * 86_400_000);
  await pusher.db.database.query('update bridge.flow_documents set intent_at = $1', [years]);
  // Time limit of the call, time to stop, late effect and two seconds, from when it is found: 5 + 5 + 60 + 2 s.
  await after(2_000, 71_999);
  expect(erp.calls).toEqual(['write create']);
  await after(1);
  expect(erp.calls).toEqual(['write create', 'lookup 1', 'write create']);
});
