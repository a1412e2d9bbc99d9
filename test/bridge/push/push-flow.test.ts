import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { readDeadLetters, resumeFlow } from '#bridge/ledger/flows/control-flows.ts';
import { registerFlows } from '#bridge/ledger/flows/register-flows.ts';
import type { Outcome, OutcomeError } from '#connector/connector.ts';
import { timestampNow } from '#platform/clock.ts';
import { eventRecord, idOf, lotAwardRecord, startProcess } from '../parts.ts';
import { createFakeErp, type FakeErp } from './fake-erp.ts';
import { createPusher, event, keyOf, type Pusher, type PushWorker, supplier } from './pusher.ts';

let pusher: Pusher;
let erp: FakeErp;
const workers: { worker: PushWorker; running: Promise<unknown> }[] = [];

beforeEach(async () => {
  pusher = await createPusher();
  erp = createFakeErp();
});
afterEach(async () => {
  for (const { worker } of workers) worker.stop.abort(new Error('the test is over'));
  await Promise.all(workers.splice(0).map(({ running }) => running));
  erp.throwFaults();
});

/** One push by a new process. */
async function push(): Promise<void> {
  const worker = await pusher.worker(erp);
  await worker.push();
}

/** Starts a process that will be killed, and resolves when `reached` does. */
async function pushUntil(reached: Promise<unknown>): Promise<PushWorker> {
  const worker = await pusher.worker(erp);
  workers.push({ worker, running: worker.push().catch(() => undefined) });
  await reached;
  return worker;
}

const forever = () => new Promise<never>(() => undefined);
const data = (message: string): Outcome => ({ status: 'rejected', error: { type: 'data', message } });
const later = (error: OutcomeError): Outcome => ({ status: 'retry', error });

describe('reconciling', () => {
  test('creates what is wanted, amends what differs, cancels what is not wanted, creates it again', async () => {
    await pusher.award([1, '10']);
    await push();
    expect(erp.living()).toMatchObject([{ key: keyOf(1), total: '10', reference: 'PO-1' }]);
    await pusher.award([1, '20']);
    await push();
    expect(erp.living()).toMatchObject([{ key: keyOf(1), total: '20', reference: 'PO-1' }]);
    await pusher.award();
    await push();
    expect(erp.living()).toEqual([]);
    await pusher.award([1, '30']);
    await push();
    expect(erp.living()).toMatchObject([{ key: keyOf(1), total: '30', reference: 'PO-2' }]);
    expect(erp.calls).toEqual(['write create', 'write amend', 'write cancel', 'write create']);
    expect(erp.operations.map(({ reference }) => reference).slice(0, 3)).toEqual([undefined, 'PO-1', 'PO-1']);
  });

  test('makes no call for a record that changed without changing the document', async () => {
    await pusher.award([1, '10']);
    await push();
    await pusher.award([1, '10']);
    await push();
    expect(erp.calls).toEqual(['write create']);
    expect(await pusher.row(1)).toMatchObject({ due: null });
  });

  test('makes no call for a withdrawal of what was never delivered', async () => {
    await pusher.award([1, '10']);
    await pusher.award();
    await push();
    expect(erp.calls).toEqual([]);
    expect(await pusher.row(1)).toMatchObject({ due: null, delivered_hash: null });
  });

  test('sends at most as many documents in a batch as the connector takes', async () => {
    erp = createFakeErp({ batchMax: 2 });
    await pusher.award([0, '1'], [1, '1'], [2, '1']);
    await push();
    expect(erp.calls).toEqual(['write create create', 'write create']);
  });

  test('waits for a record that has not been read yet, and delivers when it comes', async () => {
    const other = idOf(2);
    await pusher.store('awards', lotAwardRecord(idOf(700), other, [{ supplier: supplier(1) }]));
    await push();
    expect(erp.calls).toEqual([]);
    await pusher.store('sourcing-events', eventRecord(other, [supplier(1)]));
    await push();
    expect(erp.living()).toHaveLength(1);
  });

  test('sends the newer state next when a document changes while it is written', async () => {
    await pusher.award([1, '10']);
    erp.onWrite = async (operations, apply) => {
      if (erp.calls.length === 1) await pusher.award([1, '11']);
      return operations.map(apply);
    };
    await push();
    expect(erp.living()).toMatchObject([{ total: '11' }]);
    expect(erp.calls).toEqual(['write create', 'write amend']);
    expect(await pusher.row(1)).toMatchObject({ due: null, intent_id: null });
  });

  test('does not deliver a document of a test event', async () => {
    await pusher.store('sourcing-events', eventRecord(event, [supplier(1)], { is_test: true }));
    await pusher.award([1, '10']);
    await push();
    expect(erp.calls).toEqual([]);
  });

  test.each([
    ['has another form', { cost: 'much' }],
    ['was renamed', { price: '5' }],
  ])('makes the documents of other suppliers when a field of one record %s, and names it', async (_what, odd) => {
    const award = { supplier: supplier(2), share_awarded: '1', bid_sheet_values: [], ...odd };
    await pusher.store(
      'awards',
      lotAwardRecord(idOf(500), event, [{ supplier: supplier(1) }]),
      lotAwardRecord(idOf(501), event, [], { awards: [award] }),
    );
    await push();
    expect(erp.living().map(({ key }) => key)).toEqual([keyOf(1)]);
    expect(await pusher.row(2)).toMatchObject({ due: null, last_error: expect.stringContaining('cost') });
    expect((await pusher.row(2))?.dead_since).not.toBeNull();
    await pusher.store('awards', lotAwardRecord(idOf(501), event, [{ supplier: supplier(2), cost: '5' }]));
    await push();
    expect(erp.living()).toHaveLength(2);
    expect(await pusher.row(2)).toMatchObject({ last_error: null, dead_since: null });
  });
});

test('a document that cannot be made for an unforeseen reason does not block the others', async () => {
  await pusher.store(
    'awards',
    lotAwardRecord(idOf(500), event, [{ supplier: supplier(1) }]),
    lotAwardRecord(idOf(501), idOf(2), [{ supplier: supplier(2) }]),
  );
  await pusher.store('sourcing-events', eventRecord(idOf(2), [supplier(2)]));
  await pusher.db.database.query(`update bridge.mirror set body = '{' where record_id = $1`, [idOf(501)]);
  await push();
  expect(erp.living().map(({ key }) => key)).toEqual([keyOf(1)]);
  const dead = await readDeadLetters(pusher.db.database, { limit: 10 });
  expect(dead).toMatchObject([{ sourcingEvent: idOf(2), lastError: expect.stringContaining('cannot be made') }]);
});

test('a document at which the connector throws delays the others of its batch, and does not block them', async () => {
  await pusher.award([0, '1'], [1, '1'], [2, '1'], [3, '1']);
  erp.onWrite = async (operations, apply) => {
    if (operations.some(({ document }) => document.key === keyOf(2))) throw new TypeError('cannot read properties');
    return operations.map(apply);
  };
  for (let count = 0; count < 4; count += 1) {
    await push();
    pusher.clock.advance(600_000);
  }
  expect(
    erp
      .living()
      .map(({ key }) => key)
      .toSorted(),
  ).toEqual([0, 1, 3].map(keyOf));
  expect((await pusher.row(2))?.last_error).toContain('cannot read properties');
});

describe('a process that is killed', () => {
  test('before its intent is committed has done nothing, and the next process creates one object', async () => {
    await pusher.award([1, '10']);
    const { database } = pusher.db;
    await database.query(
      `create function refuse() returns trigger as 'begin raise exception ''no''; end' language plpgsql`,
    );
    await database.query(
      `create trigger refuse before update on bridge.flow_documents
       for each row when (new.intent_id is not null) execute function refuse()`,
    );
    await expect(push()).rejects.toThrow('no');
    await database.query('drop trigger refuse on bridge.flow_documents');
    expect(await pusher.row(1)).toMatchObject({ intent_id: null });
    await push();
    expect(erp.calls).toEqual(['write create']);
  });

  test('before the ERP was reached leaves an intent; the next process looks up and creates one object', async () => {
    await pusher.award([1, '10']);
    const reached = Promise.withResolvers<void>();
    erp.onWrite = () => {
      reached.resolve();
      return forever();
    };
    const killed = await pushUntil(reached.promise);
    await killed.process.die();
    erp.forgetCalls();
    expect((await pusher.row(1))?.intent_id).not.toBeNull();
    erp.onWrite = async (operations, apply) => operations.map(apply);
    await push();
    expect(erp.calls).toEqual(['write create', 'lookup 1', 'write create']);
    expect(erp.objects).toHaveLength(1);
    const [first, second] = erp.operations;
    expect(second?.idempotencyKey, 'the same content keeps its key').toBe(first?.idempotencyKey);
  });

  test('after the ERP was reached leaves one object: the next process looks up and creates no other', async () => {
    await pusher.award([1, '10']);
    const reached = Promise.withResolvers<void>();
    erp.onWrite = (operations, apply) => {
      operations.map(apply);
      reached.resolve();
      return forever();
    };
    const killed = await pushUntil(reached.promise);
    await killed.process.die();
    erp.forgetCalls();
    await push();
    expect(erp.calls).toEqual(['write create', 'lookup 1']);
    expect(erp.objects).toHaveLength(1);
    expect(await pusher.row(1)).toMatchObject({
      due: null,
      intent_id: null,
      delivered_hash: erp.objects[0]?.contentHash,
    });
  });

  test('during a lookup leaves the intent; the next process looks up again', async () => {
    await pusher.award([1, '10']);
    erp.onWrite = async (operations, apply) => {
      operations.map(apply);
      throw new Error('connection lost');
    };
    await push();
    pusher.clock.advance(60_000);
    const reached = Promise.withResolvers<void>();
    erp.onLookup = () => {
      reached.resolve();
      return forever();
    };
    const killed = await pushUntil(reached.promise);
    await killed.process.die();
    erp.forgetCalls();
    erp.onLookup = async (_documents, find) => find();
    await push();
    expect(erp.calls).toEqual(['write create', 'lookup 1', 'lookup 1']);
    expect(erp.objects).toHaveLength(1);
  });

  test('before its outcome is committed leaves one object: the next process finds it by a lookup', async () => {
    await pusher.award([1, '10']);
    const worker = await pusher.worker(erp);
    erp.onWrite = async (operations, apply) => {
      const outcomes = operations.map(apply);
      const next = await pusher.worker(erp);
      await worker.process.die();
      erp.forgetCalls();
      await next.push();
      return outcomes;
    };
    await worker.push().catch(() => undefined);
    expect(erp.calls).toEqual(['write create', 'lookup 1']);
    expect(erp.objects).toHaveLength(1);
    // The first call may have reached the ERP last: the ERP is asked, and holds what is wanted.
    await push();
    expect(erp.calls).toEqual(['write create', 'lookup 1', 'lookup 1']);
    expect(await pusher.row(1)).toMatchObject({ due: null, intent_id: null });
  });

  test('in the middle of a batch: objects that were written are found, the others are created', async () => {
    await pusher.award([0, '1'], [1, '1'], [2, '1']);
    const reached = Promise.withResolvers<void>();
    erp.onWrite = (operations, apply) => {
      operations.slice(0, 2).map(apply);
      reached.resolve();
      return forever();
    };
    const killed = await pushUntil(reached.promise);
    await killed.process.die();
    erp.forgetCalls();
    erp.onWrite = async (operations, apply) => operations.map(apply);
    await push();
    expect(erp.calls).toEqual(['write create create create', 'lookup 3', 'write create']);
    expect(erp.objects).toHaveLength(3);
  });

  test('and whose record changes before the next process starts: the object is amended, or cancelled', async () => {
    await pusher.award([1, '10'], [2, '10'], [3, '10']);
    erp.onWrite = async (operations, apply) => {
      // The third operation never reaches the ERP.
      operations.slice(0, 2).map(apply);
      throw new Error('connection lost');
    };
    await push();
    erp.onWrite = async (operations, apply) => operations.map(apply);
    await pusher.award([1, '11']);
    await push();
    expect(erp.living()).toMatchObject([{ key: keyOf(1), total: '11' }]);
    expect(erp.objects).toHaveLength(2);
    for (const n of [1, 2, 3]) expect(await pusher.row(n)).toMatchObject({ due: null, intent_id: null });
  });
});

describe('an unknown outcome', () => {
  test.each<[string, (erp: FakeErp) => FakeErp['onWrite']]>([
    [
      'an error',
      () => async (operations, apply) => {
        operations.map(apply);
        throw new Error('connection lost');
      },
    ],
    ['too few outcomes', () => async (operations, apply) => operations.map(apply).slice(1)],
    ['too many outcomes', () => async (operations, apply) => [...operations.map(apply), data('more')]],
    [
      'no outcomes at all',
      () => async (operations, apply) => {
        operations.map(apply);
        return undefined as never;
      },
    ],
    [
      'an error thrown at once',
      () => (operations, apply) => {
        operations.map(apply);
        throw new Error('not even a promise');
      },
    ],
    [
      'an outcome that does not fit what was asked',
      () => async (operations, apply) => operations.map(apply).map(() => ({ status: 'cancelled', reference: '1' })),
    ],
    [
      'outcomes that cannot be read',
      () => async (operations, apply) => {
        operations.map(apply);
        return operations.map(() => ({ status: 'rejected' }) as never);
      },
    ],
    [
      'the outcome "unknown"',
      () => async (operations, apply) => {
        operations.map(apply);
        return operations.map(() => ({ status: 'unknown', message: 'gateway time-out' }));
      },
    ],
  ])('(%s) is looked up before anything is sent again', async (_what, scripted) => {
    await pusher.award([1, '10'], [2, '20']);
    erp.onWrite = scripted(erp);
    await push();
    expect(await pusher.row(1)).toMatchObject({ attempts: 1 });
    expect((await pusher.row(1))?.intent_id).not.toBeNull();
    expect(erp.calls).toHaveLength(1);
    pusher.clock.advance(60_000);
    await push();
    expect(erp.calls).toEqual(['write create create', 'lookup 2']);
    expect(await pusher.row(1)).toMatchObject({ due: null, last_error: null, attempts: 0 });
  });

  test('is not looked up while the call can still take effect', async () => {
    erp = createFakeErp({ timeoutMs: 5_000, lateEffectMs: 60_000 });
    await pusher.award([1, '10']);
    let arrive: () => unknown = () => undefined;
    erp.onWrite = async (operations, apply) => {
      // The connection is lost, and the ERP applies the call later.
      arrive = () => operations.map(apply);
      throw new Error('connection lost');
    };
    await push();
    // The ERP's late effect, counted from the end of the call: 60 s.
    for (const ms of [2_000, 30_000, 27_999]) {
      pusher.clock.advance(ms);
      await push();
    }
    expect(erp.calls).toEqual(['write create']);
    arrive();
    pusher.clock.advance(1);
    await push();
    expect(erp.calls).toEqual(['write create', 'lookup 1']);
    expect(erp.objects).toHaveLength(1);
  });

  test('is not looked up while its process may still be running, even when the ERP has no late effects', async () => {
    erp = createFakeErp({ timeoutMs: 5_000, lateEffectMs: 0 });
    await pusher.award([1, '10']);
    const late = Promise.withResolvers<void>();
    const called = Promise.withResolvers<void>();
    erp.onWrite = async (operations, apply) => {
      called.resolve();
      await late.promise;
      return operations.map(apply);
    };
    const one = await pusher.worker(erp, { processIdentity: { own: 'one', isOver: () => false } });
    const pushing = one.push();
    await called.promise;
    // The process loses its connections to the database, and its call goes on.
    await one.process.die();
    const other = await pusher.worker(erp, { processIdentity: { own: 'other', isOver: () => false } });
    // The time limit of the call and the time to stop: 5 + 5 s.
    for (const ms of [0, 4_000, 5_000]) {
      pusher.clock.advance(ms);
      await other.push();
    }
    expect(erp.calls).toEqual(['write create']);
    late.resolve();
    await pushing.catch(() => undefined);
    pusher.clock.advance(60_000);
    await other.push();
    expect(erp.calls).toEqual(['write create', 'lookup 1']);
    expect(erp.objects).toHaveLength(1);
  });

  test('stays unknown while lookup fails, and each wait is longer', async () => {
    await pusher.award([1, '10']);
    erp.onWrite = async () => {
      throw new Error('connection lost');
    };
    erp.onLookup = async () => {
      throw new Error('no service');
    };
    await push();
    for (let count = 0; count < 3; count += 1) {
      pusher.clock.advance(600_000);
      await push();
    }
    expect(erp.calls).toEqual(['write create', 'lookup 1', 'lookup 1', 'lookup 1']);
    expect(await pusher.row(1)).toMatchObject({ attempts: 4, last_error: 'lookup failed: no service' });
  });
});

describe('what lookup has found', () => {
  const interrupted = async () => {
    await pusher.award([1, '10']);
    erp.onWrite = async (operations, apply) => {
      operations.map(apply);
      throw new Error('connection lost');
    };
    await push();
    erp.onWrite = async (operations) => operations.map(() => later({ type: 'transient', message: 'not now' }));
  };

  test('is kept when the amendment after it fails: no second object is created', async () => {
    await interrupted();
    await pusher.award([1, '11']);
    await push();
    erp.onWrite = async (operations, apply) => operations.map(apply);
    pusher.clock.advance(60_000);
    await push();
    expect(erp.calls).toEqual(['write create', 'lookup 1', 'write amend', 'write amend']);
    expect(erp.living()).toMatchObject([{ total: '11' }]);
  });

  test('is kept when the cancellation after it fails: the object does not stay in the ERP', async () => {
    await interrupted();
    await pusher.award();
    await push();
    erp.onWrite = async (operations, apply) => operations.map(apply);
    pusher.clock.advance(60_000);
    await push();
    expect(erp.calls).toEqual(['write create', 'lookup 1', 'write cancel', 'write cancel']);
    expect(erp.living()).toEqual([]);
  });

  test('is amended when the ERP cannot tell its content', async () => {
    await interrupted();
    erp.onLookup = async (_documents, find) => find().map((object) => ({ ...object, contentHash: undefined }));
    erp.onWrite = async (operations, apply) => operations.map(apply);
    pusher.clock.advance(60_000);
    await push();
    expect(erp.calls).toEqual(['write create', 'lookup 1', 'write amend']);
    expect(erp.living()).toHaveLength(1);
  });
});

describe('an outcome', () => {
  test('rejected makes a dead letter with the error text of the ERP; the others are delivered', async () => {
    await pusher.award([1, '10'], [2, '20'], [3, '30']);
    erp.onWrite = async (operations, apply) =>
      operations.map((one) => (one.document.key === keyOf(2) ? data('Vendor 2 is blocked\0') : apply(one)));
    await push();
    expect(erp.living().map(({ key }) => key)).toEqual([keyOf(1), keyOf(3)]);
    expect(await pusher.row(2)).toMatchObject({ due: null, last_error: 'Vendor 2 is blocked' });
    expect((await pusher.row(2))?.dead_since).not.toBeNull();
    pusher.clock.advance(86_400_000);
    await push();
    expect(erp.calls).toHaveLength(1);
    // A newer version of the document is tried.
    erp.onWrite = async (operations, apply) => operations.map(apply);
    await pusher.award([1, '10'], [2, '21'], [3, '30']);
    await push();
    expect(erp.living(keyOf(2))).toMatchObject([{ total: '21' }]);
    expect(await pusher.row(2)).toMatchObject({ dead_since: null, last_error: null });
  });

  test('rejected for an older state does not make a dead letter of the newer state', async () => {
    await pusher.award([1, '10']);
    erp.onWrite = async (operations, apply) => {
      if (erp.calls.length > 1) return operations.map(apply);
      await pusher.award([1, '11']);
      return [data('10 is too little')];
    };
    await push();
    expect(erp.living()).toMatchObject([{ total: '11' }]);
  });

  test('that fails an older state counts as no failure of the newer state', async () => {
    await pusher.award([1, '10']);
    erp.onWrite = async () => {
      if (erp.calls.length === 1) await pusher.award([1, '11']);
      return [later({ type: 'transient', message: 'not now' })];
    };
    await push();
    expect(erp.calls).toHaveLength(2);
    expect(await pusher.row(1)).toMatchObject({ attempts: 1 });
  });

  test('is settled although the database is away for a moment: no lookup is needed', async () => {
    await pusher.award([1, '10']);
    const process = await startProcess(pusher.db);
    let refused = 0;
    const worker = await pusher.worker(erp, {
      process,
      database: {
        ...process.database,
        transaction: async (work) => {
          if (erp.calls.length === 1 && ++refused < 4) throw new Error('no database');
          return process.database.transaction(work);
        },
      },
    });
    await worker.push();
    expect(refused).toBeGreaterThan(3);
    expect(erp.calls).toEqual(['write create']);
    expect(await pusher.row(1)).toMatchObject({ due: null, intent_id: null });
  });

  test.each(['transient', 'locked'] as const)('%s is tried again after longer and longer waits', async (type) => {
    await pusher.award([1, '10']);
    erp.onWrite = async () => [later({ type, message: 'not now' })];
    for (let count = 0; count < 14; count += 1) {
      const beganMs = pusher.clock.nowMs();
      await push();
      await push();
      expect(erp.calls, 'not before its time').toHaveLength(count + 1);
      const waitMs = Date.parse((await pusher.row(1))?.due ?? '') - beganMs;
      // 1 s, doubled each time up to 10 minutes, and up to a fifth more.
      const leastMs = Math.min(600_000, 1_000 * 2 ** count);
      expect(waitMs).toBeGreaterThanOrEqual(leastMs);
      expect(waitMs).toBeLessThanOrEqual(leastMs * 1.2);
      pusher.clock.advance(waitMs);
    }
    expect(
      erp.calls.every((call) => call === 'write create'),
      'nothing took effect: nothing to look up',
    ).toBe(true);
    erp.onWrite = async (operations, apply) => operations.map(apply);
    await push();
    expect(await pusher.row(1)).toMatchObject({ due: null, attempts: 0, last_error: null });
  });

  test('rate-limited is not tried again before the time that the ERP asked for', async () => {
    await pusher.award([1, '10']);
    erp.onWrite = async () => [later({ type: 'rate-limited', message: 'slow down', retryAfterMs: 90_000 })];
    await push();
    pusher.clock.advance(89_999);
    await push();
    expect(erp.calls).toHaveLength(1);
    pusher.clock.advance(1);
    await push();
    expect(erp.calls).toHaveLength(2);
  });

  test.each(['auth', 'config'] as const)('%s pauses the flow until an operator resumes it', async (type) => {
    await pusher.award([1, '10'], [2, '20']);
    erp.onWrite = async ([first], apply) => [
      apply(first as never),
      later({ type, message: 'the password has expired' }),
    ];
    await push();
    expect(await pusher.flowRow()).toMatchObject({ paused_kind: type, paused_reason: 'the password has expired' });
    expect(await pusher.row(1)).toMatchObject({ due: null });
    // Another process starts, with the same settings.
    await registerFlows(pusher.db.database, [pusher.flow], timestampNow(pusher.clock));
    pusher.clock.advance(86_400_000);
    await pusher.award([1, '11'], [2, '20']);
    await push();
    expect(erp.calls).toHaveLength(1);
    erp.onWrite = async (operations, apply) => operations.map(apply);
    await resumeFlow(pusher.db.database, 'erp', { agreeToWithdrawals: false }, timestampNow(pusher.clock));
    await push();
    expect(erp.living().map(({ total }) => total)).toEqual(['11', '20']);
    expect(await pusher.flowRow()).toMatchObject({ paused_kind: null, paused_reason: null });
  });
});

describe('a connector that does not keep its time limit', () => {
  test('gets an aborted signal at the time limit, and the outcome is unknown', async () => {
    erp = createFakeErp({ timeoutMs: 30 });
    await pusher.award([1, '10']);
    erp.onWrite = async (_operations, _apply, signal) => {
      await new Promise((resolve) => signal.addEventListener('abort', resolve));
      throw signal.reason;
    };
    await push();
    expect((await pusher.row(1))?.last_error).toContain('30 ms');
    expect((await pusher.row(1))?.intent_id).not.toBeNull();
  });

  test('is not called again before the aborted call has ended', async () => {
    erp = createFakeErp({ timeoutMs: 30 });
    await pusher.award([1, '10']);
    const end = Promise.withResolvers<void>();
    erp.onWrite = async (operations, apply) => {
      await end.promise;
      return operations.map(apply);
    };
    const worker = await pusher.worker(erp);
    await worker.push();
    expect((await pusher.row(1))?.last_error).toContain('did not stop');
    pusher.clock.advance(600_000);
    await pusher.award([1, '12']);
    await worker.push();
    expect(erp.calls).toEqual(['write create']);
    end.resolve();
    erp.onWrite = async (operations, apply) => operations.map(apply);
    await expect
      .poll(async () => {
        await worker.push();
        return erp.living();
      })
      .toMatchObject([{ total: '12' }]);
    expect(erp.calls).toEqual(['write create', 'lookup 1', 'write amend']);
  });

  test('gets an aborted signal when the process stops; what it answers then is settled', async () => {
    await pusher.award([1, '10'], [2, '20']);
    const worker = await pusher.worker(erp);
    erp.onWrite = async ([first], apply, signal) => {
      const done = apply(first as never);
      worker.stop.abort(new Error('the process stops'));
      expect(signal.aborted).toBe(true);
      return [done, later({ type: 'transient', message: 'stopped' })];
    };
    await worker.push();
    expect(await pusher.row(1)).toMatchObject({ due: null, intent_id: null });
    expect(await pusher.row(2)).toMatchObject({ intent_id: null, last_error: 'stopped' });
    erp.onWrite = async (operations, apply) => operations.map(apply);
    pusher.clock.advance(60_000);
    await push();
    expect(erp.calls).toEqual(['write create create', 'write create']);
    expect(erp.living()).toHaveLength(2);
  });
});

test('two workers never write at once, and what becomes due while one works is delivered', async () => {
  const [a, b] = await Promise.all([pusher.worker(erp), pusher.worker(erp)]);
  let under = 0;
  erp.onWrite = async (operations, apply) => {
    under += 1;
    expect(under).toBe(1);
    if (erp.calls.length === 1) {
      await pusher.award([1, '11'], [2, '20']);
      // Its wake-up reaches the process that does not hold the lease.
      await b.push();
    }
    under -= 1;
    return operations.map(apply);
  };
  await pusher.award([1, '10']);
  await Promise.all([a.push(), a.push(), b.push()]);
  expect(erp.living().map(({ total }) => total)).toEqual(['11', '20']);
});

describe('a process that was frozen for minutes', () => {
  /** The lease expires and another process takes over; time passes for both. */
  const takeOver = async (ms: number) => {
    erp.forgetCalls();
    pusher.clock.advance(ms);
    await pusher.db.database.query(`update bridge.leases set expires = now() - interval '1 s'`);
    await push();
  };

  test('before its call makes no call, and leaves what the other process has written', async () => {
    await pusher.award([1, '10']);
    const process = await startProcess(pusher.db);
    let wasFrozen = false;
    const worker = await pusher.worker(erp, {
      process,
      database: {
        ...process.database,
        transaction: async (work) => {
          const result = await process.database.transaction(work);
          const intended = (await pusher.row(1))?.intent_id !== null;
          if (intended && !wasFrozen) {
            wasFrozen = true;
            await takeOver(600_000);
          }
          return result;
        },
      },
    });
    await worker.push();
    expect(erp.calls).toEqual(['lookup 1', 'write create']);
    await push();
    expect(erp.living()).toHaveLength(1);
  });

  test('before its call, but keeps its lease, does not start a call that others believe to be over', async () => {
    await pusher.award([1, '10']);
    const process = await startProcess(pusher.db);
    const worker = await pusher.worker(erp, {
      process,
      database: {
        ...process.database,
        transaction: async (work) => {
          const result = await process.database.transaction(work);
          if ((await pusher.row(1))?.intent_id !== null) pusher.clock.advance(5_000);
          return result;
        },
      },
    });
    await worker.push();
    expect(erp.calls).toEqual([]);
    expect(await pusher.row(1)).toMatchObject({ intent_id: null, last_error: expect.stringContaining('frozen') });
  });

  test('during its call, which so reaches the ERP last: the overwritten object is corrected', async () => {
    await pusher.award([1, '10']);
    await push();
    await pusher.award([1, '11']);
    const worker = await pusher.worker(erp);
    let calls = 0;
    erp.onWrite = async (operations, apply) => {
      calls += 1;
      if (calls > 1) return operations.map(apply);
      await pusher.award([1, '12']);
      await takeOver(600_000);
      expect(erp.living()).toMatchObject([{ total: '12' }]);
      return operations.map(apply);
    };
    await worker.push();
    expect(erp.living(), 'overwritten').toMatchObject([{ total: '11' }]);
    await push();
    expect(erp.living()).toMatchObject([{ total: '12' }]);
    expect(await pusher.row(1)).toMatchObject({ due: null, waiting_since: null });
  });

  test('during a call that was abandoned: its late effect is corrected', async () => {
    erp = createFakeErp({ timeoutMs: 30 });
    await pusher.award([1, '10']);
    await push();
    await pusher.award([1, '11']);
    const end = Promise.withResolvers<void>();
    const done = Promise.withResolvers<void>();
    erp.onWrite = async (operations, apply) => {
      await end.promise;
      done.resolve();
      return operations.map(apply);
    };
    await push();
    erp.onWrite = async (operations, apply) => operations.map(apply);
    await pusher.award([1, '12']);
    erp.forgetCalls();
    await push();
    expect(erp.living()).toMatchObject([{ total: '12' }]);
    end.resolve();
    await done.promise;
    await expect.poll(() => pusher.row(1)).not.toMatchObject({ due: null });
    await push();
    expect(erp.living()).toMatchObject([{ total: '12' }]);
    expect(erp.objects).toHaveLength(1);
  });
});

test('a document on hold is not sent and does not count as waiting, until it is marked as due again', async () => {
  pusher = await createPusher(2, { only: { tags: {}, status: ['CLOSED'] } });
  await pusher.award([1, '10']);
  await push();
  await pusher.store('sourcing-events', eventRecord(event, [supplier(0), supplier(1)], { status: 'OPEN' }));
  await pusher.award([1, '11']);
  await push();
  expect(erp.living()).toMatchObject([{ total: '10' }]);
  expect(await pusher.row(1)).toMatchObject({ due: null, waiting_since: null, error_type: 'held', dead_since: null });
  await pusher.store('sourcing-events', eventRecord(event, [supplier(0), supplier(1)], { status: 'CLOSED' }));
  await push();
  expect(erp.living()).toMatchObject([{ total: '11' }]);
  expect(await pusher.row(1)).toMatchObject({ due: null, error_type: null });
});
