/** What the pusher writes into the history. The flow, its records and its ERP are those of the push tests. */
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { createAttemptPruning } from '#bridge/ledger/attempts/prune-attempts.ts';
import type { Outcome } from '#connector/connector.ts';
import { timestampFromMs } from '#contract/timestamp.ts';
import type { Database } from '#platform/database/database.ts';
import { eventRecord, idOf, lotAwardRecord } from '../../parts.ts';
import { createFakeErp, type FakeErp } from '../../push/fake-erp.ts';
import { createPusher, event, keyOf, type Pusher, supplier } from '../../push/pusher.ts';

interface Row {
  id: string;
  action: string | null;
  step: string;
  outcome: string;
  number: number;
  event_name: string | null;
  supplier_name: string | null;
  amount: string | null;
  currency: string | null;
  message: string | null;
  error_type: string | null;
  reference: string | null;
  started: string;
  ended: string;
  next_try: string | null;
  request_id: string | null;
  content_hash: string | null;
}

let pusher: Pusher;
let erp: FakeErp;

beforeEach(async () => {
  pusher = await createPusher();
  erp = createFakeErp();
});
afterEach(() => erp.throwFaults());

async function push(database?: Database): Promise<void> {
  const worker = await pusher.worker(erp, database ? { database } : {});
  await worker.push();
}

const attempts = (n = 1) =>
  pusher.db.database.query<Row>('select * from bridge.attempts where key = $1 order by id', [keyOf(n)]);
const versions = () =>
  pusher.db.database.query<{ content_hash: string; body: string; made_of: string }>(
    'select content_hash, body, made_of from bridge.document_versions order by sent, content_hash',
  );

const refused = (message: string): Outcome => ({ status: 'rejected', error: { type: 'data', message } });

describe('an attempt', () => {
  test('is a row with names, amount, outcome, reference and times, and what was sent is kept', async () => {
    await pusher.award([1, '10.50']);
    erp.onWrite = async (operations, apply) => {
      pusher.clock.advance(1_500);
      return operations.map(apply);
    };
    await push();
    const began = Date.UTC(2030, 0, 1);
    const [row] = await attempts();
    expect(row).toMatchObject({
      action: 'create',
      step: 'write',
      outcome: 'created',
      number: 1,
      event_name: 'Office chairs',
      supplier_name: 'Supplier 1',
      amount: '10.5',
      currency: 'EUR',
      reference: 'PO-1',
      started: timestampFromMs(began),
      ended: timestampFromMs(began + 1_500),
      next_try: null,
      message: null,
      request_id: erp.operations[0]?.idempotencyKey,
    });
    const [version] = await versions();
    expect(version?.content_hash).toBe(row?.content_hash);
    expect(JSON.parse(version?.body ?? '')).toEqual(erp.operations[0]?.document);
    expect(JSON.parse(version?.made_of ?? '')).toMatchObject([
      { feed: 'sourcing-events', id: event, modified: expect.stringMatching(/^2029-/) },
      { feed: 'awards', id: idOf(500), modified: expect.stringMatching(/^2029-/) },
    ]);
  });

  test('that the ERP refuses has its words, and the next one counts on', async () => {
    await pusher.award([1, '10']);
    erp.onWrite = async () => [
      { status: 'retry', error: { type: 'transient', message: 'HTTP 503: closed for lunch' } },
    ];
    await push();
    pusher.clock.advance(10_000);
    erp.onWrite = async () => [refused('account 4711 is locked')];
    await push();
    const rows = await attempts();
    expect(rows).toMatchObject([
      { outcome: 'retry', number: 1, error_type: 'transient', message: 'HTTP 503: closed for lunch' },
      { outcome: 'rejected', number: 2, error_type: 'data', message: 'account 4711 is locked', next_try: null },
    ]);
    // The first wait is 1 s, and up to a fifth more at random.
    expect(rows[0]?.next_try).toMatch(/^2030-01-01T00:00:01\.[01]/);
    expect(await versions()).toHaveLength(1);
  });

  test('that was interrupted is followed by one that waits, and by the lookup that finds the object', async () => {
    erp = createFakeErp({ lateEffectMs: 30_000 });
    await pusher.award([1, '10']);
    erp.onWrite = async (operations, apply) => {
      operations.map(apply);
      return [{ status: 'unknown', message: 'the connection broke' }];
    };
    await push();
    pusher.clock.advance(1_000);
    await pusher.db.database.query(
      "update bridge.flow_documents set due = '2030-01-01T00:00:00Z' where due is not null",
    );
    await push();
    pusher.clock.advance(60_000);
    await push();
    expect(await attempts()).toMatchObject([
      { step: 'write', outcome: 'unknown', message: 'the connection broke', next_try: '2030-01-01T00:00:30.000000Z' },
      { step: 'wait', outcome: 'waits', next_try: '2030-01-01T00:00:30.000000Z' },
      { step: 'look up', outcome: 'unchanged', reference: 'PO-1' },
    ]);
  });

  test('is one row although its transaction ran twice because the answer to the first COMMIT was lost', async () => {
    await pusher.award([1, '10']);
    const { database } = pusher.db;
    let lost = 0;
    const losing: Database = {
      ...database,
      transaction: async (work) => {
        let settles = false;
        const result = await database.transaction((tx) =>
          work({
            ...tx,
            query: (statement, params) => {
              if (typeof statement === 'object' && statement.text.includes('insert into bridge.attempts'))
                settles = true;
              return tx.query(statement, params);
            },
          }),
        );
        if (settles && lost === 0) {
          lost += 1;
          throw new Error('the connection was lost during COMMIT');
        }
        return result;
      },
    };
    await push({ ...losing });
    expect(lost).toBe(1);
    expect(await attempts()).toHaveLength(1);
    expect(erp.calls).toEqual(['write create']);
  });

  test('of a document that cannot be made has its reason and the names that are known', async () => {
    await pusher.store('awards', lotAwardRecord(idOf(500), event, [{ supplier: supplier(1), cost: 'much' }]));
    await push();
    expect(await attempts()).toMatchObject([
      {
        step: 'make',
        outcome: 'rejected',
        action: null,
        event_name: 'Office chairs',
        supplier_name: 'Supplier 1',
        content_hash: null,
      },
    ]);
  });

  test('of a document that waits for a record is written once, however often it is tried', async () => {
    const other = idOf(2);
    await pusher.store('awards', lotAwardRecord(idOf(700), other, [{ supplier: supplier(1) }]));
    for (let minute = 0; minute < 3; minute += 1) {
      await push();
      pusher.clock.advance(61_000);
    }
    const rows = await pusher.db.database.query<Row>('select * from bridge.attempts');
    expect(rows).toMatchObject([{ step: 'make', outcome: 'not-yet' }]);
    await pusher.store('sourcing-events', eventRecord(other, [supplier(1)]));
    await push();
    expect(await pusher.db.database.query('select outcome from bridge.attempts order by id')).toEqual([
      { outcome: 'not-yet' },
      { outcome: 'created' },
    ]);
  });
});

describe('pruning', () => {
  const day = 24 * 60 * 60_000;

  test('deletes old attempts, and of what was sent only what the ERP does not hold', async () => {
    const { clock } = pusher;
    const { database } = pusher.db;
    await pusher.award([1, '10']);
    await push();
    clock.advance(2 * day);
    await pusher.award([1, '20']);
    await push();
    clock.advance(day);
    await createAttemptPruning({ database, clock, days: 4 })();
    expect(await attempts()).toHaveLength(2);
    expect(await versions()).toHaveLength(2);
    await createAttemptPruning({ database, clock, days: 2 })();
    expect(await attempts()).toMatchObject([{ outcome: 'updated' }]);
    clock.advance(100 * day);
    await createAttemptPruning({ database, clock, days: 2 })();
    expect(await attempts()).toEqual([]);
    expect((await versions()).map(({ body }) => JSON.parse(body) as unknown)).toEqual([erp.operations[1]?.document]);
  });
});
