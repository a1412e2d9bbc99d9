import { expect, test } from 'vitest';
import { createSqlQuotas } from '#bridge/mirror/source/sql-quotas.ts';
import { createNotificationThrottle } from '#bridge/pull/throttle-notifications.ts';
import { createTestDatabase } from '../../harness/test-database.ts';
import { settingsOf, testClock } from '../parts.ts';

/** How long notifications of a source that allows ten requests a minute wait, after so many requests for awards. */
async function throttleAfter(requests: number, quotas: object = { feeds: { burst: 10, sustained: 1_000 } }) {
  const { database } = await createTestDatabase();
  const clock = testClock();
  const [source] = settingsOf({ quotas }).sources;
  if (!source) throw new Error('no source');
  const counted = createSqlQuotas({ source, database, clock });
  for (let count = 0; count < requests; count += 1) await (await counted.take('feeds.awards')).answered();
  const throttleMs = createNotificationThrottle({ source, database, clock });
  return { awards: await throttleMs('awards'), bids: await throttleMs('latest-bids') };
}

test('no notification waits while half of the quota is left', async () => {
  expect(await throttleAfter(5)).toEqual({ awards: 0, bids: 0 });
});

test('then the rest of the quota is spread over the minute, for each feed by itself', async () => {
  // 4 of 10 are left for the next 60 s.
  expect(await throttleAfter(6)).toEqual({ awards: 15_000, bids: 0 });
  expect(await throttleAfter(10)).toEqual({ awards: 60_000, bids: 0 });
});

test('without limits no notification waits', async () => {
  expect(await throttleAfter(20, { enabled: false })).toEqual({ awards: 0, bids: 0 });
});
