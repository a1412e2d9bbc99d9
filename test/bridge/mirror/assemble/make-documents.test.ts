import { beforeEach, describe, expect, test } from 'vitest';
import type { ResourceKind } from '#bridge/documents/document-keys.ts';
import { registerFlows } from '#bridge/ledger/flows/register-flows.ts';
import { makeDocuments } from '#bridge/mirror/assemble/make-documents.ts';
import { storeRecords } from '#bridge/mirror/store-records.ts';
import { storeResources } from '#bridge/mirror/store-resources.ts';
import { tryMapping } from '#bridge/operate/plan/try-mapping.ts';
import type { FlowSettings } from '#bridge/settings/settings.ts';
import { type DocumentKind, documentKinds } from '#connector/documents.ts';
import type { FeedName } from '#contract/feed.ts';
import type { Sql } from '#platform/database/sql.ts';
import { createTestDatabase, type TestDatabase } from '../../../harness/test-database.ts';
import { answerRecord, bidRecord, questionObject } from '../../documents/records.ts';
import { eventRecord, flowOf, idOf, lotAwardRecord } from '../../parts.ts';

const now = '2030-01-01T00:00:00.000000Z';
const event = (n: number) => idOf(n);
const supplier = (n: number) => idOf(100 + n);
const keyOf = (kind: DocumentKind, e: number, s: number) => ({ kind, key: `${event(e)}/${supplier(s)}` });

let db: TestDatabase;
let flow: FlowSettings;

beforeEach(async () => {
  db = await createTestDatabase();
  flow = flowOf({ documents: [...documentKinds], test_events: true });
  await registerFlows(db.database, [flow], now);
  // The feed of awards has been read: documents of whole events can be made.
  await db.database.query(
    `insert into bridge.checkpoints (source, feed, next_pull, watermark, last_pull) values ('main', 'awards', $1, $1, $1)`,
    [now],
  );
  return () => db.drop();
});

const store = (feed: FeedName, ...records: Record<string, unknown>[]) =>
  db.database.transaction((tx) => storeRecords(tx, { source: 'main', feed, records, now }));
const include = (kind: ResourceKind, ...objects: Record<string, unknown>[]) =>
  db.database.transaction((tx) => storeResources(tx, { source: 'main', kind, objects, observed: now, now }));

/** Stores two events with three suppliers in each, and one record of every feed for each pair. */
async function fill(): Promise<void> {
  await store(
    'sourcing-events',
    ...[1, 2].map((e) =>
      eventRecord(event(e), [0, 1, 2].map(supplier), { tags: [{ name: 'Plant', value: `${e}000` }] }),
    ),
  );
  for (const e of [1, 2])
    for (const s of [0, 1, 2]) {
      const n = 1000 * e + 10 * s;
      await store('latest-bids', bidRecord(idOf(n), event(e), supplier(s), '10'));
      await store('awards', lotAwardRecord(idOf(n + 1), event(e), [{ supplier: supplier(s), cost: '5' }]));
      await store(
        'rfi-responses',
        answerRecord(n + 2, event(e), supplier(s), idOf(31), { document_file_uuids: [idOf(n + 3)] }),
      );
    }
  await include('question', questionObject(idOf(31), event(1), '1.1'));
  await include('supplier-master', {
    external_id: 'V-1',
    name: 'From the list',
    archived: false,
    fields: {},
    contacts: [],
  });
}

async function markedKeys(): Promise<{ kind: DocumentKind; key: string }[]> {
  return db.database.query('select kind, key from bridge.flow_documents order by kind, key');
}

describe('documents are made of the mirror', () => {
  test('with the same number of statements for any number of keys of all kinds', async () => {
    await fill();
    const keys = await markedKeys();
    // 3 suppliers and the one of the list; 2 events; 2 x 3 of each kind about a pair; a file of each answer.
    expect(Object.groupBy(keys, ({ kind }) => kind)).toMatchObject({
      supplier: { length: 4 },
      'sourcing-event': { length: 2 },
      quotation: { length: 6 },
      award: { length: 6 },
      'rfi-answers': { length: 6 },
      file: { length: 6 },
    });
    const count = async (some: typeof keys) => {
      let statements = 0;
      const sql: Sql = {
        query: (...given) => {
          statements += 1;
          return db.database.query(...given);
        },
      };
      const made = await makeDocuments(sql, flow, some);
      expect([...made.values()].filter((one) => one.made === 'document' && one.wanted)).toHaveLength(some.length);
      return statements;
    };
    const one = documentKinds.flatMap((kind) => keys.filter((key) => key.kind === kind).slice(0, 1));
    expect(await count(keys)).toBe(await count(one));
  });

  test('as many as the memory bound allows, and at least the first', async () => {
    await fill();
    const keys = [0, 1, 2].map((s) => keyOf('quotation', 1, s));
    const bodies = await db.database.query<{ bytes: number }>(
      `select octet_length(body)::int as bytes from bridge.mirror where feed = 'latest-bids' limit 1`,
    );
    const bytes = bodies[0]?.bytes ?? 0;
    const made = async (bytesMax: number) => [...(await makeDocuments(db.database, flow, keys, { bytesMax })).keys()];
    const names = keys.map(({ kind, key }) => `${kind} ${key}`);
    expect(await made(1)).toEqual(names.slice(0, 1));
    expect(await made(bytes * 2)).toEqual(names.slice(0, 2));
    expect(await made(bytes * 3)).toEqual(names);
  });

  test('also of rows that were stored before they had the supplier column', async () => {
    await fill();
    await db.database.query(`update bridge.mirror set supplier = ''`);
    const made = await makeDocuments(db.database, flow, [keyOf('quotation', 1, 1), keyOf('rfi-answers', 2, 2)]);
    expect([...made.values()]).toMatchObject([
      { wanted: true, document: { lines: { length: 1 } } },
      { wanted: true, document: { lines: { length: 1 } } },
    ]);
  });

  test('without records that are gone; the documents of an event that is gone are withdrawn', async () => {
    await fill();
    const keys = [keyOf('award', 1, 0), keyOf('award', 1, 1), keyOf('award', 2, 0)];
    await db.database.query('update bridge.mirror set gone = $1 where record_id = any($2)', [
      now,
      [idOf(1001), event(2)],
    ]);
    const made = await makeDocuments(db.database, flow, keys);
    expect([...made.values()]).toMatchObject([{ wanted: false }, { wanted: true }, { wanted: false }]);
  });

  test('also when more records reference a file than are read at once', async () => {
    const shared = idOf(41);
    const deleted = Array.from({ length: 250 }, (_, n) => n + 2);
    await store('sourcing-events', ...deleted.map((n) => eventRecord(event(n), [supplier(0)], { status: 'DELETED' })));
    await store(
      'rfi-responses',
      ...deleted.map((n) => answerRecord(n, event(n), supplier(0), idOf(31), { document_file_uuids: [shared] })),
    );
    const makeShared = async () =>
      (await makeDocuments(db.database, flow, [{ kind: 'file', key: shared }])).get(`file ${shared}`);
    expect(await makeShared()).toMatchObject({
      made: 'document',
      wanted: false,
      document: { event: { id: event(2) } },
    });
    await store('sourcing-events', eventRecord(event(900), [supplier(0)]));
    await store(
      'rfi-responses',
      answerRecord(900, event(900), supplier(0), idOf(31), { document_file_uuids: [shared] }),
    );
    expect(await makeShared()).toMatchObject({
      made: 'document',
      wanted: true,
      document: { event: { id: event(900) } },
    });
  });

  test('when the entry of one winner of a lot cannot be read, the other winners are not affected', async () => {
    await fill();
    const lot = lotAwardRecord(idOf(1001), event(1), [
      { supplier: supplier(0) },
      { supplier: supplier(1), cost: 'much' },
    ]);
    await store('awards', { ...lot, awards: [...(lot['awards'] as unknown[]), null, { supplier: 7 }] });
    const made = await makeDocuments(db.database, flow, [keyOf('award', 1, 0), keyOf('award', 1, 1)]);
    expect([...made.values()]).toMatchObject([
      { made: 'document', wanted: true },
      { made: 'rejected', reason: "an award's record: awards.0.cost must be a decimal number as text" },
    ]);
  });

  test('a lot that does not say who won withdraws nothing', async () => {
    await fill();
    const made = async () => [
      ...(await makeDocuments(db.database, flow, [keyOf('award', 1, 0), keyOf('award', 2, 0)])).values(),
    ];
    for (const awards of ['pending', { supplier: supplier(0) }]) {
      await store('awards', { ...lotAwardRecord(idOf(1001), event(1), []), awards });
      expect(await made()).toMatchObject([
        { made: 'rejected', reason: expect.stringMatching(/^an award's record: awards /) },
        { made: 'document', wanted: true },
      ]);
    }
    // An empty list may be left out: then no supplier holds the lot any more.
    await store('awards', { ...lotAwardRecord(idOf(1001), event(1), []), awards: undefined });
    expect(await made()).toMatchObject([{ wanted: false }, { wanted: true }]);
  });

  test('with thousands of lots in an event', async () => {
    await store('sourcing-events', eventRecord(event(1), [0, 1, 2].map(supplier)));
    const lots = Array.from({ length: 4_000 }, (_, n) =>
      lotAwardRecord(
        idOf(100_000 + n),
        event(1),
        [{ supplier: supplier(n % 2), cost: '0.01', values: [['Price', '1']] }],
        {
          lot_name: `Lot ${n}`,
        },
      ),
    );
    for (let at = 0; at < lots.length; at += 1_000) await store('awards', ...lots.slice(at, at + 1_000));
    const made = await makeDocuments(db.database, flow, [keyOf('award', 1, 0), keyOf('award', 1, 1)]);
    // 2,000 cents each.
    expect([...made.values()]).toMatchObject([
      { document: { total_cost: '20', lines: { length: 2_000 } } },
      { document: { total_cost: '20', lines: { length: 2_000 } } },
    ]);
  });
});

describe('marking', () => {
  const waiting = async (kind: DocumentKind) =>
    (
      await db.database.query<{ wanted: number; waiting_since: string; due: string; forced: boolean }>(
        'select wanted, waiting_since, due, forced from bridge.flow_documents where kind = $1',
        [kind],
      )
    )[0];

  test('keeps since when a document waits, its due time, and a replay that was asked for', async () => {
    await store('awards', lotAwardRecord(idOf(21), event(1), [{ supplier: supplier(0) }]));
    await db.database.query('update bridge.flow_documents set forced = true');
    const later = '2030-01-01T00:05:00.000000Z';
    await db.database.transaction((tx) =>
      storeRecords(tx, {
        source: 'main',
        feed: 'awards',
        records: [lotAwardRecord(idOf(21), event(1), [{ supplier: supplier(0), cost: '7' }])],
        now: later,
      }),
    );
    expect(await waiting('award')).toEqual({ wanted: 2, waiting_since: now, due: now, forced: true });
  });

  test('marks the answers of both events when a question moves from one to the other', async () => {
    await fill();
    await db.database.query('update bridge.flow_documents set due = null');
    await include('question', questionObject(idOf(31), event(2), '1.1'));
    const marked = await db.database.query<{ sourcing_event: string }>(
      `select distinct sourcing_event from bridge.flow_documents
       where kind = 'rfi-answers' and due is not null order by 1`,
    );
    expect(marked.map((row) => row.sourcing_event)).toEqual([event(1), event(2)]);
  });

  test('marks all documents of an event when one of its lots stops or begins to say who won', async () => {
    await fill();
    const lotOf = (awards: unknown) => ({ ...lotAwardRecord(idOf(1001), event(1), []), awards });
    const marked = async () => {
      const rows = await db.database.query<{ key: string }>(
        `select key from bridge.flow_documents where kind = 'award' and due is not null order by 1`,
      );
      await db.database.query('update bridge.flow_documents set due = null');
      return rows.map(({ key }) => key);
    };
    await marked();
    const all = [0, 1, 2].map((s) => keyOf('award', 1, s).key);
    await store('awards', lotOf('pending'));
    expect(await marked()).toEqual(all);
    await store('awards', lotOf([{ supplier: supplier(2), cost: '1', share_awarded: '1', bid_sheet_values: [] }]));
    expect(await marked()).toEqual(all);
    await store('awards', lotOf([]));
    expect(await marked()).toEqual([keyOf('award', 1, 2).key]);
  });

  test('marks the kinds that each flow takes, and indexes nothing for kinds that no flow takes', async () => {
    await registerFlows(db.database, [flowOf({ name: 'erp', documents: ['award'] })], now);
    await fill();
    const kinds = await db.database.query('select distinct kind from bridge.flow_documents where due is not null');
    expect(kinds).toEqual([{ kind: 'award' }]);
    expect(await db.database.query('select from bridge.record_references')).toEqual([]);
  });
});

describe('a mapping that is tried', () => {
  const tried = { ...flowOf({ name: 'new', documents: ['award', 'file', 'supplier'], test_events: true }) };

  test('shows what the settings make and what they cannot make, also for a new flow, and writes nothing', async () => {
    await registerFlows(db.database, [], now);
    await fill();
    const before = await markedKeys();
    const mapping = {
      award: {
        fields: { Plant: { from: 'event.tags[Plant]', map: { '1000': 'P1' }, type: 'text', required: false } },
        lines: {},
      },
    } as const;
    const made = await tryMapping(db.database, { ...tried, mapping }, { limit: 100 });
    expect(
      Object.entries(Object.groupBy(made, ({ kind, result }) => `${kind} ${result}`))
        .map(([name, list]) => `${name} ${list?.length}`)
        .sort(),
    ).toEqual(['award document 3', 'award rejected 3', 'file document 6', 'supplier document 4']);
    expect(made.find(({ result }) => result === 'document')?.document).toMatchObject({ fields: { Plant: 'P1' } });
    expect(made.find(({ result }) => result === 'rejected')?.reason).toBe(
      'flow "new", award: the field "Plant" is "2000", which its map does not have; add it, or "*" for any other value',
    );
    expect(await markedKeys()).toEqual(before);
    expect(await db.database.query('select from bridge.record_references')).toEqual([]);
    expect(await db.database.query('select from bridge.flows where name = $1', ['new'])).toEqual([]);
  });

  test('is restricted to the given events and to the limit of documents of each kind', async () => {
    await fill();
    await include('supplier', { id: supplier(0), name: 'As a page had it', contacts: [] });
    const made = await tryMapping(db.database, tried, { events: [event(2).toUpperCase()], limit: 2 });
    expect(made.map(({ kind }) => kind)).toEqual(['award', 'award', 'file', 'file', 'supplier', 'supplier']);
    // The page says more of the supplier than the event that names it.
    expect(made.find(({ key }) => key === supplier(0))?.document).toMatchObject({ name: 'As a page had it' });
    const shown = made.flatMap(({ document }) => (document && 'event' in document ? [document.event.id] : []));
    expect(shown).toEqual(Array.from({ length: 4 }, () => event(2)));
  });
});
