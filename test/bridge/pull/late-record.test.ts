/** The table of `docs/checkpoints.md`: a record that is committed after a newer one was read. */
import { expect, test } from 'vitest';
import { startLiveness } from '#bridge/ledger/leases/liveness.ts';
import type { FeedPage } from '#client/source-client.ts';
import { silentLogger } from '#platform/log.ts';
import { createTestDatabase } from '../../harness/test-database.ts';
import { testClock } from '../parts.ts';
import { type FeedQuery, ListSource } from './list-source.ts';
import { startReader } from './reader.ts';

test('a record that is committed late is found before the watermark passes it', async () => {
  const db = await createTestDatabase();
  const liveness = await startLiveness({ database: db.database, log: silentLogger });
  const clock = testClock();
  clock.advance(10 * 3_600_000);
  const source = new ListSource(clock);
  source.put('A', 1, 20);
  source.put('B', 1, 10);
  const secondOf = (time: string | null | undefined) => time?.slice(11, 19);
  /** What was asked for, and what was shown. */
  const answers: { at: FeedQuery; ids: string }[] = [];
  const client = {
    readFeed: async (...args: Parameters<typeof source.client.readFeed>): Promise<FeedPage> => {
      const page = await source.client.readFeed(...args);
      answers.push({ at: args[1], ids: page.records.map(({ id }) => String(id)).join('') });
      return page;
    },
  };
  const settings = { page_size: 100, poll_seconds: 3_600 };
  const reader = await startReader({ database: db.database, liveness, client, clock, settings });

  const pullAfter = async (seconds: number) => {
    clock.advance(seconds * 1_000);
    answers.length = 0;
    await db.database.query("update bridge.checkpoints set next_pull = 'epoch'");
    await reader.pull();
    const [live, ...windows] = answers;
    if (!live || 'next' in live.at) throw new Error('a live read begins without next');
    const row = await reader.readRow<{ bound: string | null }>(
      "select first_seen ->> 'bound' as bound from bridge.checkpoints where source = $1",
    );
    return [
      secondOf(live.at.modifiedAfter),
      live.ids,
      secondOf(row?.bound),
      windows.map(({ ids }) => ids).join(' '),
      secondOf((await reader.checkpoint()).watermark),
    ];
  };

  clock.advance(10_000);
  source.put('C', 1);
  expect(await pullAfter(5), '10:00:15').toEqual([undefined, 'ABC', undefined, '', undefined]);
  clock.advance(7_000);
  source.put('E', 1);
  expect(await pullAfter(3), '10:00:25').toEqual(['10:00:09', 'CE', undefined, '', undefined]);
  clock.advance(13_000);
  source.put('D', 1, 18);
  expect(await pullAfter(7), '10:00:45').toEqual(['10:00:21', 'E', '10:00:10', 'A ABC', '10:00:10']);
  expect((await reader.mirror()).has('D')).toBe(false);
  expect(await pullAfter(30), '10:01:15').toEqual(['10:00:09', 'CDE', '10:00:22', '', '10:00:22']);
  expect((await reader.mirror()).has('D')).toBe(true);
  expect([...source.rows].map(([id, { modified }]) => [id, secondOf(modified)])).toEqual([
    ['A', '09:59:40'],
    ['B', '09:59:50'],
    ['C', '10:00:10'],
    ['E', '10:00:22'],
    ['D', '10:00:20'],
  ]);
  await liveness.close();
  await db.drop();
});
