/** Comparisons by schedule: when they are due, and what is said of one that does not. */
import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeEach, expect, test } from 'vitest';
import { type ComparisonStatus, flowsToCompare, readComparisons } from '#bridge/operate/reconcile/reconcile-status.ts';
import { startReconcile } from '#bridge/operate/reconcile/start-reconcile.ts';
import { lanes } from '#bridge/settings/bridge-deps.ts';
import { readConfiguration } from '#cli/configuration.ts';
import { timestampNow } from '#platform/clock.ts';
import { silentLogger } from '#platform/log.ts';
import { Registry } from '#platform/metrics.ts';
import type { Signals } from '#platform/queue.ts';
import { createSecretBox } from '#platform/secrets.ts';
import { runHere } from '../../../cli/command-line.ts';
import { scratchFolder } from '../../../harness/scratch-folder.ts';
import { createTestDatabase, type TestDatabase } from '../../../harness/test-database.ts';
import { type FeedSource, startFeedSource } from '../../feed-source.ts';
import { eventRecord, idOf, lotAwardRecord, type TestClock, testClock } from '../../parts.ts';

let db: TestDatabase;
let source: FeedSource;
let folder: string;
let clock: TestClock;
const hourMs = 3_600_000;
const modified = '2026-01-01T00:00:00.000000Z';

beforeEach(async () => {
  db = await createTestDatabase();
  source = await startFeedSource();
  folder = await scratchFolder();
  clock = testClock();
  const main = { name: 'main', base_url: source.url, api_key: 'k', feeds: ['sourcing-events', 'awards'] };
  const flow = {
    name: 'erp',
    source: 'main',
    connector: 'file',
    settings: { directory: join(folder, 'erp') },
    reconcile: { every_hours: 24 },
  };
  const bridge = {
    port: 0,
    console_port: 0,
    sources: [{ ...main, includes: false, audit_hours: 0 }],
    flows: [flow, { ...flow, name: 'never', reconcile: {}, documents: ['file'] }],
  };
  await writeFile(configFile(), JSON.stringify({ bridge }));
  source.append('sourcing-events', eventRecord(idOf(1), [idOf(101)], { modified }));
  source.append('awards', lotAwardRecord(idOf(500), idOf(1), [{ supplier: idOf(101), cost: '9.5' }], { modified }));
  const run = await runHere(['bridge', 'run', '--config', configFile(), '--data', folder], { DATABASE_URL: db.url });
  if (run.code !== 0) throw new Error(run.stderr);
});

const configFile = () => join(folder, 'bridge.yaml');
const flows = () => readConfiguration(configFile(), {}, {}).bridge.flows;
const due = () => flowsToCompare(db.database, flows(), timestampNow(clock));
const statusOf = async (flow: string): Promise<ComparisonStatus | undefined> =>
  (await readComparisons(db.database, flows(), timestampNow(clock))).find((each) => each.flow === flow);

/** Works the lane as the queue does. */
async function work(flow: string): Promise<void> {
  let worker: Parameters<Signals['work']>[2] | undefined;
  const signals = {
    work: (lane: string, _options: unknown, handler: typeof worker) => {
      expect(lane).toBe(lanes.reconcile);
      worker = handler;
    },
  } as unknown as Signals;
  startReconcile({
    settings: readConfiguration(configFile(), {}, {}).bridge,
    dataDir: folder,
    database: db.database,
    signals,
    fetch: fetch as never,
    secrets: createSecretBox(Buffer.alloc(32, 7)),
    clock,
    log: silentLogger,
    registry: new Registry(),
    sweepMs: 1_000,
    actionDays: 730,
    tls: undefined,
  });
  await worker?.(flow, new AbortController().signal);
}

test('a flow with a schedule is compared, and again when its hours have passed; others never', async () => {
  expect(await due()).toEqual(['erp']);
  await work('erp');
  expect(await statusOf('erp')).toMatchObject({
    run: 1,
    documents: 1,
    asDelivered: 1,
    differing: 0,
    open: null,
    overdue: false,
  });
  expect(await due()).toEqual([]);
  clock.advance(24 * hourMs);
  expect(await due()).toEqual(['erp']);
  expect(await statusOf('erp')).toMatchObject({ overdue: false });
  // Nobody ran it for two of its times.
  clock.advance(25 * hourMs);
  expect(await statusOf('erp')).toMatchObject({ overdue: true, lastError: null });
});

test('one that fails says why, is tried again after a quarter of an hour, and goes on where it was', async () => {
  await rm(join(folder, 'erp'), { recursive: true });
  await writeFile(join(folder, 'erp'), 'not a folder');
  await work('erp').catch(() => undefined);
  const failed = await statusOf('erp');
  expect(failed).toMatchObject({ ended: null, overdue: true });
  expect(failed?.lastError).toContain('erp');
  expect(await due()).toEqual([]);
  clock.advance(hourMs / 4);
  expect(await due()).toEqual(['erp']);
  await rm(join(folder, 'erp'));
  await work('erp');
  expect(await statusOf('erp')).toMatchObject({ lastError: null, overdue: false, open: null, differing: 1 });
});
