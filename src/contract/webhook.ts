/** Webhooks and their notifications. Source: API document, "Webhook" and "Events"; trigger names from the decisions. */
import { z } from 'zod';
import type { FeedName } from './feed.ts';
import { text, timestamp, uuid } from './scalars.ts';

export const triggers = [
  'SOURCING_EVENTS_FEED_UPDATED',
  'LATEST_BIDS_FEED_UPDATED',
  'AWARDS_FEED_UPDATED',
  'RFI_RESPONSES_FEED_UPDATED',
  'JOB_UPDATED',
  'TEST',
] as const;
export type Trigger = (typeof triggers)[number];

/** The trigger that each feed fires. */
export const feedTriggers = {
  'sourcing-events': 'SOURCING_EVENTS_FEED_UPDATED',
  'latest-bids': 'LATEST_BIDS_FEED_UPDATED',
  awards: 'AWARDS_FEED_UPDATED',
} as const satisfies Record<FeedName, Trigger>;

/** The feed that a notification speaks of; also under the name that another service of this kind uses for awards. */
export function feedOfTrigger(trigger: string): FeedName | undefined {
  if (trigger === 'AWARD_FEED_UPDATED') return 'awards';
  const found = Object.entries(feedTriggers).find(([, name]) => name === trigger);
  return found?.[0] as FeedName | undefined;
}

const httpsUrl = text(2_000, 1).superRefine((value, context) => {
  const url = URL.parse(value);
  const refusal =
    url === null
      ? 'must be an absolute URL'
      : url.protocol !== 'https:'
        ? 'must be an HTTPS URL: notifications are sent over HTTPS only'
        : url.username !== '' || url.password !== ''
          ? 'must not carry a user name or password'
          : url.hash !== ''
            ? 'must not have a fragment'
            : undefined;
  if (refusal !== undefined) context.addIssue({ code: 'custom', message: refusal });
});

export const createWebhookRequest = z.strictObject({
  name: text(255, 1),
  description: text(1_000).default(''),
  url: httpsUrl,
  triggers: z
    .array(z.enum(triggers))
    .min(1)
    .refine((list) => new Set(list).size === list.length, 'a trigger stands twice'),
  signing_alg: z.literal('HMAC_SHA256').default('HMAC_SHA256'),
});

export const webhook = z.looseObject({
  uuid,
  name: z.string(),
  url: z.string(),
  /** Rendered as `[A, B]`. */
  triggers: z.string(),
  signing_alg: z.string(),
  signing_key: z.string().optional(),
});

/** A notification's body as a receiver reads it: one sample of the contract spells the first key `triggers`. */
export const notification = z
  .looseObject({
    trigger: z.string().optional(),
    triggers: z.string().optional(),
    timestamp,
    payload: z.looseObject({}).default({}),
  })
  .transform((body, context) => {
    const trigger = body.trigger ?? body.triggers;
    if (trigger !== undefined) return { trigger, timestamp: body.timestamp, payload: body.payload };
    context.addIssue({ code: 'custom', path: ['trigger'], message: 'is missing' });
    return z.NEVER;
  });
