/**
 * Processes that hang for longer than their lease, as on a machine that is suspended or starved of CPU: another process
 * takes over, and what the first one does when it continues has no effect. Real processes, stopped with SIGSTOP.
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { type FeedSource, startFeedSource } from '../bridge/feed-source.ts';
import { eventRecord, idOf, lotAwardRecord } from '../bridge/parts.ts';
import { createTestDatabase, type TestDatabase } from '../harness/test-database.ts';
import { readSteps } from './gated-connector.ts';
import { createInstallation, lineOf, outcomeOf, type Program, until } from './program-process.ts';

const leaseSeconds = 1;

async function setUp(flows: readonly object[]) {
  const db = await createTestDatabase();
  const source = await startFeedSource();
  const installation = await createInstallation({
    databaseUrl: db.url,
    configuration: {
      sweep_seconds: 0.1,
      bridge: {
        console_port: 0,
        lease_seconds: leaseSeconds,
        sources: [
          {
            name: 'main',
            base_url: source.url,
            api_key: 'feed-key',
            feeds: ['sourcing-events', 'awards'],
            poll_seconds: 1,
            audit_hours: 0,
            includes: false,
          },
        ],
        flows,
      },
    },
  });
  const start = async (role: 'pull' | 'push') => {
    const program = installation.start(['bridge', '--role', role]);
    await lineOf(program, /ready/);
    return program;
  };
  return { db, source, dataDir: installation.dataDir, start };
}

const suspend = (program: Program) => process.kill(program.pid, 'SIGSTOP');
const resume = (program: Program) => process.kill(program.pid, 'SIGCONT');

async function endGracefully(...programs: readonly Program[]): Promise<void> {
  for (const program of programs) {
    await program.terminate();
    expect(outcomeOf(program)).toBe('exit code 0');
  }
}

const event = idOf(1);
const supplier = idOf(101);
const award = (cost: string) => lotAwardRecord(idOf(500), event, [{ supplier, cost }]);

/** Holds the first answer of the feed back until `release`; it shows the records of the time when it was requested. */
function holdFirst(source: FeedSource, feed: string) {
  const asked = Promise.withResolvers<void>();
  const release = Promise.withResolvers<void>();
  let first = true;
  source.onRequest = async (_query, response) => {
    if (!first || !source.asked.at(-1)?.startsWith(feed)) return undefined;
    first = false;
    const body = JSON.stringify({ data: source.records.get(feed), next: null });
    asked.resolve();
    await release.promise;
    response.writeHead(200, { 'content-type': 'application/json', 'feed-order': 'commit' });
    response.end(body);
    return true;
  };
  return { asked: asked.promise, release: () => release.resolve() };
}

const bodies = async (db: TestDatabase, table: string) =>
  (await db.database.query<{ body: string }>(`select body from bridge.${table} where feed = 'awards'`)).map(
    ({ body }) => JSON.parse(body),
  );

test('a puller that was suspended while it read a page writes nothing of the page when it continues', async () => {
  const { db, source, start } = await setUp([]);
  const [older, newer] = [award('10'), award('11')];
  // The feed shows this record only to the first puller: if it is in the mirror, the first puller has written its page.
  const brief = lotAwardRecord(idOf(501), event, [{ supplier, cost: '7' }]);
  source.append('awards', older, brief);
  const held = holdFirst(source, 'awards');
  const first = await start('pull');
  await held.asked;
  suspend(first);
  source.records.set('awards', [older]);
  const second = await start('pull');
  await until('the second puller has read the feed', async () => (await bodies(db, 'mirror')).length > 0);
  source.append('awards', newer);
  await until(
    'the second puller has read the new version',
    async () => (await bodies(db, 'mirror'))[0]?.modified === newer.modified,
  );
  await endGracefully(second);
  const checkpoint = async () =>
    (await db.database.query('select watermark from bridge.checkpoints where feed = $1', ['awards']))[0];
  const before = await checkpoint();

  held.release();
  resume(first);
  const requestsBefore = source.asked.length;
  await until('the first puller works again', () =>
    source.asked.slice(requestsBefore).some((path) => path.startsWith('awards')),
  );
  await endGracefully(first);
  expect(await bodies(db, 'mirror')).toEqual([newer]);
  expect(await bodies(db, 'mirror_history')).toEqual([older]);
  expect(await checkpoint()).toEqual(before);
});

test('a pusher that was suspended during a call sends nothing more when it continues, and nothing is created twice', async () => {
  const { db, source, dataDir, start } = await setUp([
    {
      name: 'gated',
      source: 'main',
      connector: join(import.meta.dirname, 'gated-connector.ts'),
      settings: { file: 'steps.jsonl', gate: 'gate' },
    },
  ]);
  const steps = () => readSteps(join(dataDir, 'steps.jsonl'));
  source.append('sourcing-events', eventRecord(event, [supplier]));
  source.append('awards', award('10'));
  const first = await start('push');
  const puller = await start('pull');
  await until('the first pusher has begun to write', () => steps().some(({ pid }) => pid === first.pid));
  suspend(first);
  const second = await start('push');
  await until('the second pusher has taken over', () =>
    steps().some(({ pid, step }) => pid === second.pid && step === 'begin'),
  );
  writeFileSync(join(dataDir, 'gate'), '');
  await until('the second pusher has written', async () => {
    const rows = await db.database.query('select from bridge.flow_documents where delivered is not null');
    return rows.length === 1;
  });

  resume(first);
  await until('the first pusher has stopped its call', () => steps().filter(({ pid }) => pid === first.pid).length > 1);
  await endGracefully(first);
  // The first pusher has left the document uncertain. The second one asks the ERP, which holds it as it should be.
  const documents = async () =>
    db.database.query<{ due: string | null }>('select due, dead_since, intent_id from bridge.flow_documents');
  await until('no document is uncertain', async () => (await documents()).every(({ due }) => due === null));
  await endGracefully(second, puller);
  expect(steps().map(({ step, pid }) => [step, pid === first.pid ? 'first' : 'second'])).toEqual([
    ['begin', 'first'],
    ['begin', 'second'],
    ['write', 'second'],
    ['stop', 'first'],
  ]);
  expect(await documents()).toEqual([{ due: null, dead_since: null, intent_id: null }]);
});

/** Their call may take an hour: a test whose bridge waits for that does not end. */
const hourOfCall = { file: 'steps.jsonl', gate: 'gate', timeout_ms: 3_600_000, late_effect_ms: 300 };

async function setUpHourOfCall() {
  const connector = join(import.meta.dirname, 'gated-connector.ts');
  const world = await setUp([{ name: 'gated', source: 'main', connector, settings: hourOfCall }]);
  const steps = () => readSteps(join(world.dataDir, 'steps.jsonl'));
  world.source.append('sourcing-events', eventRecord(event, [supplier]));
  world.source.append('awards', award('10'));
  const first = await world.start('push');
  const puller = await world.start('pull');
  await until('the first pusher has begun to write', () => steps().some(({ pid }) => pid === first.pid));
  const rows = <T extends object>(columns: string) =>
    world.db.database.query<T>(`select ${columns} from bridge.flow_documents`);
  return { ...world, steps, first, puller, rows };
}

test('a call of a pusher that was killed is looked up although it could have taken an hour', async () => {
  const { dataDir, start, steps, first, puller, rows } = await setUpHourOfCall();
  await first.kill();
  writeFileSync(join(dataDir, 'gate'), '');
  const second = await start('push');
  await until('the document is delivered', async () => {
    const [row] = await rows<{ delivered: string | null }>('delivered');
    return row?.delivered ?? undefined;
  });
  await endGracefully(second, puller);
  expect(steps().map(({ step, pid }) => [step, pid === first.pid ? 'first' : 'second'])).toEqual([
    ['begin', 'first'],
    ['begin', 'second'],
    ['write', 'second'],
  ]);
});

test('a call of a pusher that was suspended is waited for, and no longer once the pusher runs again', async () => {
  const { dataDir, start, steps, first, puller, rows } = await setUpHourOfCall();
  suspend(first);
  const second = await start('push');
  const waits = await until('the second pusher waits for the call', async () => {
    const [row] = await rows<{ due: string; intent_at: string }>('due, intent_at');
    return row && row.due > row.intent_at && row;
  });
  expect(Date.parse(waits.due) - Date.parse(waits.intent_at)).toBeGreaterThan(3_600_000);
  writeFileSync(join(dataDir, 'gate'), '');
  resume(first);
  await until('the document is delivered', async () => {
    const [row] = await rows<{ due: string | null; delivered: string | null }>('due, delivered');
    return row !== undefined && row.delivered !== null && row.due === null;
  });
  await endGracefully(first, second, puller);
  expect(steps().filter(({ step }) => step === 'write')).toHaveLength(1);
});
