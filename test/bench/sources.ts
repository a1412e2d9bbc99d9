/**
 * Many sources with one puller and one pusher, each a process as an operator starts it: its memory, the time to start and
 * to stop, the time of the first read of every feed, and the CPU at rest. Each source has two feeds and a flow of its own.
 * BENCH_SOURCES: how many instead of 10,000.
 */
import { mkdtemp } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { migrateBridge } from '#bridge/migrate-bridge.ts';
import type { Installation } from '#cli/installation.ts';
import { megabytes, printTable } from './figures.ts';
import { startPageServer } from './page-server.ts';
import { buildPackage, type RoleProcess, startRole } from './role-process.ts';

const sources = Number(process.env['BENCH_SOURCES'] ?? 10_000);
const idleMs = 60_000;
const giveUpMs = 1_800_000;

/** Runs it; prints what each process takes. */
export async function benchSources(installation: Installation): Promise<void> {
  await migrateBridge(installation.open.database);
  buildPackage();
  const server = await startPageServer();
  const rows = [['', 'start', 'memory at most', 'CPU in a minute at rest', 'stop']];
  const running: RoleProcess[] = [];
  try {
    for (const feed of ['awards', 'sourcing-events'] as const)
      await server.serve({ feed, from: 0, to: 0, pageSize: 1_000 });
    const folder = await mkdtemp(join(installation.dataDir, 'sources-'));
    const shared = { folder, databaseUrl: installation.open.url, bridge: bridgeOf(server.url, folder) };
    const start = async (role: 'pull' | 'push') => {
      const [took, started] = await timed(() => startRole({ ...shared, role }));
      running.push(started);
      return { role, took, started };
    };
    const roles = [await start('pull'), await start('push')];
    const [readTook] = await timed(() => untilAllRead(installation));
    const memory = await Promise.all(roles.map(async ({ started }) => (await started.usage()).rss));
    await sleep(10_000);
    const before = await Promise.all(roles.map(({ started }) => started.usage()));
    await sleep(idleMs);
    const after = await Promise.all(roles.map(({ started }) => started.usage()));
    for (const [index, { role, took, started }] of roles.entries()) {
      const cpuMs = (after[index]?.cpuMs ?? 0) - (before[index]?.cpuMs ?? 0);
      const most = Math.max(memory[index] ?? 0, after[index]?.rss ?? 0);
      const [stopTook] = await timed(() => started.close());
      running.splice(running.indexOf(started), 1);
      rows.push([role, seconds(took), megabytes(most), seconds(cpuMs), seconds(stopTook)]);
    }
    console.log(`${sources.toLocaleString('en')} sources with two feeds and a flow each`);
    printTable(rows);
    console.log(`  every feed was read once after ${seconds(readTook)}\n`);
  } finally {
    for (const started of running) await started.close();
    await server.close();
  }
}

/** Nothing is read on schedule but at the start. */
function bridgeOf(url: string, folder: string): Record<string, unknown> {
  const names = Array.from({ length: sources }, (_, index) => `source-${index + 1}`);
  return {
    sources: names.map((name) => ({
      name,
      base_url: url,
      api_key: 'bench',
      poll_seconds: 86_400,
      audit_hours: 0,
      quotas: { enabled: false },
      feeds: ['awards', 'sourcing-events'],
    })),
    flows: names.map((name) => ({
      name: `erp-${name}`,
      source: name,
      connector: 'file',
      settings: { directory: join(folder, 'erp', name) },
    })),
  };
}

async function untilAllRead({ open: { database } }: Installation): Promise<void> {
  const open = 'select count(*)::int as n from bridge.checkpoints where last_pull is null';
  const all = 'select count(*)::int as n from bridge.checkpoints';
  const count = async (statement: string) => (await database.query<{ n: number }>(statement))[0]?.n ?? 0;
  for (const endMs = performance.now() + giveUpMs; performance.now() < endMs; await sleep(500))
    if ((await count(all)) === 2 * sources && (await count(open)) === 0) return;
  throw new Error(`After ${giveUpMs / 60_000} minutes ${await count(open)} feeds have not been read.`);
}

async function timed<Result>(work: () => Promise<Result>): Promise<[number, Result]> {
  const beganMs = performance.now();
  const result = await work();
  return [performance.now() - beganMs, result];
}

const seconds = (ms: number) => `${(ms / 1000).toFixed(1)} s`;
