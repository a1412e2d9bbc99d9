/** A shadow flow on the command line: two mappings of one PostgreSQL ERP, promoted, and looked at in another time. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, expect, test } from 'vitest';
import { type FeedSource, startFeedSource } from '../bridge/feed-source.ts';
import { eventRecord, idOf, lotAwardRecord } from '../bridge/parts.ts';
import { scratchFolder } from '../harness/scratch-folder.ts';
import { createEmptyDatabase, createTestDatabase, type TestDatabase } from '../harness/test-database.ts';
import { runHere } from './command-line.ts';

const suppliers = [idOf(101), idOf(102), idOf(103)] as const;
const keyOf = (n: number) => `${idOf(1)}/${suppliers[n]}`;

let db: TestDatabase;
let erp: TestDatabase;
let source: FeedSource;
let folder: string;
let config: string;

const live = (more: object = {}) => ({
  name: 'erp',
  source: 'main',
  connector: 'postgres',
  settings: { url: erp.url },
  ...more,
});
const plant = { award: { fields: { plant: { value: '2000' } } } };

async function configure(...flows: object[]): Promise<void> {
  const feeds = ['sourcing-events', 'awards'];
  const main = { name: 'main', base_url: source.url, api_key: 'k', feeds, includes: false, poll_seconds: 3600 };
  await writeFile(
    config,
    JSON.stringify({ bridge: { port: 0, console_port: 0, sources: [{ ...main, audit_hours: 0 }], flows } }),
  );
}

const award = (...costs: string[]) =>
  source.append(
    'awards',
    lotAwardRecord(
      idOf(500),
      idOf(1),
      costs.map((cost, n) => ({ supplier: suppliers[n] ?? '', cost })),
      { modified: `2026-01-01T00:00:0${costs.length}.000000Z` },
    ),
  );

beforeAll(async () => {
  db = await createTestDatabase();
  erp = await createEmptyDatabase();
  source = await startFeedSource();
  folder = await scratchFolder();
  config = join(folder, 'bridge.yaml');
  const before = { modified: '2025-12-31T00:00:00.000000Z' };
  source.append('sourcing-events', eventRecord(idOf(900), [suppliers[0]], before));
  source.append('awards', lotAwardRecord(idOf(901), idOf(1), [], before));
  source.append('sourcing-events', eventRecord(idOf(1), [...suppliers], { modified: '2026-01-01T00:00:00.000000Z' }));
  award('10.5');
});

const bridge = (...args: readonly string[]) =>
  runHere(['bridge', ...args, '--config', config, '--data', folder], { DATABASE_URL: db.url });
const held = () => erp.database.query("select key, fields from sourcing.award where state = 'current' order by key");

test('runs beside the live flow, is promoted once the file says so, and then owns its objects', async () => {
  await configure(live(), live({ name: 'erp-new', shadow: true, mapping: plant }));
  expect(await bridge('run')).toMatchObject({ code: 0 });
  const atFirst = await held();
  expect(atFirst).toHaveLength(1);

  const status = await bridge('status');
  expect(status).toMatchObject({ code: 0, stdout: expect.stringContaining('Shadow flows, which write nothing') });
  expect(status.stdout).toMatch(/erp-new\s+erp\s+It would do, of 1 documents: 1 amend; 1 differ from what erp sends\./);
  const planned = await bridge('plan', 'erp-new');
  expect(planned).toMatchObject({ code: 1, stdout: expect.stringContaining('+ fields.plant: "2000"') });
  expect(planned.stdout).toContain('A shadow beside erp: nothing of this is written.');

  const early = await bridge('promote', 'erp-new', '--yes');
  expect(early).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('delete shadow: true (and beside) from the flow erp-new; delete the flow erp'),
  });

  await configure(live({ name: 'erp-new', mapping: plant }));
  // A program that starts too early sends nothing of it, and says so.
  await bridge('run');
  expect(await held()).toEqual(atFirst);
  expect((await bridge('status')).stdout).toContain('agree to that with bridge promote erp-new');
  expect(await bridge('promote', 'erp-new')).toMatchObject({ code: 2, stderr: expect.stringContaining('add --yes') });
  const promoted = await bridge('promote', 'erp-new', '--yes');
  expect(promoted.code).toBe(0);
  expect(promoted.stdout).toContain('erp-new takes the place of erp. It goes on with the objects of erp');
  award('10.5', '7');
  expect(await bridge('run')).toMatchObject({ code: 0 });
  expect(await held()).toMatchObject([
    { key: keyOf(0), fields: { plant: '2000' } },
    { key: keyOf(1), fields: { plant: '2000' } },
  ]);
  expect((await bridge('actions')).stdout).toContain('flow.promote');

  // The file of before brings nothing back.
  await configure(live(), live({ name: 'erp-new', shadow: true, mapping: plant }));
  award('10.5', '7', '8');
  await bridge('run', '--patience', '1');
  expect(await held()).toHaveLength(2);
  expect((await bridge('status')).stdout).toContain('nothing is sent: erp-new has taken its place');
  await configure(live({ name: 'erp-new', mapping: plant }));
  expect(await bridge('run')).toMatchObject({ code: 0 });
  expect(await held()).toHaveLength(3);
});

test('the documents of another time: what differs from what was sent, and what cannot be asked for', async () => {
  const [row] = await db.database.query<{ at: string }>(
    "select replaced - interval '1 microsecond' as at from bridge.mirror_history where feed = 'awards' order by replaced limit 1",
  );
  const at = row?.at ?? '';
  await configure(live({ name: 'erp-new', mapping: { award: { fields: { plant: { value: '3000' } } } } }));
  const tried = await bridge('mapping', 'try', 'erp-new', '--as-of', new Date().toISOString(), '--json');
  expect(tried.code).toBe(0);
  const { documents, by, comparedWith } = JSON.parse(tried.stdout);
  expect([by, comparedWith, documents.length]).toEqual(['sent', 'erp-new', 3]);
  expect(documents[0]).toMatchObject({ action: 'amend', differences: ['~ fields.plant: "2000" -> "3000"'] });
  const then = await bridge('plan', 'erp-new', '--as-of', at, '--json');
  expect(JSON.parse(then.stdout).documents).toMatchObject([{ key: keyOf(0), action: 'create', at }]);
  expect(await held()).toHaveLength(3);

  const half = await bridge('mapping', 'try', 'erp-new', '--from', at);
  expect(half).toMatchObject({ code: 2, stderr: expect.stringContaining('both --from and --to') });
  const old = await bridge('plan', 'erp-new', '--as-of', '2020-01-01');
  expect(old).toMatchObject({ code: 2, stderr: expect.stringContaining('replaced versions are kept for 90 days') });
});
