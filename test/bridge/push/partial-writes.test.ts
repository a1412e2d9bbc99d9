/** A write that is refused after it has begun: what it did is never taken for nothing. */
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { Operation, Outcome, OutcomeError } from '#connector/connector.ts';
import { createFakeErp, type FakeErp } from './fake-erp.ts';
import { createPusher, keyOf, type Pusher } from './pusher.ts';

let pusher: Pusher;
let erp: FakeErp;
beforeEach(async () => {
  pusher = await createPusher();
  erp = createFakeErp();
});
afterEach(() => erp.throwFaults());

const push = async () => (await pusher.worker(erp)).push();
const take: FakeErp['onWrite'] = async (operations, apply) => operations.map(apply);
const refused: OutcomeError = { type: 'data', message: 'step 3: no such plant' };

/** The ERP takes the first request of each operation, and refuses the second one. */
const beginAndRefuse =
  (status: 'rejected' | 'retry', error: OutcomeError): FakeErp['onWrite'] =>
  async (operations, apply) => {
    operations.map(apply);
    return operations.map((): Outcome => ({ status, error, partial: true }));
  };

describe('a create that is refused after it has begun', () => {
  test('is a dead letter that says so, and is cancelled when its document is withdrawn', async () => {
    await pusher.award([1, '10']);
    erp.onWrite = beginAndRefuse('rejected', refused);
    await push();
    expect(await pusher.row(1)).toMatchObject({
      due: null,
      dead_since: expect.anything(),
      last_error: 'refused after it had begun: step 3: no such plant',
    });
    erp.onWrite = take;
    await pusher.award();
    await push();
    expect(erp.living()).toEqual([]);
    expect(erp.calls).toEqual(['write create', 'lookup 1', 'write cancel']);
    expect(erp.operations.at(-1)?.reference).toBe('PO-1');
    expect(await pusher.row(1)).toMatchObject({ due: null, intent_id: null, dead_since: null });
  });

  test('is cancelled also after a second refusal, which did nothing', async () => {
    await pusher.award([1, '10']);
    erp.onWrite = beginAndRefuse('rejected', refused);
    await push();
    erp.onWrite = async (operations) => operations.map(() => ({ status: 'rejected', error: refused }));
    await pusher.award([1, '11']);
    await push();
    erp.onWrite = take;
    await pusher.award();
    await push();
    expect(erp.living()).toEqual([]);
    expect(erp.calls).toEqual(['write create', 'lookup 1', 'write amend', 'write cancel']);
  });

  test('for the login keeps what it did in mind until the flow is resumed, and amends it then', async () => {
    await pusher.award([1, '10']);
    erp.onWrite = beginAndRefuse('retry', { type: 'auth', message: 'who are you?' });
    await push();
    expect(await pusher.flowRow()).toMatchObject({ paused_kind: 'auth', paused_reason: 'who are you?' });
    expect((await pusher.row(1))?.last_error).toBe('stopped after it had begun: who are you?');
    erp.onWrite = take;
    await pusher.db.database.query(
      'update bridge.flows set paused_kind = null, paused_reason = null, paused_at = null',
    );
    await pusher.award([1, '11']);
    await push();
    expect(erp.living()).toMatchObject([{ key: keyOf(1), total: '11', reference: 'PO-1' }]);
    expect(erp.calls).toEqual(['write create', 'lookup 1', 'write amend']);
  });
});

test('an amend that is refused after it has begun is looked up when its document changes back', async () => {
  await pusher.award([1, '10']);
  await push();
  erp.onWrite = beginAndRefuse('rejected', refused);
  await pusher.award([1, '20']);
  await push();
  erp.onWrite = take;
  await pusher.award([1, '10']);
  await push();
  expect(erp.living()).toMatchObject([{ total: '10', reference: 'PO-1' }]);
  expect(erp.calls).toEqual(['write create', 'write amend', 'lookup 1', 'write amend']);
});

test('a create that is refused before anything was done is forgotten, and its withdrawal calls nobody', async () => {
  await pusher.award([1, '10']);
  erp.onWrite = async (operations) => operations.map(() => ({ status: 'rejected', error: refused }));
  await push();
  expect((await pusher.row(1))?.last_error).toBe('step 3: no such plant');
  await pusher.award();
  await push();
  expect(erp.calls).toEqual(['write create']);
});

describe('where the first requests of a write leave what lookup does not find', () => {
  let cancelled: Operation[];
  beforeEach(() => {
    erp = createFakeErp({ leavesParts: ['award'] });
    cancelled = [];
  });

  /** Takes what leaves no object: a cancellation. */
  const cancelParts: FakeErp['onWrite'] = async (operations) => {
    cancelled.push(...operations);
    return operations.map(() => ({ status: 'cancelled', reference: '' }));
  };

  test('a withdrawal after a refusal in the middle is sent as a cancellation without a reference', async () => {
    await pusher.award([1, '10']);
    erp.onWrite = async (operations) => operations.map(() => ({ status: 'rejected', error: refused, partial: true }));
    await push();
    erp.onWrite = cancelParts;
    await pusher.award();
    await push();
    expect(cancelled).toMatchObject([{ action: 'cancel', reference: undefined, document: { key: keyOf(1) } }]);
    expect(erp.calls).toEqual(['write create', 'lookup 1', 'write cancel']);
    expect(await pusher.row(1)).toMatchObject({ due: null, intent_id: null });
    await pusher.award();
    await push();
    expect(cancelled).toHaveLength(1);
  });

  test('so is one after a call that was cut off, and refused at once the second time', async () => {
    await pusher.award([1, '10']);
    erp.onWrite = async () => {
      throw new Error('connection lost');
    };
    await push();
    erp.onWrite = async (operations) => operations.map(() => ({ status: 'rejected', error: refused }));
    pusher.clock.advance(60_000);
    await push();
    expect((await pusher.row(1))?.dead_since).not.toBeNull();
    erp.onWrite = cancelParts;
    await pusher.award();
    await push();
    expect(cancelled).toHaveLength(1);
    expect(erp.calls).toEqual(['write create', 'lookup 1', 'write create', 'lookup 1', 'write cancel']);
  });

  test('that cancellation is sent again after it was cut off itself', async () => {
    await pusher.award([1, '10']);
    erp.onWrite = async (operations) => operations.map(() => ({ status: 'rejected', error: refused, partial: true }));
    await push();
    erp.onWrite = async () => {
      throw new Error('connection lost');
    };
    await pusher.award();
    await push();
    erp.onWrite = cancelParts;
    pusher.clock.advance(60_000);
    await push();
    expect(cancelled).toHaveLength(1);
    expect(erp.calls).toEqual(['write create', 'lookup 1', 'write cancel', 'lookup 1', 'write cancel']);
  });

  test('a cancellation of a held object that was cut off is over when lookup finds it no more', async () => {
    await pusher.award([1, '10']);
    await push();
    erp.onWrite = async (operations, apply) => {
      operations.map(apply);
      throw new Error('connection lost');
    };
    await pusher.award();
    await push();
    pusher.clock.advance(60_000);
    await push();
    expect(erp.calls).toEqual(['write create', 'write cancel', 'lookup 1']);
    expect(await pusher.row(1)).toMatchObject({ due: null, intent_id: null });
  });
});
