import { beforeEach, expect, test } from 'vitest';
import { createFeedWatch } from '#bridge/pull/watch-feeds.ts';
import { createLogger } from '#platform/log.ts';
import { createTestDatabase, type TestDatabase } from '../../harness/test-database.ts';
import { settingsOf, type TestClock, testClock } from '../parts.ts';

/** The time of the test clock is 2030-01-01T00:00:00Z. */
let db: TestDatabase;
let clock: TestClock;
let lines: { msg: string; feed: string; state: string }[];
let look: () => Promise<string[]>;

beforeEach(async () => {
  db = await createTestDatabase();
  clock = testClock();
  lines = [];
  const watch = createFeedWatch({
    database: db.database,
    log: createLogger({
      level: 'info',
      name: 'test',
      destination: { write: (line) => void lines.push(JSON.parse(line) as never) },
    }),
    clock,
    settings: settingsOf({ feeds: ['awards'], poll_seconds: 300 }),
  });
  /** The lines of one look, half a minute after the one before. */
  look = async () => {
    lines = [];
    await watch();
    clock.advance(30_000);
    return lines.map(({ msg }) => msg);
  };
  await db.database.query(
    `insert into bridge.checkpoints (source, feed, watermark, next_pull, last_pull, source_profile)
     values ('main', 'awards', '2029-12-31T23:59:00Z', '2030-01-01T00:05:00Z', '2029-12-31T23:59:30Z', '{"orderProved": "2029-12-31T00:00:00.000000Z"}')`,
  );
});

const announce = () =>
  db.database.query(
    "insert into bridge.inbox (source, trigger, feed, body, received) values ('main', 't', 'awards', '{}', '2030-01-01Z')",
  );
const pulled = (at: string) => db.database.query('update bridge.checkpoints set last_pull = $1', [at]);

test('a feed that is read between two looks is not behind, although notifications wait at each', async () => {
  await announce();
  expect(await look()).toEqual([]);
  await announce();
  await pulled('2030-01-01T00:00:20Z');
  expect(await look()).toEqual([]);
  await pulled('2030-01-01T00:00:50Z');
  expect(await look()).toEqual([]);
});

test('notifications that no pull answers from one look to the next put it behind, once, until it is read', async () => {
  await announce();
  expect(await look()).toEqual([]);
  expect(await look()).toEqual(['feed behind: 1 notification to answer']);
  expect(await look()).toEqual([]);
  await db.database.query('update bridge.checkpoints set answered = (select max(id) from bridge.inbox)');
  await pulled('2030-01-01T00:01:10Z');
  expect(await look()).toEqual(['feed in step again']);
});

test('a pull that failed puts it behind at the first look, whether notifications wait or not', async () => {
  await announce();
  await db.database.query("update bridge.checkpoints set failures = 1, last_error = 'refused'");
  expect(await look()).toEqual([expect.stringMatching(/^feed behind: the last pull failed, .*: refused$/)]);
});
