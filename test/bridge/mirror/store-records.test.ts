import * as fc from 'fast-check';
import { beforeEach, describe, expect, test } from 'vitest';
import { registerFlows } from '#bridge/ledger/flows/register-flows.ts';
import { type RecordsToStore, storeRecords } from '#bridge/mirror/store-records.ts';
import { noteSubjects, subjectsOfEvent } from '#bridge/mirror/subjects.ts';
import type { FeedName } from '#contract/feed.ts';
import { createTestDatabase, type TestDatabase } from '../../harness/test-database.ts';
import { eventRecord, flowOf, idOf, lotAwardRecord } from '../parts.ts';

const now = '2030-01-01T00:00:00.000000Z';
const later = '2030-01-01T01:00:00.000000Z';
const at = (second: number) => `2029-06-01T00:00:${String(second).padStart(2, '0')}.000000Z`;
const award = (second: number | undefined, more: Record<string, unknown> = {}) => ({
  ...lotAwardRecord(idOf(1), idOf(90), [{ supplier: idOf(50) }], more),
  modified: second === undefined ? undefined : at(second),
});

let db: TestDatabase;
beforeEach(async () => {
  db = await createTestDatabase();
  return () => db.drop();
});

const store = (
  records: readonly Record<string, unknown>[],
  options: { shownSince?: string | undefined; at?: string; feed?: FeedName } = {},
) => {
  const { shownSince, at: storedAt = now, feed = 'awards' } = options;
  const page: RecordsToStore = { source: 'main', feed, now: storedAt, records, shownSince };
  return db.database.transaction((tx) => storeRecords(tx, page));
};
const held = () =>
  db.database.query<{ modified: string; body: string; missing: boolean; gone: boolean }>(
    `select modified, body, missing_since is not null as missing, gone is not null as gone
     from bridge.mirror order by record_id`,
  );
const lotNames = async () => (await held()).map(({ body }) => (JSON.parse(body) as { lot_name: string }).lot_name);
const history = async () =>
  (await db.database.query<{ body: string }>('select body from bridge.mirror_history order by modified, body')).map(
    ({ body }) => (JSON.parse(body) as { lot_name: string }).lot_name,
  );

describe('versions', () => {
  test('a newer version replaces the one before, which is kept in the history', async () => {
    await store([award(1, { lot_name: 'first' })]);
    expect(await store([award(2, { lot_name: 'second' })], { at: later })).toMatchObject({ changed: 1 });
    expect(await lotNames()).toEqual(['second']);
    expect(await history()).toEqual(['first']);
    const [kept] = await db.database.query('select seen, replaced from bridge.mirror_history');
    expect(kept).toEqual({ seen: now, replaced: later });
  });

  test('the same version again changes nothing', async () => {
    await store([award(1)]);
    expect(await store([award(1)], { at: later })).toMatchObject({ changed: 0, stamps: [at(1)] });
    expect(await history()).toEqual([]);
    expect(await db.database.query('select seen from bridge.mirror')).toEqual([{ seen: now }]);
  });

  test.each([
    ['is left out where nothing is known of that', undefined],
    ['is left out where the newer one may have come later than a replica that lags knows', now],
  ])('an older version than the mirror holds %s', async (_title, shownSince) => {
    await store([award(2, { lot_name: 'newer' })]);
    const shown = await store([award(1, { lot_name: 'older' })], { at: later, shownSince });
    expect(shown).toMatchObject({ changed: 0, stamps: [at(1)] });
    expect([await lotNames(), await history()]).toEqual([['newer'], []]);
  });

  test('an older version replaces a newer one that a replica must know: the source was set back', async () => {
    await registerFlows(db.database, [flowOf({ documents: ['award'] })], now);
    await store([award(2, { lot_name: 'newer' })]);
    await db.database.query('delete from bridge.flow_documents');
    const since = '2030-01-01T00:00:00.000001Z';
    expect(await store([award(1, { lot_name: 'older' })], { at: later, shownSince: since })).toMatchObject({
      changed: 1,
    });
    expect([await lotNames(), await history()]).toEqual([['older'], ['newer']]);
    expect(await db.database.query('select key from bridge.flow_documents where due is not null')).toEqual([
      { key: `${idOf(90)}/${idOf(50)}` },
    ]);
    // It counts from now on: a replica that still shows the newer one is believed at once, as that is newer.
    expect(await db.database.query('select modified, seen from bridge.mirror')).toEqual([
      { modified: at(1), seen: later },
    ]);
  });

  test('a version without a time counts as of 1970: every version with a time replaces it', async () => {
    expect(await store([award(undefined, { lot_name: 'timeless' })])).toMatchObject({
      stamps: ['1970-01-01T00:00:00.000000Z'],
      changed: 1,
    });
    await store([award(undefined, { lot_name: 'timeless still' })]);
    expect(await lotNames()).toEqual(['timeless still']);
    await store([award(1, { lot_name: 'with a time' })]);
    // It lies in no order, so it says nothing of a source that was set back.
    const again = await store([award(undefined, { lot_name: 'timeless again' })], { at: later, shownSince: later });
    expect(again.changed).toBe(0);
    expect(await lotNames()).toEqual(['with a time']);
  });

  test('with a record that cannot be stored, nothing of its page is stored', async () => {
    await expect(store([award(1), { modified: at(2) }])).rejects.toMatchObject({ code: 'invalid' });
    expect(await held()).toEqual([]);
  });

  test('records that are not as documented are stored, and reported once', async () => {
    const odd = { ...award(1), awards: [{ supplier: idOf(50), cost: 5 }] };
    expect((await store([odd])).unreadable).toEqual([expect.stringContaining(`${idOf(1)}: awards[0].`)]);
    expect((await store([odd])).unreadable).toEqual([]);
    expect(await held()).toHaveLength(1);
  });

  test('the mirror ends with the last version shown of the newest stamp, after pages of any size', async () => {
    const shown = fc.array(
      fc.record({
        n: fc.integer({ min: 1, max: 4 }),
        second: fc.integer({ min: 0, max: 5 }),
        name: fc.constantFrom('a', 'b'),
      }),
      { maxLength: 12 },
    );
    await fc.assert(
      fc.asyncProperty(shown, fc.integer({ min: 1, max: 4 }), async (versions, pageSize) => {
        await db.database.query('truncate bridge.mirror, bridge.mirror_history');
        const expected = new Map<number, (typeof versions)[number]>();
        for (const version of versions) {
          const known = expected.get(version.n);
          if (!known || version.second >= known.second) expected.set(version.n, version);
        }
        const records = versions.map(({ n, second, name }) => ({ ...award(second, { lot_name: name }), id: idOf(n) }));
        for (let first = 0; first < records.length; first += pageSize)
          await store(records.slice(first, first + pageSize));
        const rows = await held();
        const inOrder = [...expected].sort(([a], [b]) => a - b).map(([, version]) => version);
        expect(rows.map(({ modified }) => modified)).toEqual(inOrder.map(({ second }) => at(second)));
        expect(await lotNames()).toEqual(inOrder.map(({ name }) => name));
      }),
      { numRuns: 60 },
    );
  });
});

describe('records that were missing', () => {
  const setMissing = (what: string) => db.database.query(`update bridge.mirror set ${what}`);
  const marks = async () =>
    (await db.database.query<{ wanted: number }>('select wanted from bridge.flow_documents')).map(
      ({ wanted }) => wanted,
    );

  beforeEach(async () => {
    await registerFlows(db.database, [flowOf({ documents: ['award'] })], now);
    await store([award(5)]);
  });

  test('are restored when their version is shown; only a record that was gone marks its documents', async () => {
    expect(await marks()).toEqual([1]);
    await setMissing(`missing_since = '${now}'`);
    expect(await store([award(5)])).toMatchObject({ changed: 0 });
    expect(await held()).toMatchObject([{ missing: false, gone: false }]);
    expect(await marks()).toEqual([1]);
    await setMissing(`missing_since = '${now}', gone = '${now}'`);
    expect(await store([award(5)])).toMatchObject({ changed: 1 });
    expect(await held()).toMatchObject([{ missing: false, gone: false }]);
    expect(await marks()).toEqual([2]);
    expect(await history()).toEqual([]);
  });

  test('are restored by a newer version, too', async () => {
    await setMissing(`missing_since = '${now}', gone = '${now}'`);
    await store([award(6)]);
    expect(await held()).toMatchObject([{ missing: false, gone: false }]);
  });

  test('stay missing where only an older version is shown', async () => {
    await setMissing(`missing_since = '${now}', gone = '${now}'`);
    expect(await store([award(4)])).toMatchObject({ changed: 0 });
    expect(await held()).toMatchObject([{ missing: true, gone: true }]);
  });
});

describe('names', () => {
  const supplier = 'abcdefab-0000-4000-8000-000000000050';
  const event = (number: number, ...names: string[]) => ({
    ...eventRecord(idOf(100 + number), []),
    name: `Event ${number}`,
    modified: at(number),
    suppliers: names.map((name) => ({ id: supplier, name, external_id: 'S-50' })),
  });
  const names = async () =>
    (await db.database.query<{ name: string }>('select name from bridge.subjects order by kind, id')).map(
      ({ name }) => name,
    );
  const storeEvents = (...records: Record<string, unknown>[]) => store(records, { feed: 'sourcing-events' });

  test('of events and their suppliers are written; of a supplier the one that was shown last', async () => {
    await storeEvents(event(1, 'Meyer'));
    await storeEvents(event(2, 'Meyer'), event(3, 'Meyer & Sons'), event(4, 'Meyer'));
    expect(await names()).toEqual(['Event 1', 'Event 2', 'Event 3', 'Event 4', 'Meyer']);
    await storeEvents({ ...event(1, 'Meier'), name: 'Event 1, again', modified: at(5) });
    expect(await names()).toEqual(['Event 1, again', 'Event 2', 'Event 3', 'Event 4', 'Meier']);
  });

  test('of an event that was known by name only, as a page has included it, are written again', async () => {
    await db.database.transaction((tx) => noteSubjects(tx, 'main', subjectsOfEvent({ ...event(1), name: 'earlier' })));
    await storeEvents(event(1));
    expect(await names()).toEqual(['Event 1']);
  });

  test('of a supplier whose id is written in other letters are those of the same supplier', async () => {
    const other = (number: number, name: string) => {
      const shown = event(number, name);
      return { ...shown, suppliers: shown.suppliers.map((entry) => ({ ...entry, id: entry.id.toUpperCase() })) };
    };
    for (const shown of [event(1, 'Meyer'), other(2, 'Meier'), event(3, 'Meyer'), other(4, 'Meier')])
      await storeEvents(shown);
    expect(await names()).toEqual(['Event 1', 'Event 2', 'Event 3', 'Event 4', 'Meier']);
  });
});

describe('documents', () => {
  const due = async () =>
    (
      await db.database.query<{ key: string }>(
        'select key from bridge.flow_documents where due is not null order by key',
      )
    ).map(({ key }) => key);

  beforeEach(async () => {
    await registerFlows(db.database, [flowOf({ documents: ['award'] })], now);
  });

  test('of both versions are marked: those of the supplier that won, and of the one that lost', async () => {
    await store([{ ...award(1), awards: [{ supplier: idOf(50) }] }]);
    await db.database.query('delete from bridge.flow_documents');
    await store([{ ...award(2), awards: [{ supplier: idOf(51) }] }]);
    expect(await due()).toEqual([`${idOf(90)}/${idOf(50)}`, `${idOf(90)}/${idOf(51)}`]);
  });

  test('are marked in the same transaction: when it fails, neither is stored', async () => {
    const page: RecordsToStore = { source: 'main', feed: 'awards', now, records: [award(1)] };
    const failing = db.database.transaction(async (tx) => {
      await storeRecords(tx, page);
      throw new Error('died here');
    });
    await expect(failing).rejects.toThrow('died here');
    expect([await held(), await due()]).toEqual([[], []]);
  });

  test('of an event are marked when the event changes', async () => {
    await store([award(1)]);
    await db.database.query('update bridge.flow_documents set due = null');
    await store([eventRecord(idOf(90), [idOf(50)])], { feed: 'sourcing-events' });
    expect(await due()).toEqual([`${idOf(90)}/${idOf(50)}`]);
  });

  test('are not marked by a known version', async () => {
    await store([award(1)]);
    await db.database.query('update bridge.flow_documents set due = null');
    await store([award(1)]);
    expect(await due()).toEqual([]);
  });
});
