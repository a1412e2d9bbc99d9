/** Webhooks and their notifications. Source: API document, "Webhook" and "Events"; trigger names from the decisions. */
import { z } from 'zod';
import { type FeedName, feedNames, feeds } from './feed.ts';
import { manageList } from './list.ts';
import { httpsUrl, text, timestamp, uuid } from './scalars.ts';

export type Trigger = (typeof feeds)[FeedName]['trigger'] | 'JOB_UPDATED' | 'TEST';
export const triggers: readonly Trigger[] = [...feedNames.map((feed) => feeds[feed].trigger), 'JOB_UPDATED', 'TEST'];

/** The trigger that each feed fires. */
export const feedTriggers = Object.fromEntries(feedNames.map((feed) => [feed, feeds[feed].trigger])) as {
  readonly [Feed in FeedName]: (typeof feeds)[Feed]['trigger'];
};

/** What another service of this kind calls the trigger of this feed; null where no other name is known. */
export function triggerElsewhere(feed: FeedName): string | null {
  return feeds[feed].triggerElsewhere;
}

/** A trigger as other services of this kind call it. */
export function triggerNameElsewhere(trigger: Trigger): string {
  const feed = feedOfTrigger(trigger);
  return (feed && triggerElsewhere(feed)) ?? trigger;
}

/** The feed that a trigger announces, also by the name that another service uses; undefined for other triggers. */
export function feedOfTrigger(trigger: string): FeedName | undefined {
  return feedNames.find((feed) => trigger === feeds[feed].trigger || trigger === triggerElsewhere(feed));
}

/** OAuth client credentials, with which the service gets the bearer token that it sends with each notification. */
export const webhookAuthentication = z
  .strictObject({
    type: z.literal('OAUTH_CLIENT_CREDENTIALS'),
    parameters: z.strictObject({
      access_token_url: httpsUrl,
      client_id: text(1_000, 1),
      client_secret: text(1_000, 1),
      /** Scopes, separated by spaces (RFC 6749, 3.3); an empty text is none. */
      scope: text(1_000)
        .regex(
          /^([\x21\x23-\x5b\x5d-\x7e]+( [\x21\x23-\x5b\x5d-\x7e]+)*)?$/,
          'must be scopes separated by single spaces',
        )
        .optional(),
    }),
  })
  .meta({ id: 'WebhookAuthentication' });

export type WebhookAuthentication = z.infer<typeof webhookAuthentication>;

const triggerList = z
  .array(z.enum(triggers))
  .min(1)
  .refine((list) => new Set(list).size === list.length, 'a trigger stands twice');

export const createWebhookRequest = z
  .strictObject({
    name: text(255, 1),
    description: text(1_000).default(''),
    url: httpsUrl.describe('HTTPS only; its host must be whitelisted by the operator.'),
    triggers: triggerList,
    signing_alg: z.literal('HMAC_SHA256').default('HMAC_SHA256'),
    authentication: webhookAuthentication.optional().describe('Never returned.'),
  })
  .meta({ id: 'CreateWebhook' });

const notToChange = (why: string) => z.never({ error: `cannot be changed: ${why}` }).optional();

/** What is left out stays as it is. */
export const updateWebhookRequest = z
  .strictObject({
    name: text(255, 1).optional(),
    triggers: triggerList.optional(),
    authentication: webhookAuthentication
      .nullable()
      .optional()
      .describe('Replaces the whole authentication; null removes it. Never returned.'),
    is_active: z
      .literal(true, { error: 'can only be true, which resumes a disabled webhook: delete a webhook to stop it' })
      .optional()
      .describe('Resumes a webhook that was disabled; what it has kept is sent soon.'),
    url: notToChange('create a webhook with the other URL, then delete this one'),
    description: notToChange('create a webhook with the other description, then delete this one'),
  })
  .meta({ id: 'UpdateWebhook' });

export const webhook = z
  .looseObject({
    uuid,
    name: z.string(),
    description: z.string().optional(),
    url: z.string(),
    triggers: z.string().describe('Rendered as `[A, B]`.'),
    signing_alg: z.string(),
    is_active: z
      .boolean()
      .optional()
      .describe('Whether notifications are sent; false after a 410, or after five days of failures.'),
  })
  .meta({ id: 'Webhook' });

/** The answer to the creation. It shows the key; the answer to a repeated creation (`Idempotency-Key`) does not. */
export const createdWebhook = webhook.extend({ signing_key: z.string().optional() }).meta({ id: 'CreatedWebhook' });

export const webhookList = manageList(webhook);

export const testWebhookAnswer = z.looseObject({ detail: z.string() });

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

/** The payload for a feed. A receiver that has read beyond `feed_modified` need not read again. */
export const feedNotificationPayload = z
  .looseObject({
    sourcing_event: uuid,
    sourcing_event_name: z.string(),
    sourcing_request: uuid.optional(),
    feed_modified: timestamp.optional().describe('Left out while the feed has never had a record.'),
  })
  .meta({ id: 'FeedNotification' });

export const jobNotificationPayload = z
  .looseObject({ job: uuid, type: z.string(), status: z.string() })
  .meta({ id: 'JobNotification' });

export const testNotificationPayload = z.looseObject({ detail: z.string() }).meta({ id: 'TestNotification' });

/** A notification's body as the service writes it. */
export function notificationOf<Payload extends z.ZodType>(trigger: string, payload: Payload) {
  return z.looseObject({ trigger: z.literal(trigger), timestamp, payload });
}
