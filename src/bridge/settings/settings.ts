/** The bridge's settings: its sources, its flows, and where it listens. Explained in `config/bridge.yaml`. */
import { isIP } from 'node:net';
import { z } from 'zod';
import { mappingSettings } from '#bridge/documents/mapping-settings.ts';
import { dialects } from '#client/dialect.ts';
import { documentKinds } from '#connector/documents.ts';
import { feedNames } from '#contract/feed.ts';
import { tokenParameters } from '#contract/webhook.ts';
import { unverifiedBytesMax } from '#platform/http/unverified-bytes.ts';
import { parseCidrs } from '#platform/network-guard.ts';
import { secretMark } from '#platform/secret-settings.ts';
import { alertSettings } from './alert-settings.ts';
import { faultsOfDialect } from './dialect-faults.ts';
import { intakeSettings } from './intake-settings.ts';

/** What a source or a flow may be called. */
export const settingName = z
  .string()
  .regex(/^[a-z0-9][a-z0-9-]{0,62}$/, 'must be lower-case letters, digits and hyphens');
/** A network in CIDR notation. */
export const network = z.string().refine(isNetwork, 'must be a network, like 10.0.0.0/8');
const hostName = z
  .string()
  .regex(
    /^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$/,
    'must be a host name in lower case, like bridge.example.com, without a port',
  );
const port = z.int().min(0).max(65_535);

/**
 * How the service gets its tokens from an authorisation server; `bridge webhooks register` sends this to the service.
 */
const tokenRequest = tokenParameters
  .optional()
  .describe('How the service gets its tokens; `bridge webhooks register` sends this to it');

/** RFC 6750, 2.1. */
const bearerTokenForm = /^[A-Za-z0-9._~+/-]{16,8192}=*$/;

/**
 * How the bridge checks the bearer token that the service gets by client credentials and sends with each notification.
 */
const bearer = z.discriminatedUnion('type', [
  z.strictObject({
    type: z.literal('jwt').describe('An authorisation server signs the tokens'),
    jwks_url: z.url({ protocol: /^https$/ }),
    issuer: z.string().min(1),
    audience: z.string().min(1),
    token_request: tokenRequest,
  }),
  z.strictObject({
    type: z.literal('token').describe('Each notification carries this one token'),
    token: z
      .string()
      .regex(bearerTokenForm, 'must have at least 16 characters that a header may carry as a token')
      .meta(secretMark),
    token_request: tokenRequest,
  }),
]);

const tlsFiles = z.strictObject({ cert_file: z.string().min(1), key_file: z.string().min(1) });

/** Which people of an OpenID provider get which role at the console. */
const openIdRole = z.strictObject({
  claim: z.string().min(1).describe('The claim that is looked at, for example groups'),
  value: z.string().min(1).describe('What the claim must be, or one of its values'),
  role: z.enum(['viewer', 'viewer-without-prices', 'operator']),
  flows: z.array(settingName).min(1).optional().describe('The flows that these people see and operate; default: all'),
});

const openId = z.strictObject({
  issuer: z
    .url({ protocol: /^https?$/ })
    .refine((url) => url.startsWith('https:') || isLoopbackUrl(url), {
      error: 'must begin with https://, unless the provider is on this machine',
    })
    .describe('The provider, as its metadata names it'),
  client_id: z.string().min(1),
  client_secret: z
    .string()
    .min(1)
    .meta(secretMark)
    .optional()
    .describe('Without it the client is a public one; PKCE is used either way'),
  scope: z.string().min(1).default('openid profile email'),
  roles: z.array(openIdRole).min(1).describe('The first that fits counts; who fits none is refused'),
});

const source = z.strictObject({
  name: settingName,
  base_url: z.url({ protocol: /^https?$/ }).describe('Where the sourcing service answers, without /api'),
  event_url: z
    .string()
    .regex(
      /^https?:\/\/[^\s{}]+\{id\}[^\s{}]*$/,
      'must be a URL with {id} in it, like https://app.example.com/events/{id}',
    )
    .optional()
    .describe('Where people see an event at the service, with {id} for its id: console and requisitions link there'),
  api_key: z
    .string()
    .min(1)
    .meta(secretMark)
    .describe('An API key with the scope feeds; write ${NAME} to take it from the environment'),
  signing_keys: z
    .array(z.string().regex(/\S/, 'is empty').meta(secretMark))
    .default([])
    .describe('Keys that sign the notifications, besides those that `bridge webhooks` stores in the database'),
  feeds: z
    .array(z.enum(feedNames))
    .min(1)
    .default([...feedNames]),
  poll_seconds: z.int().min(1).default(60).describe('A feed is read at least this often, also without a notification'),
  page_size: z
    .int()
    .min(1)
    .max(1_000)
    .default(200)
    .describe('How many records a page may hold; many services allow no more than 200'),
  timeout_seconds: z.int().min(1).default(60),
  lateness_seconds: z
    .int()
    .min(1)
    .default(30)
    .describe('How much later than its `modified` a record may appear in a feed that does not declare its order'),
  includes: z.boolean().default(true).describe('Whether pages are requested with their related objects'),
  suppliers: z
    .boolean()
    .default(false)
    .describe('Whether the supplier list is pulled, too; the API key then needs the scope manage'),
  suppliers_poll_seconds: z.int().min(10).default(900),
  audit_hours: z.number().min(0).default(24).describe('How often a longer window is read again; 0: never'),
  audit_window_hours: z.int().min(1).default(72).describe('How far back an audit reads'),
  audit_full_days: z
    .number()
    .min(0)
    .default(7)
    .describe('How often a full audit reads a whole feed again, which also finds vanished records; 0: never'),
  bearer: bearer.optional().describe('Requires an OAuth token with each notification, besides the signature'),
  quotas: z
    .strictObject({
      enabled: z
        .boolean()
        .default(true)
        .describe('false: a service without limits; its requests are not counted, and a 429 is obeyed all the same'),
    })
    .prefault({}),
  dialect: z
    .enum(dialects)
    .default('contract')
    .describe(
      'How jobs are said: by the contract, or in the names of the public service; docs/requisitions.md, "Dialects"',
    ),
  user_email: z
    .email()
    .optional()
    .describe('With dialect public: the user of the service in whose name events are made and files attached'),
  file_networks: z
    .array(network)
    .default([])
    .describe('Private networks (CIDR) from which files may be loaded, besides the host of base_url'),
});

const flow = z.strictObject({
  name: settingName,
  source: settingName,
  connector: z.string().min(1).describe("A folder's name under connectors/, a path, or a package"),
  documents: z.array(z.enum(documentKinds)).min(1).default(['award']),
  test_events: z.boolean().default(false).describe('Whether documents of events marked is_test are sent, too'),
  only: z
    .strictObject({
      tags: z
        .record(z.string(), z.union([z.string(), z.array(z.string()).min(1)]))
        .default({})
        .describe('Events that carry each of these tags with this value, or one of these values'),
      status: z.array(z.string().min(1)).min(1).optional().describe('Events of these statuses; others are on hold'),
    })
    .prefault({})
    .describe('Which events this flow takes; without it all events'),
  mapping: mappingSettings.default({}).describe('How additional fields of documents and lines are made'),
  quantity_column: z.string().min(1).optional().describe("The bid sheet column that holds a lot's quantity"),
  unit_price_column: z.string().min(1).optional().describe('The bid sheet column that holds the unit price'),
  quantity_decimals: z
    .int()
    .min(0)
    .max(10)
    .optional()
    .describe(
      'How many decimals of a quantity the ERP keeps: the parts of a lot that several suppliers won are rounded to them so that they add up; default: parts are exact',
    ),
  time_zone: z
    .string()
    .refine(isTimeZone, 'is not a time zone: it must be like Europe/Berlin')
    .optional()
    .describe('The zone in which a mapping of type date reads the day of a time; default: the day as it is written'),
  circuit: z
    .strictObject({
      failures: z.int().min(1).default(20).describe('How many documents in a row must fail or be refused'),
      seconds: z.int().min(1).default(60).describe('How long nothing is sent then, before one document is tried'),
    })
    .prefault({})
    .describe('The circuit breaker: nothing is sent for a while to an ERP that refuses everything'),
  withdrawals: z
    .strictObject({
      most: z.int().min(1).default(20),
      share: z.number().min(0).max(1).default(0.2).describe('Of the documents that this flow has delivered'),
    })
    .prefault({})
    .describe('More cancellations in 24 hours than both bounds pause the flow, until an operator has agreed'),
  reconcile: z
    .strictObject({
      every_hours: z
        .number()
        .min(0)
        .max(8_760)
        .default(0)
        .describe('How often all that was delivered is compared with what the ERP holds; 0: only by bridge reconcile'),
    })
    .prefault({})
    .describe('Comparisons by schedule: docs/watch.md, "Does the ERP still hold it?"'),
  settings: z.record(z.string(), z.unknown()).default({}).describe("The connector's own settings"),
  begins_paused: z
    .boolean()
    .default(false)
    .describe('A new flow is paused at its first start: look at `bridge plan`, then `bridge resume` it'),
});

/** Without a scheme and a port, which others add; IPv6 with or without brackets, and kept without. */
const publicHost = z
  .string()
  .overwrite((host) => host.replace(/^\[(.*)\]$/, '$1'))
  .superRefine((host, context) => {
    const fault = faultOfHost(host);
    if (fault !== undefined) context.addIssue({ code: 'custom', message: fault });
  });

function faultOfHost(host: string): string | undefined {
  if (isIP(host) !== 0 && !host.includes('%')) return undefined;
  if (/^[a-z][a-z0-9+.-]*:\/\//i.test(host)) return 'must be a name or an IP address without a scheme such as https://';
  if (/^[^:]+:\d+$|^\[.*\]:\d+$/.test(host)) return 'must be a name or an IP address without a port; set bridge.port';
  return /^[^\s/\\?#@:%*[\]]+$/.test(host) ? undefined : 'must be a host name or an IP address';
}

export const bridgeSettings = z
  .strictObject({
    host: z.string().default('127.0.0.1').describe('Where the webhook endpoint listens (HTTPS)'),
    port: port.default(8443),
    public_host: publicHost
      .default('localhost')
      .describe('The name or IP address in its certificate and in the URL of the webhook'),
    tls: z
      .strictObject({ cert_file: z.string(), key_file: z.string() })
      .optional()
      .describe('Your own certificate; without it a local authority makes one'),
    ca_file: z
      .string()
      .min(1)
      .optional()
      .describe('Where the certificate of the local authority is also written, for a service that must trust it'),
    console_host: z
      .string()
      .default('127.0.0.1')
      .describe('Where the console listens; on any address but one of this machine itself it needs a login'),
    console_port: port.default(8081).describe('The port of the console'),
    console_names: z
      .array(hostName)
      .max(100)
      .default([])
      .describe('The host names by which browsers may call the console, besides localhost and any IP address'),
    console_pages: z
      .boolean()
      .default(true)
      .describe('Whether this process shows the console; without it the port has health, metrics and status.json'),
    console_url: z
      .url({ protocol: /^https?$/, error: 'must be a URL, like https://bridge.example.com' })
      .overwrite((url) => url.replace(/(?<!\/)\/+$/, ''))
      .optional()
      .describe('Where browsers find the console, when a proxy stands before it or people log in by OpenID'),
    console_security_contact: z
      .url({ protocol: /^(mailto|https)$/, error: 'must be a URL, like mailto:security@example.com' })
      .optional()
      .describe(
        'Whom to tell about a weakness: stands in /.well-known/security.txt of the console; default: no such file',
      ),
    console_tls: tlsFiles.optional().describe('A certificate: the console then speaks HTTPS; without it HTTP'),
    console_token: z
      .string()
      .regex(
        /^[\x21-\x7e]{32,}$/,
        'must have at least 32 characters without spaces; make one with: openssl rand -hex 24',
      )
      .meta(secretMark)
      .optional()
      .describe('Bearer token of /metrics and /status.json; without it they answer to this machine alone'),
    console_login: z
      .strictObject({
        idle_minutes: z.int().min(1).max(43_200).default(480).describe('A session that was not used for so long ends'),
        hours: z.int().min(1).max(720).default(24).describe('A session ends after so long, however much it is used'),
        openid: openId.optional().describe('Login by an OpenID provider, beside passwords'),
      })
      .prefault({})
      .describe('How people log in to the console'),
    body_bytes_max: z
      .int()
      .min(1)
      .max(unverifiedBytesMax)
      .default(262_144)
      .describe('Upper bound of the length of a notification, in bytes'),
    lease_seconds: z
      .number()
      .min(1)
      .default(60)
      .describe('How long a process may be frozen before another process takes over its work'),
    inbox_days: z.int().min(1).default(14).describe('How long notifications are kept'),
    history_days: z
      .int()
      .min(1)
      .default(90)
      .describe('How long replaced versions, and attempts with what they sent, are kept for find, history and show'),
    alerts: alertSettings.prefault({}).describe('Tells people when something needs them'),
    sources: z.array(source).default([]),
    flows: z.array(flow).default([]),
    intakes: z.array(intakeSettings).default([]),
  })
  .refine(({ console_login, console_url }) => console_login.openid === undefined || console_url !== undefined, {
    path: ['console_url'],
    error: 'must be set for console_login.openid: the provider sends people back to this URL',
  })
  .superRefine(({ sources, flows, intakes }, context) => {
    for (const [index, { quantity_column: quantity, unit_price_column: price }] of flows.entries())
      if ((quantity === undefined) !== (price === undefined))
        context.addIssue({
          code: 'custom',
          path: ['flows', index, quantity === undefined ? 'quantity_column' : 'unit_price_column'],
          message: 'is missing: quantity_column and unit_price_column belong together, set both or neither',
        });
    for (const [index, intake] of intakes.entries()) {
      const own = sources.find(({ name }) => name === intake.source);
      for (const { path, message } of own ? faultsOfDialect(intake, own) : [])
        context.addIssue({ code: 'custom', path: ['intakes', index, ...path], message });
    }
  });

export type BridgeSettings = z.infer<typeof bridgeSettings>;
export type SourceSettings = z.infer<typeof source>;
export type FlowSettings = z.infer<typeof flow>;

/** Whether a flow of the source takes jobs as documents. */
export function takesJobs({ flows }: Pick<BridgeSettings, 'flows'>, source: string): boolean {
  return flows.some((flow) => flow.source === source && flow.documents.includes('job'));
}

function isLoopbackUrl(url: string): boolean {
  const host = URL.parse(url)?.hostname ?? '';
  return host === 'localhost' || host === '[::1]' || /^127\.\d+\.\d+\.\d+$/.test(host);
}

function isTimeZone(zone: string): boolean {
  try {
    return Intl.DateTimeFormat('en', { timeZone: zone }) !== undefined;
  } catch {
    return false;
  }
}

function isNetwork(text: string): boolean {
  try {
    return parseCidrs([text]).length === 1;
  } catch {
    return false;
  }
}
