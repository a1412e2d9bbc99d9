import { expect, test } from 'vitest';
import { createNotificationThrottle } from '#bridge/pull/throttle-notifications.ts';
import { createMemoryQuotas } from '#client/memory-quotas.ts';
import { settingsOf, testClock } from '../parts.ts';

/** How long notifications of a source that allows 60 requests a minute wait, after so many requests for awards. */
async function throttleAfter(requests: number, enabled = true) {
  const [source] = settingsOf({ quotas: { enabled } }).sources;
  if (!source) throw new Error('no source');
  const quotas = createMemoryQuotas(testClock());
  for (let count = 0; count < requests; count += 1) await quotas.take('feeds.awards');
  const throttleMs = createNotificationThrottle(source, quotas);
  return { awards: throttleMs('awards'), bids: throttleMs('latest-bids') };
}

test('no notification waits while half of the quota is left', async () => {
  expect(await throttleAfter(30)).toEqual({ awards: 0, bids: 0 });
});

test('then the rest of the quota is spread over the minute, for each feed by itself', async () => {
  // 20 of 60 are left for the next 60 s.
  expect(await throttleAfter(40)).toEqual({ awards: 3_000, bids: 0 });
  expect(await throttleAfter(60)).toEqual({ awards: 60_000, bids: 0 });
});

test('without limits no notification waits', async () => {
  expect(await throttleAfter(60, false)).toEqual({ awards: 0, bids: 0 });
});
