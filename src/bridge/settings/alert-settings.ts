/** The settings of alerts: where they are sent, and from when on something is late. Explained in `config/bridge.yaml`. */
import { z } from 'zod';
import { secretMark } from '#platform/secret-settings.ts';

/** The address of an incoming webhook is a secret: with Slack and Teams who knows it may write. */
const url = z
  .string()
  .regex(/^https?:\/\/[^\s/@]+(\/\S*)?$/, 'must be a URL that begins with https:// or http://, without a user name')
  .meta(secretMark);

/** The values are secrets. */
const headers = z
  .record(
    z.string().regex(/^(?!host$|content-)[a-z0-9-]{1,100}$/i, 'must be the name of a header'),
    z
      .string()
      .min(1)
      .regex(/^[\x20-\x7e]*$/, 'must be printable ASCII')
      .meta(secretMark),
  )
  .default({})
  .describe('What proves the sender: Authorization, or what the receiver asks for');

const template = z
  .string()
  .refine(isJson, { error: 'must be JSON with {{text}} within a text, as {"text": "{{text}}"}' })
  .optional()
  .describe('The JSON that is sent, with {{text}}, {{title}} and {{id}} within its texts; default: the whole message');

const webhook = z.strictObject({ url, headers, template });

const address = z.string().regex(/^[^\s<>@,;:"]+@[^\s<>@,;:"]+$/, 'must be an address, like ops@example.com');

const email = z
  .strictObject({
    host: z.string().min(1),
    port: z.int().min(1).max(65_535).default(587),
    security: z
      .enum(['starttls', 'tls', 'none'])
      .default('starttls')
      .describe('starttls on port 587, tls on port 465; none sends everything as it is'),
    user: z.string().min(1).optional(),
    password: z.string().min(1).meta(secretMark).optional(),
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

export const alertSettings = z.strictObject({
  behind_minutes: z
    .number()
    .min(1)
    .default(30)
    .describe('What is further behind is late, and what fails is sent when it has failed for so long'),
  webhook: webhook.optional().describe('Alerts are sent there as JSON'),
  email: email.optional().describe('Alerts are sent by SMTP'),
});

export type AlertSettings = z.infer<typeof alertSettings>;
export type AlertChannel = 'webhook' | 'email';

/** Where alerts are sent; none are made without a channel. */
export function channelsOf({ webhook: hook, email: mail }: AlertSettings): AlertChannel[] {
  return [...(hook ? (['webhook'] as const) : []), ...(mail ? (['email'] as const) : [])];
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return text.includes('{{text}}');
  } catch {
    return false;
  }
}
