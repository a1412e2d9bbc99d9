import { expect, test } from 'vitest';
import { feedNames, feedsHiddenWhile, missingMeansDeleted } from '#contract/feed.ts';
import { feedOfTrigger } from '#contract/webhook.ts';

test('a draft hides bids and answers, a deleted event awards, too; an event that is missing was deleted', () => {
  expect(feedsHiddenWhile('DRAFT')).toEqual(['latest-bids', 'rfi-responses']);
  expect(feedsHiddenWhile('DELETED')).toEqual(['latest-bids', 'awards', 'rfi-responses']);
  expect(feedNames.filter(missingMeansDeleted)).toEqual(['sourcing-events', 'awards']);
});

test('the awards trigger is also known by the name that another service gives it', () => {
  expect(feedOfTrigger('AWARD_FEED_UPDATED')).toBe('awards');
  expect(feedOfTrigger('JOB_UPDATED')).toBeUndefined();
});
