/** Webhooks and their notifications. Source: API document, "Webhook" and "Events"; trigger names from the decisions. */
import { z } from 'zod';
import { type FeedName, feedNames, feeds } from './feed.ts';
import { manageList } from './list.ts';
import { httpsUrl, text, timestamp, uuid } from './scalars.ts';

/** The trigger of a job that has ended. */
export const jobTrigger = 'JOB_UPDATED';
export type Trigger = (typeof feeds)[FeedName]['trigger'] | typeof jobTrigger | 'TEST';
export const triggers: readonly Trigger[] = [...feedNames.map((feed) => feeds[feed].trigger), jobTrigger, 'TEST'];

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

/** What the service asks a token server with. A client proves itself by its secret, or by a signature of its private key. */
export const tokenParameters = z
  .strictObject({
    access_token_url: httpsUrl,
    client_id: text(1_000, 1),
    client_secret: text(1_000, 1).optional().describe('Required, unless there is a `private_key`.'),
    token_endpoint_auth_method: z
      .enum(['client_secret_basic', 'client_secret_post'])
      .optional()
      .describe(
        'How the secret is sent: as HTTP Basic, or in the body. By default both are tried when the webhook is made.',
      ),
    private_key: text(10_000, 1)
      .optional()
      .describe(
        'In place of a secret: PEM (PKCS #8) of an RSA, EC or Ed25519 key, which signs a JWT for each request (RFC 7523).',
      ),
    key_id: text(1_000, 1).optional().describe('The `kid` of that JWT.'),
    /** Scopes, separated by spaces (RFC 6749, 3.3); an empty text is none. */
    scope: text(1_000)
      .regex(/^([\x21\x23-\x5b\x5d-\x7e]+( [\x21\x23-\x5b\x5d-\x7e]+)*)?$/, 'must be scopes separated by single spaces')
      .optional(),
    audience: text(1_000, 1).optional().describe('Sent as it is; some servers issue tokens only for a named audience.'),
    resource: text(1_000, 1).optional().describe('The URL that the token is for (RFC 8707).'),
  })
  .superRefine(
    ({ client_secret: secret, private_key: key, key_id: kid, token_endpoint_auth_method: method }, context) => {
      const refuse = (path: string, message: string) => context.addIssue({ code: 'custom', path: [path], message });
      if (secret === undefined && key === undefined) refuse('client_secret', 'is missing: send it, or a private_key');
      if (secret !== undefined && key !== undefined)
        refuse('private_key', 'cannot stand beside client_secret: send one');
      if (key === undefined && kid !== undefined) refuse('key_id', 'names a private_key, which is missing');
      if (key !== undefined && method !== undefined)
        refuse('token_endpoint_auth_method', 'says how a client_secret is sent: leave it out with a private_key');
    },
  );

/** OAuth client credentials, with which the service gets the bearer token that it sends with each notification. */
export const webhookAuthentication = z
  .strictObject({
    type: z.literal('OAUTH_CLIENT_CREDENTIALS'),
    parameters: tokenParameters,
  })
  .meta({ id: 'WebhookAuthentication' });

/** What of the parameters no log and no error may show. */
export function secretsOf({ client_secret: secret, private_key: key }: WebhookAuthentication['parameters']): string[] {
  return [secret, key].filter((each) => each !== undefined);
}

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
    standard_webhooks: z
      .boolean()
      .default(false)
      .describe(
        'Whether notifications also have the signature of Standard Webhooks (`webhook-signature`), with a key of its own.',
      ),
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

/** The answer to the creation. It shows the keys; the answer to a repeated creation (`Idempotency-Key`) does not. */
export const createdWebhook = webhook
  .extend({
    signing_key: z.string().optional(),
    standard_webhooks_key: z
      .string()
      .optional()
      .describe('The key of `webhook-signature`: `whsec_` and Base64. Only with `standard_webhooks`.'),
  })
  .meta({ id: 'CreatedWebhook' });

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
