/** Whether a record is as the contract documents it, by the schema of its feed. */
import type { z } from 'zod';
import { type FeedName, feeds, ofEachFeed } from '#contract/feed.ts';
import { pathText } from '#platform/input.ts';

/** Without `modified`: it was read before, and a record may have none. */
const schemas = ofEachFeed((feed): z.ZodType => {
  const { essentials }: { essentials: z.ZodObject } = feeds[feed];
  return essentials.omit({ modified: true });
});

/** Returns the first thing that is wrong with the record; undefined where the record is as documented. */
export function faultOfRecord(feed: FeedName, record: Readonly<Record<string, unknown>>): string | undefined {
  const [issue] = schemas[feed].safeParse(record).error?.issues ?? [];
  return issue && `${pathText(issue.path)} ${issue.message}`;
}
