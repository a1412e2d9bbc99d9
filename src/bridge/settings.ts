/** The bridge's settings: its sources, its flows, and where it listens. Explained in `config/bridge.yaml`. */
import { z } from 'zod';
import { documentKinds } from '#connector/documents.ts';
import { feedNames } from '#contract/feed.ts';
import { limitsRequest } from '#contract/limits.ts';
import { parseCidrs } from '#platform/network-guard.ts';
import { mappingSettings } from './documents/mapping-settings.ts';

const name = z.string().regex(/^[a-z0-9][a-z0-9-]{0,62}$/, 'must be lower-case letters, digits and hyphens');
const network = z.string().refine(isNetwork, 'must be a network, like 10.0.0.0/8');
const port = z.int().min(0).max(65_535);

/** How the service is to get its tokens from an authorisation server: what `bridge webhooks register` tells it. */
const tokenRequest = z
  .strictObject({
    access_token_url: z.url({ protocol: /^https$/ }),
    client_id: z.string().min(1),
    client_secret: z.string().min(1),
    scope: z.string().optional(),
  })
  .optional()
  .describe('How the service gets its tokens: `bridge webhooks register` tells it');

/** How the bearer token is checked that the service gets by client credentials and sends with each notification. */
const bearer = z.discriminatedUnion('type', [
  z.strictObject({
    type: z.literal('issued').describe('This bridge gives the tokens itself, at /oauth/token of the webhook endpoint'),
    client_id: z.string().min(1),
    client_secret: z.string().min(16),
  }),
  z.strictObject({
    type: z.literal('jwt').describe('Tokens of an authorisation server that signs them'),
    jwks_url: z.url({ protocol: /^https$/ }),
    issuer: z.string().min(1),
    audience: z.string().min(1),
    token_request: tokenRequest,
  }),
  z.strictObject({
    type: z.literal('introspection').describe('Tokens that an authorisation server is asked about (RFC 7662)'),
    introspection_url: z.url({ protocol: /^https$/ }),
    client_id: z.string().min(1),
    client_secret: z.string().min(1),
    token_request: tokenRequest,
  }),
]);

const source = z.strictObject({
  name,
  base_url: z.url({ protocol: /^https?$/ }).describe('Where the sourcing service answers, without /api'),
  api_key: z.string().min(1).describe('An API key with the scope feeds; write ${NAME} to take it from the environment'),
  signing_keys: z
    .array(z.string().min(1))
    .default([])
    .describe('Keys that sign the notifications, beside those that `bridge webhooks` keeps in the database'),
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
  includes: z.boolean().default(true).describe('Whether pages are asked for with their related objects'),
  suppliers: z
    .boolean()
    .default(false)
    .describe('Whether the list of suppliers is read, too; the API key then needs the scope manage'),
  suppliers_poll_seconds: z.int().min(10).default(900),
  audit_hours: z.number().min(0).default(24).describe('How often a longer window is read again; 0: never'),
  audit_window_hours: z.int().min(1).default(72).describe('How far back an audit reads'),
  audit_full_days: z
    .number()
    .min(0)
    .default(7)
    .describe('How often a whole feed is read again, which also tells what has vanished from it; 0: never'),
  freshness_seconds: z
    .int()
    .min(1)
    .optional()
    .describe('A notification whose timestamp is further away from now is acknowledged and does nothing'),
  bearer: bearer.optional().describe('Asks for an OAuth token with each notification, beside the signature'),
  quotas: limitsRequest
    .prefault({})
    .describe('What the service allows to this API key, where that differs from its documentation'),
  file_networks: z
    .array(network)
    .default([])
    .describe('Networks that are not public (CIDR) where files may be loaded from, if not from the host of base_url'),
});

const flow = z.strictObject({
  name,
  source: name,
  connector: z.string().min(1).describe("A folder's name under connectors/, a path, or a package"),
  documents: z.array(z.enum(documentKinds)).min(1).default(['award']),
  test_events: z.boolean().default(false).describe('Whether documents of events marked is_test are sent, too'),
  only: z
    .strictObject({
      tags: z
        .record(z.string(), z.union([z.string(), z.array(z.string()).min(1)]))
        .default({})
        .describe('Events that carry each of these tags with (one of) this value'),
      status: z.array(z.string().min(1)).min(1).optional().describe('Events of these statuses; others wait'),
    })
    .prefault({})
    .describe('Which events this flow takes; without it all'),
  mapping: mappingSettings.default({}).describe("What a document's and a line's own fields are made of"),
  quantity_column: z.string().min(1).optional().describe("The bid sheet column that holds a lot's quantity"),
  unit_price_column: z.string().min(1).optional().describe('The bid sheet column that holds the unit price'),
  circuit: z
    .strictObject({
      failures: z.int().min(1).default(20).describe('So many documents in a row that fail or are refused'),
      seconds: z.int().min(1).default(60).describe('How long nothing is sent then, before one document is tried'),
    })
    .prefault({})
    .describe('The circuit breaker: an ERP that refuses everything is left alone for a while'),
  withdrawals: z
    .strictObject({
      most: z.int().min(1).default(20),
      share: z.number().min(0).max(1).default(0.2).describe('Of what this flow has delivered'),
      hours: z.number().positive().max(720).default(1).describe('Those of so long are counted together'),
    })
    .prefault({})
    .describe('More cancellations than both at once pause the flow, until a person has agreed'),
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
  body_bytes_max: z.int().min(1).default(262_144).describe('Longest notification that is read'),
  backlog_max: z.int().min(1).default(10_000).describe('Notifications that may wait for a commit; beyond: 503'),
  lease_seconds: z
    .number()
    .min(1)
    .default(60)
    .describe('How long a process may stand still before another takes its work over'),
  inbox_days: z.int().min(1).default(14).describe('How long worked notifications are kept'),
  history_days: z.int().min(1).default(90).describe('How long versions that were replaced are kept'),
  sources: z.array(source).default([]),
  flows: z.array(flow).default([]),
});

export type BridgeSettings = z.infer<typeof bridgeSettings>;
export type SourceSettings = z.infer<typeof source>;
export type FlowSettings = z.infer<typeof flow>;

function isNetwork(text: string): boolean {
  try {
    return parseCidrs([text]).length === 1;
  } catch {
    return false;
  }
}
