/** The comparison of what was delivered with what the ERP holds: planted differences of each kind, kills, limits. */
import * as fc from 'fast-check';
import { beforeEach, describe, expect, test } from 'vitest';
import { createSecretRedactor } from '#bridge/connectors/secret-redactor.ts';
import { replayDocuments } from '#bridge/ledger/flows/control-flows.ts';
import { findingNames } from '#bridge/operate/reconcile/finding-names.ts';
import { readReport } from '#bridge/operate/reconcile/read-report.ts';
import { reconcileFlow } from '#bridge/operate/reconcile/reconcile-flow.ts';
import {
  beginReconciliation,
  countFindings,
  type LedgerFinding,
  pruneReconciliations,
  readFindings,
} from '#bridge/operate/reconcile/reconciliation-store.ts';
import type { DocumentOf } from '#connector/documents.ts';
import { RateLimited } from '#connector/errors.ts';
import { fieldsOf, type ReadBack, type TakenDocument } from '#connector/read-back.ts';
import { timestampNow } from '#platform/clock.ts';
import type { Database } from '#platform/database/database.ts';
import { createFakeErp, type FakeErp } from '../../push/fake-erp.ts';
import { createPusher, keyOf, type Pusher } from '../../push/pusher.ts';

type OnReadBack = (given: readonly TakenDocument[], signal: AbortSignal) => Promise<ReadBack[]>;

let pusher: Pusher;
let erp: FakeErp;
/** Answers for each delivery what the fake ERP holds of its total. */
const plain: OnReadBack = async (given) => {
  erp.calls.push(`read back ${given.length}`);
  return given.map(({ document, reference }) => {
    const { key } = document;
    const object = erp.objects.find((one) => one.reference === reference);
    if (!object) return { key, status: 'missing' };
    if (object.cancelled) return { key, status: 'cancelled', reference: object.reference };
    const total = (document as DocumentOf<'award'>).total_cost;
    const fields = fieldsOf({ total }, { total: object.total }, { decimals: ['total'] });
    return { key, status: 'held', reference: object.reference, fields, changed: { by: 'ann' } };
  });
};
let onReadBack: OnReadBack;

beforeEach(async () => {
  pusher = await createPusher(8);
  erp = createFakeErp({ batchMax: 3, readsBack: ['award'] });
  onReadBack = plain;
});

const push = async () => (await pusher.worker(erp)).push();
const deliver = async (...numbers: number[]) => {
  await pusher.award(...numbers.map((n): [number, string] => [n, `${n + 10}.50`]));
  await push();
};

interface Options {
  signal?: AbortSignal;
  database?: Database;
  goesOn?: boolean;
  events?: string[];
  readsBack?: boolean;
}

async function reconcile({ signal, database, goesOn = false, events, readsBack = true }: Options = {}) {
  const deps = { database: database ?? pusher.db.database, clock: pusher.clock, abortGraceMs: 20 };
  const { capabilities } = erp.connector;
  const openFlow = {
    flow: pusher.flow,
    connector: { ...erp.connector, capabilities: { ...capabilities, ...(readsBack ? {} : { readsBack: [] }) } },
    session: { ...erp.session, readBack: (given, abort) => onReadBack(given, abort) } as typeof erp.session,
    secrets: createSecretRedactor({}),
  };
  const asked = { flow: 'erp', events: events ?? null, askedBy: 'test', goesOn };
  const begun = await beginReconciliation(deps.database, asked, timestampNow(pusher.clock));
  return reconcileFlow({ ...deps, openFlow }, begun, signal ?? new AbortController().signal);
}

const findingsOf = async ({ id }: { id: number }) => {
  const all = await readFindings(pusher.db.database, id, { names: findingNames, limit: 1_000 });
  return all.map(({ key, finding, field, expected, held }: LedgerFinding) => ({ key, finding, field, expected, held }));
};
const nothing = { field: null, expected: null, held: null };
const objectOf = (n: number) => erp.objects.find(({ key, cancelled }) => key === keyOf(n) && !cancelled);

describe('a comparison', () => {
  test('finds each kind of difference, and nothing else', async () => {
    await deliver(0, 1, 2, 3, 4);
    await pusher.award([0, '10.50'], [1, '11.50'], [2, '12.50'], [3, '13.50']);
    await push();
    Object.assign(objectOf(0) ?? {}, { total: '10.51' });
    erp.objects.splice(erp.objects.indexOf(objectOf(1) as never), 1);
    Object.assign(objectOf(2) ?? {}, { cancelled: true });
    // A person has brought back the order that the bridge had cancelled.
    for (const object of erp.objects) if (object.key === keyOf(4)) object.cancelled = false;
    const run = await reconcile();
    expect(await findingsOf(run)).toEqual([
      { key: keyOf(0), finding: 'changed', field: 'total', expected: '10.5', held: '10.51' },
      { key: keyOf(1), finding: 'missing', ...nothing },
      { key: keyOf(2), finding: 'cancelled', ...nothing },
      { key: keyOf(4), finding: 'orphaned', ...nothing },
    ]);
    expect(run).toMatchObject({ documents: 5, asDelivered: 1 });
    const [changed] = await readFindings(pusher.db.database, run.id, { names: ['changed'], limit: 1 });
    expect(changed).toMatchObject({ changedBy: 'ann', reference: 'PO-1' });
  });

  test('is put right by a replay of what it has found, and the next one finds nothing', async () => {
    await deliver(0, 1, 2);
    Object.assign(objectOf(0) ?? {}, { total: '99' });
    // Not taken out of the list: its number would be given again.
    Object.assign(objectOf(1) ?? {}, { key: 'deleted', reference: 'deleted' });
    const keys = (await findingsOf(await reconcile())).map(({ key }) => key);
    expect(keys).toEqual([keyOf(0), keyOf(1)]);
    await replayDocuments(pusher.db.database, { flow: 'erp', keys }, timestampNow(pusher.clock));
    await push();
    expect(await findingsOf(await reconcile())).toEqual([]);
    erp.throwFaults();
  });

  test('through a connector that does not read back says so, and still finds what is missing', async () => {
    await deliver(0, 1);
    erp.objects.splice(erp.objects.indexOf(objectOf(1) as never), 1);
    const run = await reconcile({ readsBack: false });
    expect(await findingsOf(run)).toEqual([
      { key: keyOf(0), finding: 'not compared', ...nothing },
      { key: keyOf(1), finding: 'missing', ...nothing },
    ]);
    expect(run).toMatchObject({ asDelivered: 0, comparedValues: 0 });
  });

  test('keeps the latest runs of a flow only', async () => {
    await deliver(0);
    for (let n = 0; n < 53; n += 1) await reconcile();
    const [kept] = await pusher.db.database.query<{ runs: number; newest: number }>(
      'select count(*)::int as runs, max(id)::int as newest from bridge.reconciliations',
    );
    expect(kept).toEqual({ runs: 50, newest: 53 });
  });

  test('is deleted with its findings once it is older than what is kept', async () => {
    await deliver(0);
    Object.assign(objectOf(0) ?? {}, { total: '99' });
    const run = await reconcile();
    await pruneReconciliations(pusher.db.database, run.started);
    expect(await findingsOf(run)).toHaveLength(1);
    pusher.clock.advance(1_000);
    await pruneReconciliations(pusher.db.database, timestampNow(pusher.clock));
    expect(await findingsOf(run)).toEqual([]);
  });

  test('of one event leaves the others out', async () => {
    await deliver(0, 1);
    expect(await reconcile({ events: ['another'] })).toMatchObject({ documents: 0 });
  });

  test('says that a document is unclear which is written while it is compared', async () => {
    await deliver(0, 1);
    onReadBack = async (...given) => {
      const answers = await plain(...given);
      onReadBack = plain;
      await deliver(0);
      return answers;
    };
    const run = await reconcile();
    // Document 1 was withdrawn meanwhile, document 0 stayed as it was.
    expect(await findingsOf(run)).toEqual([{ key: keyOf(1), finding: 'unclear', ...nothing }]);
  });

  test('counts what the connector cannot tell as unclear', async () => {
    await deliver(0);
    onReadBack = async (given) =>
      given.map(({ document: { key } }) => ({ key, status: 'unclear', reason: 'the ERP answered 500' }));
    const run = await reconcile();
    expect(await countFindings(pusher.db.database, run.id)).toMatchObject({ unclear: 1, missing: 0 });
    expect(run.asDelivered).toBe(0);
  });

  test('shows where two long texts differ', async () => {
    await deliver(0);
    onReadBack = async (given) =>
      given.map(({ document: { key } }) => {
        const fields = [{ name: 'text', expected: `${'x'.repeat(9_000)}a`, held: `${'x'.repeat(9_000)}b` }];
        return { key, status: 'held', reference: 'PO-1', fields };
      });
    const [found] = await findingsOf(await reconcile());
    expect(found).toMatchObject({ expected: `…${'x'.repeat(40)}a`, held: `…${'x'.repeat(40)}b` });
  });
});

describe('the ERP', () => {
  test('that limits the rate is asked again when it says, and no earlier', async () => {
    await deliver(0, 1);
    let limits = 2;
    const askedMs: number[] = [];
    onReadBack = async (...given) => {
      askedMs.push(pusher.clock.nowMs());
      limits -= 1;
      if (limits >= 0) throw new RateLimited('slow down', { retryAfterMs: 7_000 });
      return plain(...given);
    };
    const run = await reconcile();
    expect(run.asDelivered).toBe(2);
    expect(askedMs.map((ms) => ms - (askedMs[0] ?? 0))).toEqual([0, 7_000, 14_000]);
  });
});

describe('a kill', () => {
  test('at any page leaves what was compared, and the next process goes on after it', async () => {
    await deliver(0, 1, 2, 3, 4, 5, 6);
    Object.assign(objectOf(0) ?? {}, { total: '99' });
    for (const dies of [1, 2, 3]) {
      let pages = 0;
      onReadBack = async (given, signal) => {
        pages += 1;
        if (pages === dies) {
          stop.abort(new Error('killed'));
          return new Promise(() => signal.aborted);
        }
        return plain(given, signal);
      };
      const stop = new AbortController();
      await expect(reconcile({ signal: stop.signal })).rejects.toThrow('killed');
      onReadBack = plain;
      const from = erp.calls.length;
      const run = await reconcile({ goesOn: true });
      expect(erp.calls.slice(from)).toEqual(['read back 3', 'read back 3', 'read back 1'].slice(dies - 1));
      expect(run).toMatchObject({ documents: 7, asDelivered: 6 });
      expect(await findingsOf(run)).toEqual([
        { key: keyOf(0), finding: 'changed', field: 'total', expected: '10.5', held: '99' },
      ]);
    }
  });

  test('of the database at any statement loses and doubles nothing', async () => {
    await deliver(0, 1, 2, 3, 4);
    Object.assign(objectOf(3) ?? {}, { total: '99' });
    for (let dies = 1; ; dies += 1) {
      let left = dies;
      const { database } = pusher.db;
      const failing = {
        ...database,
        query: ((text: string, params?: unknown[]) => {
          left -= 1;
          return left === 0 ? Promise.reject(new Error('gone')) : database.query(text, params);
        }) as Database['query'],
        transaction: ((work: never) => {
          left -= 1;
          return left === 0 ? Promise.reject(new Error('gone')) : database.transaction(work);
        }) as Database['transaction'],
      };
      const first = await reconcile({ database: failing }).catch(() => undefined);
      const run = first ?? (await reconcile({ goesOn: true }));
      expect(run).toMatchObject({ documents: 5, asDelivered: 4 });
      expect(await findingsOf(run)).toHaveLength(1);
      expect(await readReport(pusher.db.database, run.id)).toMatchObject({ number: run.id, documents: 5 });
      if (first) break;
    }
  });

  test('two processes that go on with one run do not compare a page twice in its counts', async () => {
    await deliver(0, 1, 2, 3, 4);
    const results = await Promise.allSettled([reconcile({ goesOn: true }), reconcile({ goesOn: true })]);
    const ended = results.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []));
    expect(ended.length).toBeGreaterThan(0);
    for (const { id } of ended) expect(await readReport(pusher.db.database, id)).toMatchObject({ documents: 5 });
  });

  test('and a comparison that is begun anew takes the place of the one that was interrupted', async () => {
    await deliver(0, 1, 2, 3, 4);
    const stop = new AbortController();
    onReadBack = async (...given) => {
      if (erp.calls.at(-1) !== 'read back 3') return plain(...given);
      stop.abort(new Error('killed'));
      throw stop.signal.reason;
    };
    await expect(reconcile({ signal: stop.signal })).rejects.toThrow('killed');
    onReadBack = plain;
    expect(await reconcile()).toMatchObject({ documents: 5, asDelivered: 5 });
    expect(await pusher.db.database.query('select ended is not null as ended from bridge.reconciliations')).toEqual([
      { ended: true },
    ]);
  });

  test('and one whose place was taken stores nothing more', async () => {
    await deliver(0, 1, 2, 3);
    onReadBack = async (...given) => {
      onReadBack = plain;
      await reconcile();
      return plain(...given);
    };
    await expect(reconcile()).rejects.toThrow('began it anew');
    const [run, ...others] = await pusher.db.database.query<{ id: number }>('select id from bridge.reconciliations');
    expect(others).toEqual([]);
    expect(await readReport(pusher.db.database, run?.id ?? 0)).toMatchObject({ documents: 4 });
  });
});

describe('the report', () => {
  test('says what was found and what the documents were worth, to the last digit', async () => {
    await deliver(0, 1, 2);
    Object.assign(objectOf(1) ?? {}, { total: '99' });
    const { id } = await reconcile();
    // The awards cost 10.50, 11.50 and 12.50.
    expect(await readReport(pusher.db.database, id)).toMatchObject({
      number: id,
      flow: 'erp',
      source: 'main',
      documents: 3,
      values: 3,
      totals: [
        { kind: 'award', currency: 'EUR', state: 'as delivered', documents: 2, amount: '23' },
        { kind: 'award', currency: 'EUR', state: 'changed', documents: 1, amount: '11.5' },
      ],
      differences: [
        { key: keyOf(1), finding: 'changed', field: 'total', expected: '11.5', held: '99', changedBy: 'ann' },
      ],
      differencesOmitted: 0,
    });
  });

  test('counts what could not be compared, and no amount of what was withdrawn', async () => {
    await deliver(0, 1);
    await deliver(0);
    const { id } = await reconcile({ readsBack: false });
    const { totals, notCompared } = await readReport(pusher.db.database, id);
    expect(totals).toEqual([
      { kind: 'award', currency: 'EUR', state: 'not compared', documents: 1, amount: '10.5' },
      { kind: 'award', currency: null, state: 'as delivered', documents: 1, amount: null },
    ]);
    expect(notCompared).toEqual([
      { kind: 'award', field: null, reason: expect.stringContaining('does not read it back'), documents: 1 },
    ]);
  });

  test('of a comparison that has not ended, or is not kept, is refused', async () => {
    await expect(readReport(pusher.db.database, 1)).rejects.toThrow('has not ended, or is not kept');
  });
});

test('whatever people do in the ERP, exactly that is found', async () => {
  await deliver(0, 1, 2, 3, 4, 5);
  const original = structuredClone(erp.objects);
  const deeds = fc.array(fc.constantFrom('none', 'changed', 'missing', 'cancelled'), { minLength: 6, maxLength: 6 });
  await fc.assert(
    fc.asyncProperty(deeds, async (done) => {
      erp.objects.splice(0, erp.objects.length, ...structuredClone(original));
      const expected: { key: string; finding: string }[] = [];
      for (const [n, deed] of done.entries()) {
        const object = objectOf(n);
        if (!object || deed === 'none') continue;
        expected.push({ key: keyOf(n), finding: deed });
        if (deed === 'changed') object.total = `${object.total}1`;
        if (deed === 'missing') erp.objects.splice(erp.objects.indexOf(object), 1);
        if (deed === 'cancelled') object.cancelled = true;
      }
      const found = await findingsOf(await reconcile());
      expect(found.map(({ key, finding }) => ({ key, finding }))).toEqual(expected);
    }),
    { numRuns: 8 },
  );
});
