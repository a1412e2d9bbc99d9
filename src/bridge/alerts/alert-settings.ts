/** The settings of alerts: where they are sent, and from when on something is one. Explained in `config/bridge.yaml`. */
import { z } from 'zod';
import { isLackingText } from '#platform/configuration.ts';
import { alertKinds } from './alert.ts';

/** The address of an incoming webhook is a secret: with Slack and Teams who knows it may write. */
const url = z.string().refine((text) => /^https?:\/\/[^\s/@]+(\/\S*)?$/.test(text) || isLackingText(text), {
  error: 'must be a URL that begins with https:// or http://, without a user name',
});

const channelName = z.string().regex(/^[a-z0-9][a-z0-9-]{0,62}$/, 'must be lower-case letters, digits and hyphens');

const shared = {
  name: channelName.describe('Shown by `bridge alerts`, in status and in the metrics'),
  kinds: z
    .array(z.enum(alertKinds))
    .min(1)
    .default([...alertKinds])
    .describe('Which alerts are sent here'),
  gather_seconds: z
    .int()
    .min(0)
    .max(3_600)
    .default(30)
    .describe('How long a message waits for further alerts, so that a storm is one message'),
  messages_per_hour: z
    .int()
    .min(1)
    .max(3_600)
    .default(20)
    .describe('Beyond it alerts are gathered until the hour has room for a message'),
};

/** The value is a secret. */
const header = z
  .strictObject({
    name: z.string().regex(/^(?!host$|content-)[a-z0-9-]{1,100}$/i, 'must be the name of a header'),
    value: z
      .string()
      .min(1)
      .regex(/^[\x20-\x7e]*$/, 'must be printable ASCII'),
  })
  .optional()
  .describe('A header that proves the sender: Authorization, or what the receiver asks for');

const webhook = z.strictObject({
  type: z.literal('webhook').describe('One JSON object, as docs/operations.md has it'),
  ...shared,
  url,
  header,
  signing_key: z
    .string()
    .min(16)
    .optional()
    .describe('The body is signed with it, in the header X-Signature, as notifications are'),
});
const slack = z.strictObject({ type: z.literal('slack').describe('The form of Slack’s webhooks'), ...shared, url });
const teams = z.strictObject({
  type: z.literal('teams').describe('The form of the Teams workflow that takes webhooks: an adaptive card'),
  ...shared,
  url,
});
const address = z.string().regex(/^[^\s<>@,;:"]+@[^\s<>@,;:"]+$/, 'must be an address, like ops@example.com');
const email = z
  .strictObject({
    type: z.literal('email').describe('By SMTP'),
    ...shared,
    host: z.string().min(1),
    port: z.int().min(1).max(65_535).default(587),
    security: z
      .enum(['starttls', 'tls', 'none'])
      .default('starttls')
      .describe('starttls on port 587, tls on port 465; none sends everything as it is'),
    user: z.string().min(1).optional(),
    password: z.string().min(1).optional(),
    from: address,
    to: z.array(address).min(1).max(50),
  })
  .refine(({ user, password }) => (user === undefined) === (password === undefined), {
    path: ['password'],
    error: 'must be set together with user',
  })
  .refine(({ security, password }) => security !== 'none' || password === undefined, {
    path: ['security'],
    error: 'must not be none with a password: it would be sent in the clear',
  });

export const alertSettings = z
  .strictObject({
    channels: z
      .array(z.discriminatedUnion('type', [webhook, slack, teams, email]))
      .max(20)
      .default([])
      .describe('Where alerts are sent; without any none are made'),
    reminder_hours: z
      .number()
      .min(0)
      .max(720)
      .default(4)
      .describe('An alert that lasts so long is sent once more; 0: never'),
    feed_behind_minutes: z.number().min(1).default(15).describe('A feed that is further behind is an alert'),
    erp_behind_minutes: z
      .number()
      .min(1)
      .default(30)
      .describe('A document that has waited longer for its ERP is an alert'),
    certificate_days: z.int().min(1).default(14).describe('A certificate that ends sooner is an alert'),
  })
  .refine(({ channels }) => new Set(channels.map(({ name }) => name)).size === channels.length, {
    path: ['channels'],
    error: 'must have different names',
  });

export type AlertSettings = z.infer<typeof alertSettings>;
export type ChannelSettings = AlertSettings['channels'][number];
