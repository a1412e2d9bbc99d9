/** The bridge's settings: its sources, its flows, and where it listens. Explained in `config/bridge.yaml`. */
import { z } from 'zod';
import { feedNames } from '#contract/feed.ts';

const name = z.string().regex(/^[a-z0-9][a-z0-9-]{0,62}$/, 'must be lower-case letters, digits and hyphens');
const port = z.int().min(0).max(65_535);

const source = z.strictObject({
  name,
  base_url: z.url({ protocol: /^https?$/ }).describe('Where the sourcing service answers, without /api'),
  api_key: z.string().min(1).describe('An API key with the scope feeds; write ${NAME} to take it from the environment'),
  signing_keys: z
    .array(z.string().min(1))
    .default([])
    .describe('Keys that sign the notifications: the current one, and the previous one while it is rotated'),
  feeds: z
    .array(z.enum(feedNames))
    .min(1)
    .default([...feedNames]),
  poll_seconds: z.int().min(1).default(60).describe('A feed is read at least this often, also without a notification'),
  page_size: z.int().min(1).max(1_000).default(1_000),
  timeout_seconds: z.int().min(1).default(60),
  lateness_seconds: z
    .int()
    .min(1)
    .default(30)
    .describe('How much later than its stamp a record may show up in a feed that does not declare its order'),
});

const flow = z.strictObject({
  name,
  source: name,
  connector: z.string().min(1).describe("A folder's name under connectors/, a path, or a package"),
  documents: z
    .array(z.enum(['award']))
    .min(1)
    .default(['award']),
  test_events: z.boolean().default(false).describe('Whether documents of events marked is_test are sent, too'),
  quantity_column: z.string().min(1).optional().describe("The bid sheet column that holds a lot's quantity"),
  unit_price_column: z.string().min(1).optional().describe('The bid sheet column that holds the unit price'),
  settings: z.record(z.string(), z.unknown()).default({}).describe("The connector's own settings"),
});

export const bridgeSettings = z.strictObject({
  host: z.string().default('127.0.0.1').describe('Where the webhook endpoint listens (HTTPS)'),
  port: port.default(8443),
  public_host: z.string().default('localhost').describe('The name in its certificate and in the URL of the webhook'),
  tls: z
    .strictObject({ cert_file: z.string(), key_file: z.string() })
    .optional()
    .describe('A certificate of your own; without it one is made by a local authority'),
  console_host: z
    .string()
    .default('127.0.0.1')
    .describe('Where the page that shows what the bridge is doing listens: HTTP, and without a password'),
  console_port: port.default(8081).describe('The port of that page'),
  body_bytes_max: z.int().min(1).default(1_048_576).describe('Longest notification that is read'),
  backlog_max: z.int().min(1).default(10_000).describe('Notifications that may wait for a commit; beyond: 503'),
  inbox_days: z.int().min(1).default(14).describe('How long worked notifications are kept'),
  sources: z.array(source).default([]),
  flows: z.array(flow).default([]),
});

export type BridgeSettings = z.infer<typeof bridgeSettings>;
export type SourceSettings = z.infer<typeof source>;
export type FlowSettings = z.infer<typeof flow>;
