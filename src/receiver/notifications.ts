/** The notifications by trigger, with the type of each payload. Source: API document, "Events". */
import type { z } from 'zod';
import { type FeedName, feedNames } from '#contract/feed.ts';
import type { Timestamp } from '#contract/timestamp.ts';
import {
  feedNotificationPayload,
  feedOfTrigger,
  feedTriggers,
  jobNotificationPayload,
  testNotificationPayload,
} from '#contract/webhook.ts';

/** Members may be missing: the documents show hardly a payload, and a refused notification would come again for days. */
const feedPayload = feedNotificationPayload.partial();

const payloadSchemas = {
  ...(Object.fromEntries(feedNames.map((feed) => [feedTriggers[feed], feedPayload])) as {
    readonly [Feed in FeedName as (typeof feedTriggers)[Feed]]: typeof feedPayload;
  }),
  JOB_UPDATED: jobNotificationPayload.partial(),
  TEST: testNotificationPayload.partial(),
};

/** The triggers of the documents. */
export type KnownTrigger = keyof typeof payloadSchemas;

/** The trigger by the name of the documents: another service says AWARD_FEED_UPDATED for AWARDS_FEED_UPDATED. */
export function documentedTrigger(trigger: string): string {
  const feed = feedOfTrigger(trigger);
  return feed === undefined ? trigger : feedTriggers[feed];
}

/** A verified notification. `payload` is checked for the triggers of the documents, and passed on as it is for others. */
export interface VerifiedNotification<Trigger extends string = string, Payload = Record<string, unknown>> {
  readonly trigger: Trigger;
  readonly timestamp: Timestamp;
  readonly payload: Payload;
  /** The same each time the notification is delivered: SHA-256 of its bytes, in hex. */
  readonly id: string;
}

/** What is called for each trigger. A rejection is answered with 500, so that the service delivers again. */
export type NotificationHandlers = {
  readonly [Trigger in KnownTrigger]?: (
    notification: VerifiedNotification<Trigger, z.output<(typeof payloadSchemas)[Trigger]>>,
  ) => unknown;
} & {
  /** For the triggers without a handler of their own. */
  readonly otherwise?: (notification: VerifiedNotification) => unknown;
};

/** The schema of a trigger's payload; undefined for a trigger that the documents do not have. */
export function payloadSchemaOf(trigger: string): z.ZodType<Record<string, unknown>> | undefined {
  return Object.hasOwn(payloadSchemas, trigger) ? payloadSchemas[trigger as KnownTrigger] : undefined;
}
