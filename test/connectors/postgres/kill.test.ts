import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { once } from 'node:events';
import type { Readable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { Client } from 'pg';
import { expect, test } from 'vitest';
import { systemClock } from '#platform/clock.ts';
import { startEmbeddedPostgres } from '#platform/database/embedded-postgres.ts';
import { silentLogger } from '#platform/log.ts';
import { killPostgres } from '../../faults/kill-postgres.ts';
import { seededRandom } from '../../faults/seeded-random.ts';
import { startTcpProxy } from '../../faults/tcp-proxy.ts';
import { closeAtEnd } from '../../harness/close-at-end.ts';
import { scratchFolder } from '../../harness/scratch-folder.ts';

/** Every other round also kills the database. POSTGRES_KILLS=50 runs more rounds. */
const rounds = Number(process.env['POSTGRES_KILLS'] ?? 1);
const random = seededRandom(Number(process.env['PROPERTY_SEED'] ?? 1));

test('after kills of writers and database at random moments, each key has one row with its parts of the same version, and no acknowledged version is lost', {
  timeout: 60_000 + rounds * 15_000,
}, async () => {
  const dataDir = await scratchFolder();
  // Connects to the running server, or starts it again, perhaps on another port.
  const start = async () => {
    const server = await startEmbeddedPostgres({ dataDir, log: silentLogger });
    closeAtEnd(() => server.stop());
    return new URL(server.url);
  };
  const url = await start();
  const proxy = await startTcpProxy([Number(url.port)]);
  url.port = String(proxy.port);
  let acknowledged = 0;
  for (let round = 0; round < rounds; round += 1) {
    const writer = startWriter(url.href, acknowledged + 1);
    const progress = async (versions: number) => {
      const until = Math.max(writer.last(), acknowledged) + versions;
      await expect.poll(() => writer.failed() ?? writer.last() >= until, { timeout: 30_000 }).toBe(true);
    };
    await progress(2);
    await systemClock.sleep(random.upTo(60));
    if (round % 2 === 1) {
      // The writer reconnects by itself.
      await killPostgres(dataDir);
      proxy.targets = [Number((await start()).port)];
      await progress(2);
    }
    writer.kill();
    await writer.ended;
    acknowledged = Math.max(acknowledged, writer.last());
    await expectComplete(url.href, acknowledged);
  }
});

function startWriter(url: string, first: number) {
  const child: ChildProcessByStdio<null, Readable, Readable> = spawn(
    process.execPath,
    [fileURLToPath(new URL('./writer-process.ts', import.meta.url)), url, String(first)],
    { stdio: ['ignore', 'pipe', 'pipe'] },
  );
  let last = 0;
  let errors = '';
  child.stderr.on('data', (chunk) => {
    errors += String(chunk);
  });
  child.stdout.on('data', (chunk) => {
    last = Math.max(last, ...String(chunk).trim().split('\n').map(Number));
  });
  const ended = once(child, 'close');
  closeAtEnd(async () => {
    child.kill('SIGKILL');
    await ended;
  });
  return {
    ended,
    last: () => last,
    failed: () => (child.exitCode === null ? undefined : errors),
    kill: () => child.kill('SIGKILL'),
  };
}

/** Waits until no transaction of a killed writer is left, then checks that each award is complete. */
async function expectComplete(url: string, acknowledged: number): Promise<void> {
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    await expect
      .poll(async () => {
        const { rows } = await client.query(`select from pg_stat_activity where application_name = 'sourcing-bridge'`);
        return rows.length;
      })
      .toBe(0);
    const { rows } = await client.query(
      `select a.key, a.total_cost,
         array_agg(distinct l.cost::text) as costs, count(distinct l.line)::int as lines,
         array_agg(distinct v.value) as values, count(*)::int as cells,
         (select count(*)::int from sourcing.document_history h where h.key = a.key) as history,
         a.version::int as version,
         (select h.document ->> 'total_cost' from sourcing.document_history h where h.key = a.key order by version desc limit 1) as newest
       from sourcing.award a left join sourcing.award_line l using (key) left join sourcing.award_value v using (key, line)
       group by a.key, a.total_cost, a.version`,
    );
    expect(rows).toHaveLength(30);
    for (const row of rows) {
      const version = Number(row.total_cost);
      expect(version).toBeGreaterThanOrEqual(acknowledged);
      expect(row).toMatchObject({
        costs: [`${version}`],
        values: [`${version}`],
        newest: `${version}`,
        lines: 1 + (version % 4),
        cells: (1 + (version % 4)) * (1 + (version % 3)),
        history: row.version,
      });
    }
  } finally {
    await client.end();
  }
}
