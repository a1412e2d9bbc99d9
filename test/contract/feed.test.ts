import { describe, expect, test } from 'vitest';
import type { z } from 'zod';
import { feedNames, feedPages, feedQueries, feeds, feedsHiddenWhile, missingMeansDeleted } from '#contract/feed.ts';
import { feedOfTrigger, feedTriggers, triggers } from '#contract/webhook.ts';

describe.each(feedNames)('the row of %s in the table of feeds', (feed) => {
  const {
    record,
    event,
    supplier,
    files,
  }: { record: z.ZodObject } & Pick<(typeof feeds)[typeof feed], 'event' | 'supplier' | 'files'> = feeds[feed];

  test('names members that its record has', () => {
    const named = [event, supplier, files].filter((member) => member !== null);
    expect(Object.keys(record.shape)).toEqual(expect.arrayContaining([...named, 'id', 'modified']));
  });

  test('has a trigger that no other feed has, which webhooks may subscribe to', () => {
    expect(triggers.filter((trigger) => trigger === feedTriggers[feed])).toHaveLength(1);
    expect(feedOfTrigger(feedTriggers[feed])).toBe(feed);
  });

  test('has a query and a page with its parameters and its includes', () => {
    const taken = { page_size: '5', ...(feeds[feed].includes[0] ? { include: feeds[feed].includes[0] } : {}) };
    expect(feedQueries[feed].safeParse(taken).data).toMatchObject({ page_size: 5 });
    expect(feedQueries[feed].safeParse({ include: 'nothing' }).success).toBe(false);
    expect(Object.hasOwn(feedPages[feed].shape, 'includes')).toBe(feeds[feed].includes.length > 0);
  });
});

test('a draft hides bids and answers, a deleted event awards, too; an event that is missing was deleted', () => {
  expect(feedsHiddenWhile('DRAFT')).toEqual(['latest-bids', 'rfi-responses']);
  expect(feedsHiddenWhile('DELETED')).toEqual(['latest-bids', 'awards', 'rfi-responses']);
  expect(feedNames.filter(missingMeansDeleted)).toEqual(['sourcing-events', 'awards']);
});

test('the awards trigger is also known by the name that another service gives it', () => {
  expect(feedOfTrigger('AWARD_FEED_UPDATED')).toBe('awards');
  expect(feedOfTrigger('JOB_UPDATED')).toBeUndefined();
});
