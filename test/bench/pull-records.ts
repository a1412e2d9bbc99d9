/**
 * Pulling a feed's records into the mirror, as the bridge does it (versions, documents marked for a flow, watermark, one
 * transaction a page under the lease), against a loop as one writes it by hand: fetch a page, upsert its records into a
 * plain table by one INSERT of many rows, go on. Both read the same bytes from the same process, in turns. They do not
 * store the same: for a record, the loop writes one row with one index; the bridge writes one with three, and its hash.
 * It also marks the documents of awards as due (one for ten awards here), writes the names of an event and its suppliers
 * (one row with one index for an event here, and one with two for each of 3,000 suppliers), and the watermark.
 * BENCH_RECORDS: how many instead of 100,000.
 */
import { Client } from 'pg';
import type { Installation } from '#cli/installation.ts';
import { median, megabytes, printTable } from './figures.ts';
import { noteGoal } from './goals.ts';
import { type MirrorPull, openMirrorPull } from './mirror-pull.ts';
import { startPageServer } from './page-server.ts';

const records = Number(process.env['BENCH_RECORDS'] ?? 100_000);
const pageSize = 1_000;
const rounds = 5;

/** Runs it; prints records per second on both sides and their ratio, and the CPU time of this process for one record (which
 * neighbours on the machine disturb less), for two feeds, and with everything known already. */
export async function benchPullRecords(installation: Installation): Promise<void> {
  const server = await startPageServer();
  const loop = new Client({ connectionString: installation.open.url });
  await loop.connect();
  const rows = [['', 'bridge', 'loop', 'bridge : loop', 'CPU each', 'CPU loop']];
  const row = (name: string, { bridge, loop }: Turns) => [
    name,
    ...[bridge, loop].map(
      (each) => `${Math.round((records / median(each.map(elapsedOf))) * 1000).toLocaleString('en')}/s`,
    ),
    ratioOf({ bridge, loop }).toFixed(2),
    ...[bridge, loop].map((each) => `${((median(each.map(({ cpuMs }) => cpuMs)) / records) * 1000).toFixed(1)} µs`),
  ];
  const rssBefore = process.memoryUsage.rss();
  try {
    await loop.query(
      'create table public.plain (id text primary key, modified timestamptz not null, body text not null)',
    );
    for (const feed of ['awards', 'sourcing-events'] as const) {
      await server.serve({ feed, from: 0, to: records, pageSize });
      const mirror = await openMirrorPull(installation, server.url, feed);
      const first: Turns = { bridge: [], loop: [] };
      const again: Turns = { bridge: [], loop: [] };
      try {
        for (let round = -1; round < rounds; round += 1)
          await takeTurns(mirror, loop, `${server.url}/api/feeds/${feed}?page_size=${pageSize}`, round, first, again);
      } finally {
        // It holds a connection: an installation that is closed before would wait for it, and the error never be seen.
        await mirror.close();
      }
      rows.push(row(`${feed}, new`, first), row(`${feed}, known`, again));
      noteGoal({ name: `pull of new ${feed} : loop by hand`, measured: ratioOf(first), least: 0.3 });
      noteGoal({ name: `pull of known ${feed} : loop by hand`, measured: ratioOf(again), least: 1 });
    }
    console.log(
      `Pulling ${records.toLocaleString('en')} records in pages of ${pageSize}, against fetch and INSERT of many rows`,
    );
    printTable(rows);
    console.log(`  memory ${megabytes(rssBefore)} before, ${megabytes(process.memoryUsage.rss())} after\n`);
  } finally {
    await loop.end();
    await server.close();
  }
}

interface Turn {
  readonly elapsedMs: number;
  /** Of this process; the database's is not in it. */
  readonly cpuMs: number;
}

interface Turns {
  readonly bridge: Turn[];
  readonly loop: Turn[];
}

/** How much faster the bridge is. */
function ratioOf({ bridge, loop }: Turns): number {
  return median(loop.map((each, round) => elapsedOf(each) / elapsedOf(bridge[round])));
}

function elapsedOf(turn: Turn | undefined): number {
  return turn?.elapsedMs ?? Number.NaN;
}

async function measure(run: () => Promise<number>): Promise<Turn> {
  const before = process.cpuUsage();
  const elapsedMs = await run();
  const { user, system } = process.cpuUsage(before);
  return { elapsedMs, cpuMs: (user + system) / 1000 };
}

/** The first round, numbered -1, only warms up. */
async function takeTurns(
  mirror: MirrorPull,
  loop: Client,
  url: string,
  round: number,
  first: Turns,
  again: Turns,
): Promise<void> {
  await loop.query('truncate public.plain');
  await mirror.clear();
  for (const turns of [first, again]) {
    await mirror.forget();
    const ofBridge = await measure(() => mirror.pull(records));
    const ofLoop = await measure(() => runLoop(loop, url));
    if (round < 0) continue;
    turns.bridge.push(ofBridge);
    turns.loop.push(ofLoop);
  }
}

interface Page {
  data: { id: string; modified: string }[];
  next: string | null;
}

/** Gives the milliseconds. */
async function runLoop(client: Client, firstUrl: string): Promise<number> {
  const began = performance.now();
  for (let url: string | null = firstUrl; url !== null; ) {
    const page = (await (await fetch(url)).json()) as Page;
    const places = page.data.map((_, index) => `($${index * 3 + 1}, $${index * 3 + 2}, $${index * 3 + 3})`);
    await client.query(
      `insert into public.plain (id, modified, body) values ${places.join(', ')}
       on conflict (id) do update set modified = excluded.modified, body = excluded.body`,
      page.data.flatMap((record) => [record.id, record.modified, JSON.stringify(record)]),
    );
    url = page.next;
  }
  return performance.now() - began;
}
