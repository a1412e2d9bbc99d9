/** `bridge reconcile` on a database with a flow into PostgreSQL tables, which somebody edits by hand. */
import { execFile } from 'node:child_process';
import { generateKeyPairSync } from 'node:crypto';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
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

beforeAll(async () => {
  db = await createTestDatabase();
  erp = await createEmptyDatabase();
  source = await startFeedSource();
  folder = await scratchFolder();
  config = join(folder, 'bridge.yaml');
  const feeds = ['sourcing-events', 'awards'];
  const main = { name: 'main', base_url: source.url, api_key: 'k', feeds, includes: false, poll_seconds: 3600 };
  const flow = { name: 'erp', source: 'main', connector: 'postgres', settings: { url: erp.url } };
  await writeFile(
    config,
    JSON.stringify({ bridge: { port: 0, console_port: 0, sources: [{ ...main, audit_hours: 0 }], flows: [flow] } }),
  );
  const before = { modified: '2025-12-31T00:00:00.000000Z' };
  source.append('sourcing-events', eventRecord(idOf(900), [suppliers[0]], before));
  source.append('awards', lotAwardRecord(idOf(901), idOf(1), [], before));
  source.append('sourcing-events', eventRecord(idOf(1), [...suppliers], { modified: '2026-01-01T00:00:00.000000Z' }));
  const winners = suppliers.map((supplier, n) => ({ supplier, cost: `1${n}.5` }));
  source.append('awards', lotAwardRecord(idOf(500), idOf(1), winners, { modified: '2026-01-01T00:00:01.000000Z' }));
});

const bridge = (...args: readonly string[]) =>
  runHere(['bridge', ...args, '--config', config, '--data', folder], { DATABASE_URL: db.url });

test('finds what somebody has changed and deleted, exits with 1, and puts it right with --repair', async () => {
  expect((await bridge('run')).code).toBe(0);
  const same = await bridge('reconcile', 'erp');
  expect(same).toMatchObject({ code: 0, stdout: expect.stringContaining('erp: 3 documents compared, 3 as they were') });
  expect(same.stdout).toContain('Nothing differs.');

  await erp.database.query('update sourcing.award set total_cost = 10.51 where key = $1', [keyOf(0)]);
  await erp.database.query('delete from sourcing.award where key = $1', [keyOf(1)]);
  const { code, stdout } = await bridge('reconcile', '--json');
  const [report] = JSON.parse(stdout).reports;
  expect(code).toBe(1);
  expect(report).toMatchObject({
    flow: 'erp',
    run: { documents: 3, asDelivered: 1 },
    counts: { changed: 1, missing: 1, unclear: 0, 'not compared': 0 },
    findings: [
      { key: keyOf(0), finding: 'changed', field: 'total_cost', expected: '10.5', held: '10.51' },
      { key: keyOf(1), finding: 'missing' },
    ],
  });

  // Without a terminal and --yes nothing is asked, and nothing is written.
  expect(await bridge('reconcile', 'erp', '--repair')).toMatchObject({ code: 2 });
  const repaired = await bridge('reconcile', 'erp', '--repair', '--yes');
  expect(repaired.stdout).toContain('2 documents are due again');
  expect((await bridge('run')).code).toBe(0);
  expect((await bridge('reconcile', 'erp')).code).toBe(0);
  expect(await erp.database.query('select key, total_cost::text from sourcing.award order by key')).toEqual(
    suppliers.map((_, n) => ({ key: keyOf(n), total_cost: `1${n}.5` })),
  );
});

test('its report is written, and is verified where there is no bridge, with the right key only', async () => {
  const out = join(folder, 'out');
  const { stdout } = await bridge('reconcile', 'erp', '--out', out);
  const file = /Written: (.+\.json),/.exec(stdout)?.[1] ?? '';
  // 10.5 + 11.5 + 12.5, all as they were delivered.
  expect(await readFile(file.replace('.json', '.html'), 'utf8')).toContain('<td>3</td><td>34.5</td><td>EUR</td>');

  const offline = (...args: string[]) => runHere(['verify-report', ...args], {});
  const key = join(out, 'report-key.pem');
  expect(await offline(file, '--key', key)).toMatchObject({
    code: 0,
    stdout: expect.stringContaining('held 3 of 3 delivered documents'),
  });
  const run = promisify(execFile);
  const openssl = ['pkeyutl', '-verify', '-pubin', '-inkey', key, '-rawin', '-in', file, '-sigfile', `${file}.sig`];
  expect((await run('openssl', openssl)).stdout).toContain('Signature Verified Successfully');

  expect(await offline(file)).toMatchObject({ code: 2, stderr: expect.stringContaining('--key <file>') });
  expect(await offline(join(out, 'none.json'), '--key', key)).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('none.json'),
  });
  const { publicKey } = generateKeyPairSync('ed25519');
  const other = join(out, 'other.pem');
  await writeFile(other, publicKey.export({ format: 'pem', type: 'spki' }));
  const notValid = { code: 1, stdout: expect.stringContaining('NOT VALID') };
  expect(await offline(file, '--key', other)).toMatchObject(notValid);
  await writeFile(file, (await readFile(file, 'utf8')).replace('"amount": "34.5"', '"amount": "34.6"'));
  expect(await offline(file, '--key', key)).toMatchObject(notValid);
});

test('an unknown flow is refused', async () => {
  expect(await bridge('reconcile', 'nope')).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('no flow "nope"'),
  });
});

test('where nothing can be compared, or only a part, it does not say that nothing differs', async () => {
  const forget = (key: string) =>
    db.database.query("delete from bridge.document_versions where flow = 'erp' and key = $1", [key]);
  await forget(keyOf(0));
  const part = await bridge('reconcile', 'erp');
  expect(part.stdout).toContain('Of what could be compared, nothing differs.');
  for (const n of [1, 2]) await forget(keyOf(n));
  const nothing = await bridge('reconcile', 'erp');
  expect(nothing.stdout).toContain('3 not compared');
  expect(nothing.stdout).toContain('Nothing could be compared: ');
  expect(nothing.stdout).not.toContain('Nothing differs.');
});
