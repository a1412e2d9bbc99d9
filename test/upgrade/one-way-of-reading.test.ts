/** What a bridge has learnt of its feeds, and the audits that it owes, are kept by the migration to one way of reading. */
import { expect, test } from 'vitest';
import { migrateBridge } from '#bridge/migrate-bridge.ts';
import { databaseAt } from './database-at.ts';

const at = (day: number) => `2026-05-${String(day).padStart(2, '0')}T03:02:01.000001Z`;

test('the state of each feed is found in its profile, its first-seen times and its backfills', async () => {
  const db = await databaseAt('bridge', '047');
  await db.database.query(`
    insert into bridge.checkpoints (source, feed, watermark, next_pull, last_pull, commit_ordered, order_proved, order_broken,
        order_broken_why, lateness_ms, source_profile, first_seen_bound, unfiltered, audited, fully_audited, audit_asked, warning)
      values
        ('ordered', 'awards', '${at(20)}', '${at(21)}', '${at(21)}', true, '${at(2)}', null, null, null,
          '{"includes":[],"pageSize":50,"paging":"cursor","boundsMicros":1}', null, null, null, null, null, null),
        ('late', 'awards', '${at(20)}', '${at(21)}', '${at(21)}', false, null, '${at(3)}', 'B before A', 120000,
          '{"granularityMicros":1000,"includes":["suppliers"]}', '${at(19)}', '${at(4)}', '${at(12)}', '${at(10)}',
          '${at(20)}', 'half of it is gone'),
        ('busy', 'awards', '${at(20)}', '${at(21)}', '${at(21)}', false, null, null, null, null, null, null, null,
          null, null, '${at(20)}', null),
        ('new', 'awards', null, '${at(21)}', null, null, null, null, null, null, null, null, null, null, null, null, null);
    insert into bridge.backfills (source, feed, kind, range_start, range_end, asked, next_try, finished)
      values ('late', 'awards', 'full', 'epoch', '${at(8)}', '${at(8)}', '${at(8)}', '${at(8)}'),
        ('late', 'awards', 'full', 'epoch', '${at(10)}', '${at(10)}', '${at(10)}', '${at(10)}'),
        ('late', 'awards', 'audit', '${at(11)}', '${at(12)}', '${at(12)}', '${at(12)}', '${at(12)}'),
        ('busy', 'awards', 'full', 'epoch', '${at(19)}', '${at(19)}', '${at(19)}', null)`);

  await migrateBridge(db.database);

  expect(
    await db.database.query(`select source, watermark, source_profile as profile, first_seen as "firstSeen"
      from bridge.checkpoints order by source`),
  ).toEqual([
    { source: 'busy', watermark: at(20), profile: {}, firstSeen: {} },
    {
      source: 'late',
      watermark: at(20),
      profile: {
        granularityMicros: 1_000,
        includes: ['suppliers'],
        latenessMs: 120_000,
        orderBroken: at(3),
        orderBrokenWhy: 'B before A',
      },
      firstSeen: { bound: at(19) },
    },
    { source: 'new', watermark: null, profile: {}, firstSeen: {} },
    {
      source: 'ordered',
      watermark: at(20),
      profile: { includes: [], pageSize: 50, orderProved: at(2) },
      firstSeen: {},
    },
  ]);
  // The intervals of the audits count from the last ones.
  expect(
    await db.database.query(`select source, created from bridge.checkpoints where source <> 'new' order by source`),
  ).toEqual([
    { source: 'busy', created: at(21) },
    { source: 'late', created: at(10) },
    { source: 'ordered', created: at(21) },
  ]);
  const begin = '1970-01-01T00:00:00.000000Z';
  expect(
    await db.database.query(`select source, kind, range_start as "from", range_end as "to", finished, warning
      from bridge.backfills order by source, id`),
  ).toEqual([
    { source: 'busy', kind: 'full', from: begin, to: at(19), finished: null, warning: null },
    { source: 'busy', kind: 'untimed', from: begin, to: begin, finished: null, warning: null },
    { source: 'late', kind: 'full', from: begin, to: at(8), finished: at(8), warning: null },
    { source: 'late', kind: 'full', from: begin, to: at(10), finished: at(10), warning: 'half of it is gone' },
    { source: 'late', kind: 'audit', from: at(11), to: at(12), finished: at(12), warning: null },
    { source: 'late', kind: 'untimed', from: begin, to: begin, finished: at(4), warning: null },
    { source: 'late', kind: 'full', from: begin, to: at(20), finished: null, warning: null },
  ]);
});
