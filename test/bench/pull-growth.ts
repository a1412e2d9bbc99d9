/**
 * Pulling new records into a mirror that holds 10,000 already, and into one that holds 1,000,000: two databases, in turns.
 * And whether memory grows with what was pulled. BENCH_HELD: how many instead of 1,000,000.
 */
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import type { Installation } from '#cli/installation.ts';
import { systemClock, timestampNow } from '#platform/clock.ts';
import { withInstallation } from './bench-installation.ts';
import { bodiesOf, stampOf } from './bench-records.ts';
import { median, megabytes, printTable } from './figures.ts';
import { type MirrorPull, openMirrorPull } from './mirror-pull.ts';
import { startPageServer } from './page-server.ts';

const few = 10_000;
const many = Number(process.env['BENCH_HELD'] ?? 1_000_000);
const recordsPerRound = 10_000;
const pageSize = 1_000;
const warmUps = 2;
const rounds = 9;
const feed = 'awards';

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

/** Runs it; prints records per second at both sizes and their ratio, and the memory after a collection. */
export async function benchPullGrowth(installation: Installation): Promise<void> {
  const server = await startPageServer();
  try {
    await withInstallation(async (other) => {
      const small: Turns = { held: few, mirror: await fill(installation, few, server.url), times: [] };
      const large: Turns = { held: many, mirror: await fill(other, many, server.url), times: [] };
      let memoryBefore = memory();
      for (let round = -warmUps; round < rounds; round += 1) {
        if (round === 0) memoryBefore = memory();
        const first = many + (round + warmUps) * recordsPerRound;
        await server.serve({ feed, from: first, to: first + recordsPerRound, pageSize });
        for (const turns of [small, large]) {
          await turns.mirror.forget();
          turns.held += recordsPerRound;
          const elapsedMs = await turns.mirror.pull(turns.held);
          if (round >= 0) turns.times.push(elapsedMs);
        }
      }
      const perSecond = (times: readonly number[]) =>
        `${Math.round((recordsPerRound / median(times)) * 1000).toLocaleString('en')}/s`;
      console.log(`Pulling ${recordsPerRound.toLocaleString('en')} new records into a mirror that holds many already`);
      printTable([
        [few.toLocaleString('en'), many.toLocaleString('en'), 'many : few'],
        [
          perSecond(small.times),
          perSecond(large.times),
          median(small.times.map((each, round) => each / (large.times[round] ?? Number.NaN))).toFixed(2),
        ],
      ]);
      const pulled = 2 * rounds * recordsPerRound;
      const after = memory();
      console.log(
        `  memory after a collection: ${memoryBefore.text} before, ${after.text} after ${pulled.toLocaleString('en')} records\n`,
      );
      await small.mirror.close();
      await large.mirror.close();
    });
  } finally {
    await server.close();
  }
}

interface Turns {
  held: number;
  readonly mirror: MirrorPull;
  readonly times: number[];
}

function memory(): { text: string } {
  collectGarbage();
  const { heapUsed, rss } = process.memoryUsage();
  return { text: `${megabytes(heapUsed)} heap, ${megabytes(rss)} resident` };
}

/** A mirror that holds the records before the first that is pulled. */
async function fill(installation: Installation, count: number, baseUrl: string): Promise<MirrorPull> {
  const mirror = await openMirrorPull(installation, baseUrl, feed);
  const { database } = installation.open;
  const [template = ''] = bodiesOf(feed, 0, 1);
  const { id } = JSON.parse(template) as { id: string };
  await database.query(
    `insert into bridge.mirror (source, feed, record_id, modified, content_hash, sourcing_event, body, seen)
     select 'main', $1, id, $2::timestamptz + n * interval '1 ms', sha256(id::bytea),
       '00000000-0000-4000-9000-' || lpad(to_hex(n / 50), 12, '0'), replace($3, $4, id), $5
     from (select n, '00000000-0000-4000-8000-' || lpad(to_hex(n), 12, '0') as id
           from generate_series($6::int, $7::int) n) as record`,
    [feed, stampOf(0), template, id, timestampNow(systemClock), many - count, many - 1],
  );
  await database.query('vacuum analyze bridge.mirror');
  // What was filled in is written out now, not while the pull is measured.
  await database.query('checkpoint');
  return mirror;
}
