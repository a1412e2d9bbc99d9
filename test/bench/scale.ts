/**
 * What each role costs, as the process that an operator starts: CPU of the role and of the database, WAL and rows for a
 * notification, a record and a document; its memory under load with one source and with 500, and that of the service; and
 * the CPU of a bridge that has nothing to do. `docs/scaling.md` is made from its figures. BENCH_RECORDS: how many records instead of 50,000.
 */
import { mkdir, mkdtemp, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from 'pg';
import { migrateBridge } from '#bridge/migrate-bridge.ts';
import type { Installation } from '#cli/installation.ts';
import type { Database } from '#platform/database/database.ts';
import { createWebhooks, enqueue, startReceiver } from './deliveries.ts';
import { feedPath, fillFeed, stampOf } from './feed-page.ts';
import { megabytes, printTable } from './figures.ts';
import { noteGoal } from './goals.ts';
import { startLoad } from './load.ts';
import { startPageServer } from './page-server.ts';
import { buildPackage, freePort, type RoleProcess, startRole, startServiceProcess } from './role-process.ts';
import { createOrganisation, localCertificates } from './set-up.ts';
import { makeRequests, signingKey } from './signed-requests.ts';

const records = Number(process.env['BENCH_RECORDS'] ?? 50_000);
const events = Math.ceil(records / 50);
/** Its awards go to five suppliers, of whom it names three: those of the others are not made. */
const documents = 3 * events;
const notifications = 10_000;
/** Of 1,000 records each. */
const servicePages = 400;
const manySources = 500;
/** A whole minute: some things are done once in it. */
const idleMs = 60_000;
/** After the last wake-up has ended: what the start has left is collected. */
const afterStartMs = 10_000;
const sampleEveryMs = 250;

/** Runs it; prints the costs, the memory and the CPU at rest. */
export async function benchScale(installation: Installation): Promise<void> {
  const { database } = installation.open;
  await migrateBridge(database);
  buildPackage();
  const server = await startPageServer();
  const costs = [['', 'count', 'CPU each', 'CPU of the database', 'WAL each', 'rows each', 'memory']];
  try {
    const one = await settingsOf(installation, server.url, 1);
    await server.serve({ feed: 'awards', from: 0, to: records, pageSize: 1_000 });
    // Of fifty awards each.
    await server.serve({ feed: 'sourcing-events', from: 0, to: events, pageSize: 1_000 });
    const work = {
      receive: () => sendNotifications(installation, one.port),
      pull: () =>
        until(async () => (await count(database, 'select count(*)::int as n from bridge.mirror')) >= records + events),
      push: () => until(async () => (await count(database, delivered)) >= documents),
    };
    for (const role of ['receive', 'pull', 'push'] as const) {
      const before = await readRows(database);
      const measured = await measure(installation, one, role, work[role]);
      const written = (await readRows(database)) - before;
      const done =
        role === 'receive' ? notifications : role === 'pull' ? records + events : await count(database, delivered);
      costs.push([
        { receive: 'notification received', pull: 'record pulled', push: 'document pushed' }[role],
        done.toLocaleString('en'),
        `${Math.round((measured.cpuMs / done) * 1000)} us`,
        measured.databaseMs === undefined ? '-' : `${Math.round((measured.databaseMs / done) * 1000)} us`,
        `${Math.round(measured.wal / done)} B`,
        (written / done).toFixed(1),
        megabytes(measured.rssMax),
      ]);
      noteGoal({
        name: `memory of role ${role}, 1 source`,
        measured: measured.rssMax / 1024 / 1024,
        most: 250,
        unit: ' MB',
      });
    }
    console.log('What each role costs, in a process of its own');
    printTable(costs);
    const service = await memoryOfService(installation);
    console.log(`  the service, while it answers with pages and sends notifications: ${megabytes(service)}\n`);
    noteGoal({
      name: 'memory of the service, 1 organisation',
      measured: service / 1024 / 1024,
      most: 250,
      unit: ' MB',
    });

    for (const feed of ['awards', 'sourcing-events'] as const)
      await server.serve({ feed, from: 0, to: 0, pageSize: 1_000 });
    const many = await settingsOf(installation, server.url, manySources);
    const rows = [['', 'memory']];
    for (const role of ['receive', 'pull', 'push'] as const) {
      const { rssMax } = await measure(installation, many, role, async () => {
        if (role === 'receive') await sendNotifications(installation, many.port);
        else if (role === 'pull') await untilAllRead(database);
        else await sleep(2_000);
      });
      rows.push([role, megabytes(rssMax)]);
      noteGoal({
        name: `memory of role ${role}, ${manySources} sources`,
        measured: rssMax / 1024 / 1024,
        most: 250,
        unit: ' MB',
      });
    }
    console.log(`${manySources} sources with four feeds each`);
    printTable(rows);
    // Documents of `main` cannot be made, and are tried again now and then: a flow with nothing to do takes its place.
    const resting = await settingsOf(installation, server.url, manySources, 'source-2');
    const idle = await startRole({ ...resting, role: 'all' });
    try {
      await untilAtRest(database);
      await sleep(afterStartMs);
      const before = await idle.usage();
      await sleep(idleMs);
      const perMinute = ((await idle.usage()).cpuMs - before.cpuMs) / 1000;
      console.log(`  at rest ${perMinute.toFixed(1)} s of CPU in a minute\n`);
      noteGoal({ name: `CPU in a minute at rest, ${manySources} sources`, measured: perMinute, most: 1.5, unit: ' s' });
    } finally {
      await idle.close();
    }
  } finally {
    await server.close();
  }
}

interface Settings {
  readonly folder: string;
  readonly databaseUrl: string;
  readonly port: number;
  readonly bridge: Record<string, unknown>;
}

/** The first source is called `main`, the others `source-2` and so on. Nothing is read on schedule but at the start. */
async function settingsOf(
  installation: Installation,
  url: string,
  sources: number,
  flowOf = 'main',
): Promise<Settings> {
  const folder = await mkdtemp(join(installation.dataDir, 'role-'));
  const { certPem, keyPem } = localCertificates(installation);
  await writeFile(join(folder, 'cert.pem'), certPem);
  await writeFile(join(folder, 'key.pem'), keyPem);
  await mkdir(join(folder, 'erp'));
  const port = await freePort();
  const source = (name: string, feeds?: readonly string[]) => ({
    name,
    base_url: url,
    api_key: 'bench',
    signing_keys: [signingKey],
    poll_seconds: 86_400,
    audit_hours: 0,
    quotas: { enabled: false },
    ...(feeds ? { feeds } : {}),
  });
  return {
    folder,
    databaseUrl: installation.open.url,
    port,
    bridge: {
      host: '127.0.0.1',
      port,
      tls: { cert_file: join(folder, 'cert.pem'), key_file: join(folder, 'key.pem') },
      sources: [
        source('main', sources === 1 ? ['awards', 'sourcing-events'] : undefined),
        ...Array.from({ length: sources - 1 }, (_, index) => source(`source-${index + 2}`)),
      ],
      flows: [
        {
          name: `erp-${flowOf}`,
          source: flowOf,
          connector: 'file',
          settings: { directory: join(folder, 'erp') },
        },
      ],
    },
  };
}

interface Measured {
  readonly cpuMs: number;
  /** Undefined where the system does not say. */
  readonly databaseMs: number | undefined;
  readonly wal: number;
  readonly rssMax: number;
}

async function measure(
  { open: { database } }: Installation,
  settings: Settings,
  role: 'receive' | 'pull' | 'push',
  work: () => Promise<void>,
): Promise<Measured> {
  const started: RoleProcess = await startRole({ ...settings, role });
  try {
    const [before, wal, databaseMs] = [await started.usage(), await walBytes(database), await databaseCpuMs(database)];
    const rssMax = await mostMemory(started, work);
    const after = await started.usage();
    const databaseAfter = await databaseCpuMs(database);
    return {
      cpuMs: after.cpuMs - before.cpuMs,
      databaseMs: databaseMs === undefined || databaseAfter === undefined ? undefined : databaseAfter - databaseMs,
      wal: (await walBytes(database)) - wal,
      rssMax,
    };
  } finally {
    await started.close();
  }
}

/** The most memory that the process held while `work` ran. */
async function mostMemory(started: RoleProcess, work: () => Promise<unknown>): Promise<number> {
  const sampling = new AbortController();
  const samples = (async () => {
    let most = 0;
    while (!sampling.signal.aborted) {
      most = Math.max(most, (await started.usage()).rss);
      await sleep(sampleEveryMs);
    }
    return most;
  })();
  await work();
  sampling.abort();
  return Math.max(await samples, (await started.usage()).rss);
}

/** Of the service: four clients read a feed from page to page while notifications go to eight webhooks. */
async function memoryOfService(installation: Installation): Promise<number> {
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const started = await startServiceProcess(installation, port);
  const load = startLoad();
  const receiver = await startReceiver(installation);
  const client = new Client({ connectionString: installation.open.url });
  try {
    await client.connect();
    const { organisation, key } = await createOrganisation(url, await installation.adminToken(), ['feeds']);
    await fillFeed(client, organisation, records);
    const webhookIds = await createWebhooks(url, installation, receiver.ports);
    const pages = Array.from({ length: servicePages }, (_, index) => {
      const path = `${feedPath}&modified_after=${stampOf((index * 1_000) % (records - 1_000))}`;
      return `GET ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer ${key}\r\n\r\n`;
    });
    return await mostMemory(started, async () => {
      await enqueue(installation, webhookIds, notifications);
      await load.run({ port, connections: 4, requests: pages });
      await until(async () => (await receiver.count()) >= notifications);
    });
  } finally {
    await client.end();
    await receiver.close();
    await load.close();
    await started.close();
  }
}

async function sendNotifications(installation: Installation, port: number): Promise<void> {
  const { caPem } = localCertificates(installation);
  const load = startLoad();
  try {
    for (let sent = 0; sent < notifications; sent += 5_000)
      await load.run({ port, caPem, connections: 32, requests: makeRequests(5_000) });
  } finally {
    await load.close();
  }
}

const delivered = 'select count(*)::int as n from bridge.flow_documents where delivered is not null';

async function untilAllRead(database: Database): Promise<void> {
  await until(
    async () =>
      (await count(database, 'select count(*)::int as n from bridge.checkpoints where last_pull is null')) === 0,
  );
}

/** Every feed was read, looked at again for late commits, and waits for its next poll; the queue has ended all wake-ups. */
async function untilAtRest(database: Database): Promise<void> {
  const busy = `select count(*)::int as n from bridge.checkpoints where last_pull is null or next_pull < now() + interval '1 hour'`;
  await until(async () => (await count(database, busy)) === 0);
  // On PostgreSQL the end of each is recorded one after the other, for some seconds after a start.
  if (!process.env['REDIS_URL'])
    await until(async () => (await count(database, 'select count(*)::int as n from bridge_queue.job')) === 0);
}

async function until(isDone: () => Promise<boolean>): Promise<void> {
  for (const giveUpMs = performance.now() + 300_000; performance.now() < giveUpMs; await sleep(100))
    if (await isDone()) return;
  throw new Error('The role has not done its work within five minutes.');
}

async function count(database: Database, statement: string): Promise<number> {
  return (await database.query<{ n: number }>(statement))[0]?.n ?? 0;
}

/** Rows that were inserted or updated in the bridge's tables until now. */
async function readRows(database: Database): Promise<number> {
  // The statistics of another process's last statements arrive with a delay.
  await sleep(1_500);
  await database.query('select pg_stat_clear_snapshot()');
  return count(
    database,
    "select sum(n_tup_ins + n_tup_upd)::int as n from pg_stat_user_tables where schemaname = 'bridge'",
  );
}

async function walBytes(database: Database): Promise<number> {
  return count(database, "select (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::float8 as n");
}

/** Of the server's processes, where /proc shows them. */
async function databaseCpuMs(database: Database): Promise<number | undefined> {
  const [backend] = await database.query<{ pid: number }>('select pg_backend_pid() as pid');
  const server = (await statOf(backend?.pid ?? 0))?.parent;
  if (server === undefined) return undefined;
  let ticks = (await statOf(server))?.ticks ?? 0;
  for (const name of await readdir('/proc')) {
    const stat = /^\d+$/.test(name) ? await statOf(Number(name)) : undefined;
    if (stat?.parent === server) ticks += stat.ticks;
  }
  return ticks * 10;
}

/** Its own ticks and those of its children that have ended, of 10 ms each. */
async function statOf(pid: number): Promise<{ parent: number; ticks: number } | undefined> {
  const text = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => undefined);
  const fields = text?.slice(text.lastIndexOf(')') + 2).split(' ');
  if (!fields) return undefined;
  return { parent: Number(fields[1]), ticks: [11, 12, 13, 14].reduce((sum, field) => sum + Number(fields[field]), 0) };
}
