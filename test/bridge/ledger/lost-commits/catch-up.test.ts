/**
 * The ledger is lost, in whole or since a backup, and the ERP is asked for it: no document is written before it was looked
 * up, only what really differs is written, and nothing twice, wherever the process dies.
 */
import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { registerFlows } from '#bridge/ledger/flows/register-flows.ts';
import { catchUp } from '#bridge/ledger/lost-commits/catch-up.ts';
import { noteLostCommits } from '#bridge/ledger/lost-commits/note-lost-commits.ts';
import { readOpenLoss } from '#bridge/ledger/lost-commits/open-loss.ts';
import { timestampNow } from '#platform/clock.ts';
import type { Database } from '#platform/database/database.ts';
import { eventRecord, idOf, settingsOf, startProcess, type TestProcess } from '../../parts.ts';
import { createFakeErp, type FakeErp } from '../../push/fake-erp.ts';
import { createPusher, keyOf, type Pusher } from '../../push/pusher.ts';

const push = async (pusher: Pusher, erp: FakeErp) => (await pusher.worker(erp)).push();

/** Loses what the bridge knew of deliveries, as the database of before the first delivery does. */
async function loseLedger(pusher: Pusher): Promise<void> {
  const { database } = pusher.db;
  await database.query('delete from bridge.flows');
  await database.query('delete from bridge.attempts');
  await database.query('delete from bridge.document_versions');
}

/** Notes the restore, and registers the flow as a program does that starts then. */
async function beginRebuild(pusher: Pusher): Promise<void> {
  const { database } = pusher.db;
  await noteLostCommits(database, { lost: timestampNow(pusher.clock), why: 'restored', since: null });
  await registerFlows(database, [pusher.flow], timestampNow(pusher.clock));
}

/** A source without feeds counts as read. */
const withoutFeeds = { sources: settingsOf().sources.map((source) => ({ ...source, feeds: [] })) };
const follow = (pusher: Pusher) =>
  catchUp(pusher.db.database, withoutFeeds, [{ flow: pusher.flow, callLimitMs: 10_000 }], timestampNow(pusher.clock));

type Winners = [supplier: number, cost: string][];

/** What the ERP should hold after these winners. */
const wanted = (winners: Winners) => new Map(winners.map(([n, cost]) => [keyOf(n), cost]));
const held = (erp: FakeErp) => new Map(erp.living().map(({ key, total }) => [key, total]));
const sorted = (map: Map<string, string>) => [...map].toSorted(([a], [b]) => (a < b ? -1 : 1));

const winners = fc
  .uniqueArray(fc.tuple(fc.nat({ max: 5 }), fc.integer({ min: 1, max: 3 }).map(String)), {
    maxLength: 6,
    selector: ([n]) => n,
  })
  .map((list) => list as Winners);

test('whatever was delivered, changed and lost, and wherever it dies, the ERP is as the source has it, and nothing is made twice', async () => {
  await fc.assert(
    fc.asyncProperty(
      winners,
      winners,
      winners,
      fc.boolean(),
      fc.array(fc.nat({ max: 12 }), { maxLength: 3 }),
      async (before, later, after, isAllLost, deaths) => {
        const pusher = await createPusher(6, { withdrawals: { most: 100, share: 1 } });
        const erp = createFakeErp({ batchMax: 2 });
        await pusher.award(...before);
        await push(pusher, erp);
        // Without the ledger, or with one that is older than the ERP.
        const ledger = await pusher.db.database.query('select * from bridge.flow_documents');
        await pusher.award(...later);
        await push(pusher, erp);
        await loseLedger(pusher);
        await pusher.award(...after);
        await beginRebuild(pusher);
        if (!isAllLost)
          await pusher.db.database.query(
            `insert into bridge.flow_documents (flow, kind, key, sourcing_event, supplier, delivered, delivered_hash, reference)
             select flow, kind, key, sourcing_event, supplier, delivered, delivered_hash, reference
             from json_populate_recordset(null::bridge.flow_documents, $1::json)
             on conflict (flow, kind, key) do update set delivered = excluded.delivered,
               delivered_hash = excluded.delivered_hash, reference = excluded.reference`,
            [JSON.stringify(ledger)],
          );
        const writes = erp.operations.length;
        await push(pusher, erp);
        expect(erp.operations).toHaveLength(writes);
        expect(await follow(pusher)).toMatchObject({ looking: ['erp'] });
        const beforePush = held(erp);
        for (const statements of deaths) {
          const process = await startProcess(pusher.db);
          const worker = await pusher.worker(erp, { process, database: dyingAfter(process, statements) });
          await worker.push().catch(() => undefined);
        }
        for (let turn = 0; turn < 3; turn += 1) {
          await push(pusher, erp);
          pusher.clock.advance(600_000);
        }
        erp.throwFaults();
        expect(sorted(held(erp))).toEqual(sorted(wanted(after)));
        const differing = new Set([...beforePush.keys(), ...wanted(after).keys()]);
        for (const key of differing) if (beforePush.get(key) === wanted(after).get(key)) differing.delete(key);
        expect(
          erp.operations
            .slice(writes)
            .map(({ document }) => document.key)
            .toSorted(),
        ).toEqual([...differing].toSorted());
        expect(await follow(pusher)).toEqual({ looking: [], ended: ['erp'] });
        expect(await readOpenLoss(pusher.db.database)).toBeUndefined();
        // The ledger is whole again: nothing is due, and each object is known by its reference.
        const rows = await pusher.db.database.query<{ key: string; reference: string }>(
          'select key, reference from bridge.flow_documents where delivered_hash is not null order by key',
        );
        expect(rows).toEqual(
          erp
            .living()
            .map(({ key, reference }) => ({ key, reference }))
            .toSorted((a, b) => (a.key < b.key ? -1 : 1)),
        );
      },
    ),
    { numRuns: 4 },
  );
}, 300_000);

/** A database whose process dies before this statement of its transactions. */
function dyingAfter(process: TestProcess, statements: number): Database {
  let left = statements;
  const query: Database['query'] = async (text, params) => {
    if (left === 0) await process.die();
    left -= 1;
    return process.database.query(text, params);
  };
  return Object.assign(Object.create(process.database) as Database, { query });
}

test('it is seen how far it is; an ERP that does not answer is asked again, and one unclear document holds nothing up', async () => {
  const pusher = await createPusher(4);
  const erp = createFakeErp({ batchMax: 2 });
  await pusher.award([0, '10'], [1, '20'], [2, '30']);
  await push(pusher, erp);
  await loseLedger(pusher);
  await beginRebuild(pusher);
  await follow(pusher);
  const state = async () => (await readOpenLoss(pusher.db.database))?.flows;
  // Four suppliers were invited: each could hold an award that nobody knows of any more.
  expect(await state()).toEqual([{ flow: 'erp', isSourceRead: true, documents: 4, toLookUp: 4 }]);
  erp.onLookup = async () => {
    throw new Error('the ERP is away');
  };
  const writes = erp.operations.length;
  await push(pusher, erp);
  expect(await follow(pusher)).toEqual({ looking: [], ended: [] });
  expect(await state()).toEqual([{ flow: 'erp', isSourceRead: true, documents: 4, toLookUp: 4 }]);
  erp.onLookup = async (_documents, find) =>
    find().map((found) => (found.key === keyOf(1) ? { key: keyOf(1), unclear: 'two objects' } : found));
  pusher.clock.advance(600_000);
  await push(pusher, erp);
  expect(await follow(pusher)).toEqual({ looking: [], ended: [] });
  expect(await state()).toMatchObject([{ toLookUp: 1 }]);
  expect(erp.operations).toHaveLength(writes);
  erp.onLookup = async (_documents, find) => find();
  pusher.clock.advance(600_000);
  await push(pusher, erp);
  expect(erp.operations).toHaveLength(writes);
  expect(await follow(pusher)).toEqual({ looking: [], ended: ['erp'] });
  expect(await readOpenLoss(pusher.db.database)).toBeUndefined();
  // What was only asked about on suspicion is settled.
  expect(await pusher.row(3)).toMatchObject({ due: null, delivered_hash: null, intent_id: null });
});

test('many withdrawals after a lost database are not sent before a person agrees', async () => {
  const pusher = await createPusher(6, { withdrawals: { most: 2, share: 0.2 } });
  const erp = createFakeErp();
  await pusher.award([0, '1'], [1, '1'], [2, '1'], [3, '1']);
  await push(pusher, erp);
  await loseLedger(pusher);
  await pusher.award();
  await beginRebuild(pusher);
  await follow(pusher);
  await push(pusher, erp);
  expect(erp.living()).toHaveLength(4);
  expect(await pusher.flowRow()).toMatchObject({ paused_kind: 'withdrawals' });
});

test('a change that comes while the ERP is asked is asked about again before it is written', async () => {
  const pusher = await createPusher(2);
  const erp = createFakeErp();
  await pusher.award([0, '1']);
  await push(pusher, erp);
  await loseLedger(pusher);
  await beginRebuild(pusher);
  await follow(pusher);
  erp.onLookup = async (_documents, find) => {
    erp.onLookup = async (_later, found) => found();
    await pusher.award([0, '2']);
    await pusher.store('sourcing-events', eventRecord(idOf(2), []));
    return find();
  };
  await push(pusher, erp);
  pusher.clock.advance(600_000);
  await push(pusher, erp);
  erp.throwFaults();
  expect(sorted(held(erp))).toEqual([[keyOf(0), '2']]);
  expect(erp.objects).toHaveLength(1);
});
