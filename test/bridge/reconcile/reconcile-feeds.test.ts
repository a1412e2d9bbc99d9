/** The feeds of a source against the mirror: each planted difference is found in its window, and nothing else. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import * as fc from 'fast-check';
import { beforeEach, describe, expect, test } from 'vitest';
import { readReport } from '#bridge/reconcile/report-form.ts';
import { readStoredReport } from '#bridge/reconcile/report-store.ts';
import { runHere } from '../../cli/command-line.ts';
import { scratchFolder } from '../../harness/scratch-folder.ts';
import { createTestDatabase, type TestDatabase } from '../../harness/test-database.ts';
import { type FeedSource, startFeedSource } from '../feed-source.ts';
import { eventRecord, idOf, lotAwardRecord, type TestRecord } from '../parts.ts';

const count = 12;
const pageSize = 5;
const award = (n: number, cost = `${n}.5`) =>
  lotAwardRecord(idOf(500 + n), idOf(1), [{ supplier: idOf(101), cost }], {
    modified: `2026-01-01T00:00:${String(n).padStart(2, '0')}.000000Z`,
  });

let db: TestDatabase;
let source: FeedSource;
let folder: string;
let config: string;

beforeEach(async () => {
  db = await createTestDatabase();
  source = await startFeedSource();
  folder = await scratchFolder();
  config = join(folder, 'bridge.yaml');
  const feeds = ['sourcing-events', 'awards'];
  const main = {
    name: 'main',
    base_url: source.url,
    api_key: 'k',
    feeds,
    includes: false,
    page_size: pageSize,
    quotas: { enabled: false },
  };
  const flow = { name: 'erp', source: 'main', connector: 'file', settings: { directory: join(folder, 'erp') } };
  const bridge = { port: 0, console_port: 0, sources: [{ ...main, audit_hours: 0 }], flows: [flow] };
  await writeFile(config, JSON.stringify({ bridge }));
  source.append('sourcing-events', eventRecord(idOf(1), [idOf(101)], { modified: '2026-01-01T00:00:00.000000Z' }));
  source.append('awards', ...Array.from({ length: count }, (_, n) => award(n + 1)));
  const { code, stderr } = await bridgeCommand('run');
  if (code !== 0) throw new Error(stderr);
});

const bridgeCommand = (...args: readonly string[]) =>
  runHere(['bridge', ...args, '--config', config, '--data', folder], { DATABASE_URL: db.url });

async function reconcile(...args: readonly string[]) {
  const { code, stderr } = await bridgeCommand('reconcile', 'erp', '--anew', ...args);
  expect(stderr).not.toContain('Error');
  const stored = await readStoredReport(db.database, {});
  const { report } = readReport(Buffer.from(stored?.body ?? '', 'utf8'));
  return { code, report, awards: report.feeds.find(({ feed }) => feed === 'awards') };
}
const found = ({ feedDifferences }: Awaited<ReturnType<typeof reconcile>>['report']) =>
  feedDifferences.map(({ feed, record, finding }) => ({ feed, record, finding }));
const change = (n: number, record: TestRecord | undefined) => {
  const all = source.records.get('awards') ?? [];
  source.records.set(
    'awards',
    all.flatMap((each) => (each.id === idOf(500 + n) ? (record ?? []) : [each])),
  );
};

describe('the feeds', () => {
  test('that the mirror has as they are show the same counts and hashes, window by window', async () => {
    const { code, report, awards } = await reconcile();
    expect({ code, found: found(report), feeds: report.feeds.map(({ feed }) => feed) }).toEqual({
      code: 0,
      found: [],
      feeds: ['awards', 'sourcing-events'],
    });
    expect(awards?.windows.length).toBeGreaterThan(1);
    expect(awards?.windows.reduce((sum, window) => sum + window.source.records, 0)).toBe(count);
    for (const window of awards?.windows ?? []) expect(window.mirror).toEqual(window.source);
    // Each begins where the one before it has ended.
    expect(awards?.windows.slice(1).map(({ from }) => from)).toEqual(awards?.windows.slice(0, -1).map(({ to }) => to));
  });

  test('show what is missing in the mirror, what has other content there, and what is gone at the source', async () => {
    await db.database.query(`delete from bridge.mirror where feed = 'awards' and record_id = $1`, [idOf(503)]);
    change(6, award(6, '99.5'));
    change(9, undefined);
    const { code, report, awards } = await reconcile();
    expect(found(report)).toEqual([
      { feed: 'awards', record: idOf(503), finding: 'missing' },
      { feed: 'awards', record: idOf(506), finding: 'different' },
      { feed: 'awards', record: idOf(509), finding: 'gone' },
    ]);
    expect(awards).toMatchObject({ missing: 1, different: 1, gone: 1, notCompared: null });
    expect(code).toBe(1);
  });

  test('are the same after an erasure, although the source goes on to show the person', async () => {
    const address = 'ann@example.com';
    const modified = '2026-01-01T00:00:50.000000Z';
    source.append('awards', { ...award(2), modified, lot_name: `Chairs for ${address}` });
    await db.database.query('update bridge.checkpoints set next_pull = now()');
    expect((await bridgeCommand('run')).code).toBe(0);
    const erased = await runHere(['erase', 'person', address, '--yes', '--config', config, '--data', folder], {
      DATABASE_URL: db.url,
    });
    expect([erased.code, erased.stdout]).toEqual([0, expect.stringContaining('bridge.mirror')]);
    // What the ERP still has is a difference there.
    expect(found((await reconcile()).report)).toEqual([]);
  });

  test('do not take a record for gone that has changed since it was pulled', async () => {
    change(4, undefined);
    const now = new Date().toISOString().replace('Z', '000Z');
    source.append('awards', { ...award(4), modified: now });
    expect(found((await reconcile()).report)).toEqual([]);
  });

  test('that cannot be read are not compared, with the reason, and the ERP is compared all the same', async () => {
    source.onRequest = (_query, response) => {
      response.writeHead(401).end('{}');
      return true;
    };
    const { report, awards } = await reconcile();
    expect(awards?.notCompared).toContain('401');
    expect(report.documents).toBe(1);
  });

  test('are left out with --no-feeds, and where only some events are compared', async () => {
    source.asked.length = 0;
    expect((await reconcile('--no-feeds')).report.feeds).toEqual([]);
    expect((await reconcile('--event', idOf(1))).report.feeds).toEqual([]);
    expect(source.asked).toEqual([]);
  });

  test('go on after the last window that was stored', async () => {
    await reconcile();
    const windows = 'select feed, range_end, source_records from bridge.reconciliation_windows order by 1, 2';
    const whole = await db.database.query(windows);
    // As a process leaves it that was killed after the first window of the awards.
    const { database } = db;
    await database.query('delete from bridge.reports');
    await database.query('update bridge.reconciliations set ended = null');
    await database.query(`update bridge.reconciliation_feeds set ended = null, position =
      (select min(range_end) from bridge.reconciliation_windows where feed = 'awards') where feed = 'awards'`);
    await database.query(`delete from bridge.reconciliation_windows where feed = 'awards' and range_end >
      (select position from bridge.reconciliation_feeds where feed = 'awards')`);
    source.asked.length = 0;
    expect((await bridgeCommand('reconcile', 'erp')).code).toBe(0);
    expect(await database.query(windows)).toEqual(whole);
    expect(source.asked.some((query) => !query.includes('modified_after'))).toBe(false);
  });
});

test('whatever differs, exactly that is found', async () => {
  // Every third stays: a window without any record proves nothing, and is not compared.
  const anyDeed = fc.constantFrom('none', 'missing', 'different', 'gone');
  const deeds = fc.tuple(...Array.from({ length: count }, (_, n) => (n % 3 === 0 ? fc.constant('none') : anyDeed)));
  const mirror = await db.database.query('select * from bridge.mirror');
  expect(mirror.length).toBe(count + 1);
  await fc.assert(
    fc.asyncProperty(deeds, async (done) => {
      source.records.set(
        'awards',
        Array.from({ length: count }, (_, n) => award(n + 1)),
      );
      await db.database.query('delete from bridge.mirror');
      await db.database.query(
        'insert into bridge.mirror select * from jsonb_populate_recordset(null::bridge.mirror, $1::jsonb)',
        [JSON.stringify(mirror.map(asJson))],
      );
      for (const [index, deed] of done.entries()) {
        const n = index + 1;
        if (deed === 'missing')
          await db.database.query('delete from bridge.mirror where record_id = $1', [idOf(500 + n)]);
        if (deed === 'different') change(n, award(n, '1234.5'));
        if (deed === 'gone') change(n, undefined);
      }
      const expected = done.flatMap((deed, index) =>
        deed === 'none' ? [] : [{ feed: 'awards', record: idOf(501 + index), finding: deed }],
      );
      expect(found((await reconcile()).report)).toEqual(expected);
    }),
    { numRuns: 6 },
  );
});

/** As `jsonb_populate_recordset` reads it: bytes in hexadecimal. */
function asJson(row: object): object {
  return Object.fromEntries(
    Object.entries(row).map(([name, value]) => [name, Buffer.isBuffer(value) ? `\\x${value.toString('hex')}` : value]),
  );
}
