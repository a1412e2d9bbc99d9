/**
 * How many requests the bridge makes for each change, by quirk: half an hour of a feed with 300 records, some seven
 * changes a minute, a pull every twenty seconds. `npm run docs:requests` prints the table of `docs/checkpoints.md`.
 */
import { expect, test } from 'vitest';
import { startLiveness } from '#bridge/ledger/leases/liveness.ts';
import { silentLogger } from '#platform/log.ts';
import { readMisbehaviour } from '#service/misbehave/misbehaviour.ts';
import { createTestDatabase } from '../../harness/test-database.ts';
import { testClock } from '../parts.ts';
import { HostileSource, seeded } from './hostile-source.ts';
import { startReader } from './reader.ts';

const plain = 'page-size-capped=1000';
const lists = [
  plain,
  'page-numbers',
  'hidden-rows=3',
  'hidden-rows=25',
  'hidden-rows=3,page-size-capped=5,shrinking-pages=20,offsets',
  'unstable-ties,equal-stamps=5',
  'order-random-by-page',
  'order-descending',
  'shrinking-pages=100,page-numbers',
  'cursors-gone',
  'next-loops',
  'no-modified=0.3,page-numbers',
  'declares-order',
  'declares-order,page-numbers',
  'late-commits=20,replica-lag=5',
  'no-rows=0.1',
  'date-behind=120',
];

/** The first reading of 300 records, and the requests for each change after it. */
async function count(list: string): Promise<{ first: number; perChange: number; missing: number }> {
  const db = await createTestDatabase();
  const liveness = await startLiveness({ database: db.database, log: silentLogger });
  try {
    const clock = testClock();
    const { feed } = readMisbehaviour(list);
    const source = new HostileSource({ ...feed, future: false, commitOrdered: false }, clock, seeded(5));
    for (let n = 0; n < 300; n += 1) {
      source.write(`start-${n}`);
      clock.advance(4_000);
    }
    source.writing = false;
    const { client } = source;
    const reader = await startReader({ database: db.database, liveness, client, clock, settings: { page_size: 100 } });
    await reader.pullFor(120);
    // The records without a time, which a process reads beside its pulls.
    await reader.audit();
    const first = source.requests;
    let changes = 0;
    for (let round = 0; round < 90; round += 1) {
      source.writing = true;
      source.live(20, 1 + (round % 4));
      source.writing = false;
      changes += 1 + (round % 4);
      await reader.pull();
    }
    const perChange = (source.requests - first) / changes;
    await reader.pullFor(300);
    const held = await reader.mirror();
    const missing = [...source.state].filter(([id, value]) => held.get(id) !== value).length;
    return { first, perChange, missing };
  } finally {
    await liveness.close();
    await db.drop();
  }
}

test.runIf(process.env['REQUESTS'] === '1')('requests for each change', { timeout: 1_800_000 }, async () => {
  const lines = ['| Quirks | First reading of 300 records | Requests for each change |', '|---|---|---|'];
  for (const list of lists) {
    const { first, perChange, missing } = await count(list);
    lines.push(`| ${list === plain ? 'none' : `\`${list}\``} | ${first} | ${perChange.toFixed(1)} |`);
    expect([list, missing]).toEqual([list, 0]);
  }
  process.stdout.write(`${lines.join('\n')}\n`);
});
