/**
 * The notifications that the service sends, as the `webhooks` of its OpenAPI document. Source: API document, "Events".
 */
import {
  feedNotificationPayload,
  feedTriggers,
  jobNotificationPayload,
  notificationOf,
  type Trigger,
  testNotificationPayload,
  triggers,
} from '#contract/webhook.ts';
import type { Profile } from '../profile/profile.ts';
import type { JsonObject, SchemaSet } from './schema-set.ts';

const feedOf = new Map<Trigger, string>(Object.entries(feedTriggers).map(([feed, trigger]) => [trigger, feed]));

export function notifications(schemas: SchemaSet, profile: Profile): JsonObject {
  return Object.fromEntries(
    triggers.map((trigger) => {
      const { summary, description, payload } = describe(trigger, profile);
      const name = profile.triggerName(trigger);
      return [
        name,
        {
          post: {
            operationId: `notify-${name.toLowerCase().replaceAll('_', '-')}`,
            tags: ['Webhooks'],
            summary,
            description: `${description} Answer with any 2xx within 15 s; everything else, a redirect included, is tried again for three days, after a \`Retry-After\` at the earliest.`,
            security: [],
            parameters,
            requestBody: {
              required: true,
              content: { 'application/json': { schema: schemas.output(notificationOf(name, payload)) } },
            },
            responses: {
              '2XX': { description: 'Received; it is not sent again.' },
              410: { description: 'The receiver is gone for good: the webhook is disabled.' },
              default: { description: 'Not received; it is sent again later.' },
            },
          },
        },
      ];
    }),
  );
}

function describe(trigger: Trigger, { sendsFeedModified }: Profile) {
  const feed = feedOf.get(trigger);
  if (feed !== undefined)
    return {
      summary: `The feed ${feed} has changed`,
      description:
        'Read the feed; the notification itself holds no record. Of several changes while one waits, only the newest is announced.',
      payload: sendsFeedModified ? feedNotificationPayload : feedNotificationPayload.omit({ feed_modified: true }),
    };
  if (trigger === 'JOB_UPDATED')
    return { summary: 'A job has ended', description: 'Sent once for each job.', payload: jobNotificationPayload };
  return {
    summary: 'A test was asked for',
    description: 'Sent to the tested webhook, also if it does not subscribe to `TEST`.',
    payload: testNotificationPayload,
  };
}

const parameters = [
  {
    name: 'X-Signature',
    in: 'header',
    required: true,
    description:
      "`hmac-sha256=` and the hexadecimal HMAC-SHA256 of the exact bytes of the body, keyed with the webhook's `signing_key` as UTF-8. Compare it in constant time, before the body is parsed.",
    schema: { type: 'string', pattern: '^hmac-sha256=[0-9a-f]{64}$' },
  },
  {
    name: 'webhook-signature',
    in: 'header',
    required: false,
    description:
      'The signature of Standard Webhooks, of a webhook that was created with `standard_webhooks`: `v1,` and the HMAC-SHA256 in Base64 of `webhook-id`, `webhook-timestamp` and the body with a full stop between them, keyed with the bytes of `standard_webhooks_key`.',
    schema: { type: 'string', pattern: '^v1,[A-Za-z0-9+/]{43}=$' },
  },
  {
    name: 'webhook-id',
    in: 'header',
    required: true,
    description: 'The same for every attempt of one notification: a receiver may ignore an id that it knows.',
    schema: { type: 'string', format: 'uuid' },
  },
  {
    name: 'webhook-timestamp',
    in: 'header',
    required: true,
    description: 'When this attempt was made, in seconds since 1970.',
    schema: { type: 'integer' },
  },
  {
    name: 'webhook-attempt',
    in: 'header',
    required: true,
    description: 'Which attempt it is, from 1.',
    schema: { type: 'integer', minimum: 1 },
  },
];
