/** Jobs on the command line: a run reads those that are due, and status, doctor and console say which cannot be read. */
import { readdirSync, readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { storeNotifications } from '#bridge/receive/store-notifications.ts';
import { bridgeSettings } from '#bridge/settings/settings.ts';
import { type FeedSource, startFeedSource } from '../bridge/feed-source.ts';
import { idOf } from '../bridge/parts.ts';
import { startConsole } from '../console/console-server.ts';
import { scratchFolder } from '../harness/scratch-folder.ts';
import { createTestDatabase } from '../harness/test-database.ts';
import { runHere } from './command-line.ts';

const db = await createTestDatabase();
const folder = await scratchFolder();
const config = join(folder, 'bridge.yaml');
const source = await startFeedSource();
const main = { name: 'main', base_url: source.url, api_key: 'key', feeds: ['awards'], includes: false, audit_hours: 0 };
const flow = { name: 'erp', source: 'main', connector: 'file', documents: ['job'], settings: { directory: 'erp' } };
await writeFile(config, JSON.stringify({ bridge: { port: 0, console_port: 0, sources: [main], flows: [flow] } }));

async function bridge(...args: readonly string[]) {
  return runHere(['bridge', ...args, '--config', config, '--data', folder], { DATABASE_URL: db.url });
}

/** The service has notified the bridge of these jobs. */
const notify = (...jobs: readonly string[]) =>
  storeNotifications(
    db.database,
    jobs.map((job) => ({
      source: 'main',
      trigger: 'JOB_UPDATED',
      feed: undefined,
      job,
      body: Buffer.from('{}'),
      receivedMs: Date.now(),
    })),
  );

/** The source answers so to the question what became of a job. */
function answerJobs(status: number, body: object): void {
  const onRequest: FeedSource['onRequest'] = (_query, response) => {
    if (!source.asked.at(-1)?.startsWith('00000000')) return undefined;
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
    return true;
  };
  source.onRequest = onRequest;
}

const delivered = () =>
  readdirSync(join(folder, 'erp'))
    .filter((name) => name.endsWith('.json') && !name.startsWith('.'))
    .map((name) => JSON.parse(readFileSync(join(folder, 'erp', name), 'utf8')) as Record<string, unknown>);

test('run reads each job that is due once, and delivers what became of it', async () => {
  // The first start makes the tables and the flow.
  expect((await bridge('run')).code).toBe(0);
  const jobs = [idOf(1), idOf(2)];
  answerJobs(200, { type: 'CREATE_SOURCING_EVENT', status: 'COMPLETED', created_entity: idOf(8) });
  await notify(...jobs, idOf(1));
  source.asked.length = 0;
  const { code, stdout } = await bridge('run', '--json');
  expect([code, JSON.parse(stdout)]).toMatchObject([0, { undelivered: 0, failedFeeds: [] }]);
  expect(source.asked.filter((asked) => asked.startsWith('00000000')).toSorted()).toEqual(jobs);
  expect(
    delivered()
      .map(({ key, status, created_entity }) => `${String(key)} ${String(status)} ${String(created_entity)}`)
      .toSorted(),
  ).toEqual(jobs.map((job) => `${job} COMPLETED ${idOf(8)}`));
});

test('status, doctor and console say that a job cannot be read for want of a scope, once it has failed three times', async () => {
  answerJobs(403, { title: 'Forbidden', status: 403, detail: 'The key has no scope "jobs".' });
  await notify(idOf(3));
  const conditions = async () => JSON.parse((await bridge('status', '--json')).stdout).conditions as { kind: string }[];
  const readAgain = async () => {
    await db.database.query("update bridge.jobs set next_look = '2020-01-01Z' where ended is null");
    return (await bridge('run')).code;
  };
  expect([await readAgain(), await readAgain()]).toEqual([0, 0]);
  expect((await conditions()).filter(({ kind }) => kind === 'jobs-unread')).toEqual([]);
  // A run ends well only where nobody has to look at anything.
  expect(await readAgain()).toBe(1);
  expect(await conditions()).toContainEqual(
    expect.objectContaining({
      kind: 'jobs-unread',
      subject: 'source main',
      level: 'fail',
      summary: expect.stringContaining('1 job of main could not be read'),
    }),
  );
  expect((await bridge('status')).stdout).toContain('give it the scope "jobs" at the service');
  const { stdout } = await bridge('doctor');
  expect(stdout).toMatch(/^fail +source main: jobs unread +1 job of main could not be read/m);
  expect(stdout).toMatch(/^fail +source main: jobs +.*The key has no scope "jobs".*\n +-> .*needs the scope jobs/m);
  const console = await startConsole(db.database, {
    settings: bridgeSettings.parse({ sources: [main], flows: [flow] }),
  });
  const shown = (await (await fetch(`${console.url}/api/flows`)).json()) as { conditions: { kind: string }[] };
  expect(shown.conditions.map(({ kind }) => kind)).toContain('jobs-unread');
  // It is read, once the key may.
  answerJobs(200, { type: 'CREATE_SOURCING_EVENT', status: 'FAILED', errors: [] });
  expect(await readAgain()).toBe(0);
  expect((await conditions()).filter(({ kind }) => kind === 'jobs-unread')).toEqual([]);
  expect(delivered()).toHaveLength(3);
});
