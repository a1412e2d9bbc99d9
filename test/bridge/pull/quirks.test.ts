/**
 * The quirks of feeds that once lost records, each alone and combined with late commits, lagging replicas, refusals and
 * kills: the promise of the watermark holds after each pull, and in the end the mirror holds what the source does.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Liveness, startLiveness } from '#bridge/ledger/leases/liveness.ts';
import { silentLogger } from '#platform/log.ts';
import { readMisbehaviour } from '#service/misbehave/misbehaviour.ts';
import { createTestDatabase, type TestDatabase } from '../../harness/test-database.ts';
import { testClock } from '../parts.ts';
import { HostileSource, seeded } from './hostile-source.ts';
import { startReader } from './reader.ts';

let db: TestDatabase;
let liveness: Liveness;

beforeAll(async () => {
  db = await createTestDatabase();
  liveness = await startLiveness({ database: db.database, log: silentLogger });
});
afterAll(async () => {
  await liveness.close();
  await db.drop();
});

interface Story {
  /** So many records are there at the start, in one instant if `bulk`. */
  readonly records?: number;
  readonly bulk?: boolean;
  readonly pageSize?: number;
  readonly kills?: boolean;
  readonly seed?: number;
  /** Combined with faults in every run of all tests; the others by `npm run test:quirks`. */
  readonly always?: boolean;
}

/** So often the feed is pulled while the source misbehaves, and again after that. */
const rounds = process.env['QUIRKS'] === 'all' ? 7 : 3;

/** Plays a story; after each pull, all that is stamped up to the watermark must be in the mirror. */
async function play(quirks: string, { records = 30, bulk = false, pageSize = 8, kills = false, seed = 7 }: Story = {}) {
  const clock = testClock();
  const random = seeded(seed);
  const { feed } = readMisbehaviour(quirks);
  const source = new HostileSource({ ...feed, future: false, commitOrdered: false }, clock, random);
  const names = Array.from({ length: records }, (_, n) => `start-${n}`);
  for (const name of names) {
    source.write(name);
    if (!bulk) clock.advance(2_100);
  }
  const { client } = source;
  const reader = await startReader({
    database: db.database,
    liveness,
    client,
    clock,
    settings: { page_size: pageSize },
  });
  const check = async () => {
    const { watermark } = await reader.checkpoint();
    const held = await reader.mirror();
    for (const [id, value] of source.stateUpTo(watermark ?? '')) expect([id, held.get(id)]).toEqual([id, value]);
  };
  for (let round = 0; round < rounds; round += 1) {
    source.writing = true;
    source.live(25, 5);
    // Each record brings as many hidden rows that no reading would ever come to the end of them.
    source.writing = feed.hiddenRun === 0;
    const killed = new AbortController();
    const last = kills && random() < 0.4 ? source.requests + 1 + Math.floor(random() * 8) : Number.POSITIVE_INFINITY;
    source.onRequest = () => {
      if (source.requests > last) killed.abort(new Error('killed'));
    };
    await reader.pull(killed.signal);
    await reader.audit();
    await check();
  }
  source.onRequest = () => undefined;
  source.writing = false;
  source.calm = true;
  // A pull that failed waits for five minutes at most.
  source.live(360, 0);
  for (let round = 0; round < rounds; round += 1) {
    source.live(45, 0);
    await reader.pull();
    await reader.audit();
    await check();
  }
  expect(await reader.mirror()).toEqual(source.state);
  return { reader, source, checkpoint: await reader.checkpoint() };
}

/** What some minutes of calm must bring. */
const caughtUp = { failures: 0, last_error: null, stalled_why: null };

const alone: [string, Story][] = [
  ['hidden-rows=10', { records: 16, always: true }],
  ['hidden-rows,page-numbers', { records: 8 }],
  ['hidden-rows=3,page-size-capped=5,shrinking-pages=20,offsets', { records: 16 }],
  ['equal-stamps=60,unstable-ties,page-numbers', { records: 40, bulk: true, always: true }],
  ['equal-stamps=60,order-random-by-page,offsets', { records: 30, bulk: true }],
  ['equal-stamps=60,order-random', { records: 60, bulk: true }],
  ['shrinking-pages,page-numbers', { always: true }],
  ['shrinking-pages=3,page-numbers,stamps-milliseconds', { records: 60 }],
  ['cursors-gone', { records: 80, always: true }],
  ['cursors-refused=1', { records: 80 }],
  ['cursors-gone=1,order-descending', { records: 60 }],
  ['hidden-rows=7,cursors-refused=3', { records: 6, pageSize: 2 }],
  ['declares-order,page-numbers', { records: 40 }],
  ['declares-order,order-descending', { always: true }],
  ['declares-order,unstable-ties,equal-stamps', {}],
  ['declares-order,cursors-gone', { records: 80 }],
  ['declares-order,cursors-refused=1', { records: 4, pageSize: 50 }],
  ['next-missing', { always: true }],
  ['next-loops', { pageSize: 50 }],
  ['page-size-drops,paging-changes', {}],
];

/** With late commits, this feed keeps its declared order whenever it is asked, and breaks it behind the watermark: only an
 * audit can find that. */
const isHonest = ([quirks]: [string, Story]) => quirks !== 'declares-order,cursors-gone';
const withFaults = alone.filter(([, { always }]) => always || process.env['QUIRKS'] === 'all').filter(isHonest);

describe('nothing is lost, and the watermark moves on', () => {
  test.each(alone)('%s', async (quirks, story) => {
    const { checkpoint, source } = await play(quirks, story);
    expect(checkpoint).toMatchObject(caughtUp);
    expect(source.stateUpTo(checkpoint.watermark ?? '')).toEqual(source.state);
  });

  test.each(withFaults)(
    '%s, with late commits, lagging replicas, 429, errors, cut connections, answers without rows and kills',
    async (quirks, story) => {
      const faults = 'too-many=0.03,server-errors=0.03,cut=0.02,no-rows=0.05,late-commits=10,replica-lag=5';
      const { checkpoint } = await play(`${quirks},${faults}`, { ...story, kills: true, seed: 11 });
      expect(checkpoint).toMatchObject(caughtUp);
    },
  );
});

test('an order that is broken behind the watermark is found by an audit, and the feed is read in windows from then on', async () => {
  const clock = testClock();
  const { feed } = readMisbehaviour('declares-order,late-commits=20');
  const source = new HostileSource({ ...feed, future: false, commitOrdered: false }, clock, seeded(3));
  for (let n = 0; n < 20; n += 1) source.write(`start-${n}`);
  const { client } = source;
  const settings = { page_size: 8, audit_hours: 1 };
  const reader = await startReader({ database: db.database, liveness, client, clock, settings });
  for (let round = 0; round < 10; round += 1) {
    source.live(10, 4);
    await reader.pull();
  }
  source.writing = false;
  await reader.pullFor(60);
  const before = await reader.checkpoint();
  expect(before.source_profile).toHaveProperty('orderProved');
  expect(await reader.mirror(), 'the declared order has lost records').not.toEqual(source.state);
  // The first audit comes an hour after the first look for one.
  await reader.audit();
  clock.advance(3_700_000);
  await reader.audit();
  await reader.pullFor(120);
  expect(await reader.mirror()).toEqual(source.state);
  const after = await reader.checkpoint();
  expect(after.source_profile).not.toHaveProperty('orderProved');
  expect(after.source_profile.orderBroken).toEqual(expect.any(String));
  expect(after.source_profile.orderBrokenWhy).toMatch(/^an audit has found \d+ records or changes/);
  expect(source.stateUpTo(after.watermark ?? '')).toEqual(source.state);
});

test('a newer record is read although the newest stamp fills the only page that can be read', async () => {
  const clock = testClock();
  const { feed } = readMisbehaviour('cursors-refused=1,stamps-seconds');
  const source = new HostileSource({ ...feed, future: false, commitOrdered: false }, clock, seeded(7));
  for (let n = 0; n < 8; n += 1) source.write(`crowd-${n}`);
  source.writing = false;
  const { client } = source;
  const reader = await startReader({ database: db.database, liveness, client, clock, settings: { page_size: 8 } });
  await reader.pullFor(240);
  expect(source.stateUpTo((await reader.checkpoint()).watermark ?? '')).toEqual(source.state);
  source.write('later');
  clock.advance(70_000);
  await reader.pull();
  expect(await reader.mirror()).toEqual(source.state);
  await reader.pullFor(240);
  expect(await reader.checkpoint()).toMatchObject(caughtUp);
  expect(source.stateUpTo((await reader.checkpoint()).watermark ?? '')).toEqual(source.state);
});

describe('records without a time', () => {
  test.each([
    ['no-modified=0.4,page-numbers', 1],
    ['no-modified=0.4,offsets,order-random', 2],
    ['no-modified=0.4,page-numbers,shrinking-pages', 3],
    ['no-modified=0.1,page-numbers,order-descending', 4],
  ])('%s: pages that shift while they are read skip none of them', async (quirks, seed) => {
    const { reader } = await play(quirks, { records: 60, seed });
    expect((await reader.lastOf('untimed'))?.['finished']).not.toBeNull();
  });

  test('may be missing while pages break off again and again: the checkpoint says so, and all others are read', async () => {
    const { reader } = await play('cursors-gone', { records: 60 });
    expect(await reader.lastOf('untimed')).toMatchObject({
      finished: null,
      last_error: expect.stringContaining('answered with 410'),
    });
  });
});
