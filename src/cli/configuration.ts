/** The whole configuration: one file, `config/bridge.yaml` unless the command names another, and the environment. */
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { parseEnv } from 'node:util';
import { z } from 'zod';
import { bridgeSettings, network } from '#bridge/settings/settings.ts';
import { loadConfiguration, type Path } from '#platform/configuration.ts';
import { AppError, errorText } from '#platform/errors.ts';
import { connectionLimitsDefault } from '#platform/http/connections.ts';
import { secretMark } from '#platform/secret-settings.ts';

const fileSettings = z
  .discriminatedUnion(
    'store',
    [
      z.strictObject({
        store: z.literal('local'),
        directory: z.string().min(1).optional().describe('Default: the folder files in data_dir'),
      }),
      z
        .strictObject({
          store: z.literal('s3'),
          bucket: z.string().min(3).max(63).describe('It must exist, and hold nothing else'),
          region: z.string().min(1).default('us-east-1').describe('Most stores other than Amazon’s accept any region'),
          endpoint: z
            .url({ protocol: /^https?$/, error: 'must be a URL, like https://s3.example.com' })
            .optional()
            .describe('URL of a store other than Amazon’s; the bucket then stands in the path of the URL'),
          access_key_id: z
            .string()
            .min(1)
            .optional()
            .describe('Default: the credentials of the machine’s role or of AWS_* variables'),
          secret_access_key: z.string().min(1).meta(secretMark).optional().describe('Belongs to access_key_id'),
        })
        .refine((s3) => (s3.access_key_id === undefined) === (s3.secret_access_key === undefined), {
          path: ['secret_access_key'],
          error: 'must be set together with access_key_id',
        }),
    ],
    { error: 'must be local or s3' },
  )
  .describe('Where the bytes of files are kept');

/** Written as a browser sends it: no path, no slash at the end, no port that is the scheme's own. */
const origin = z.string().refine((text) => /^https?:[^*]+$/.test(text) && URL.parse(text)?.origin === text, {
  error: 'must be an origin, like https://app.example.com: a scheme, a host and perhaps a port, in lower case',
});

const httpSettings = z.strictObject({
  connections_max: z
    .int()
    .min(10)
    .default(connectionLimitsDefault.inAll)
    .describe('The most open connections of a port, and a quarter of the files that the process may open'),
  connections_per_address_max: z
    .int()
    .min(1)
    .default(connectionLimitsDefault.perAddress)
    .describe('The most open connections of a port from one address'),
  client_seconds: z
    .number()
    .min(0.1)
    .max(60)
    .default(connectionLimitsDefault.clientMs / 1000)
    .describe('How long a client may take for its TLS handshake, and for the body of a notification'),
  trusted_proxies: z
    .array(network)
    .max(100)
    .default([])
    .describe('The networks (CIDR) of proxies that are believed when they name the address of a client'),
});

const serviceSettings = z.strictObject({
  host: z.string().min(1).default('127.0.0.1').describe('Where it listens; 0.0.0.0 is every address of this machine'),
  port: z.int().min(0).max(65_535).default(8080).describe('0 takes a free port'),
  tls: z
    .strictObject({ cert_file: z.string().min(1), key_file: z.string().min(1) })
    .optional()
    .describe('A certificate (PEM): the service then speaks HTTPS; without it HTTP'),
  public_url: z
    .url({ protocol: /^https?$/, error: 'must be a URL, like https://sourcing.example.com' })
    .overwrite((url) => url.replace(/(?<!\/)\/+$/, ''))
    .optional()
    .describe('The beginning of links in answers, for a service behind a proxy; default: the host of the request'),
  body_bytes_max: z.int().min(1).default(10_485_760).describe('The longest body that is read'),
  cors_origins: z
    .array(origin)
    .max(100)
    .default([])
    .describe('The origins whose pages may call the API from a browser'),
  files: fileSettings.default({ store: 'local' }),
  file_bytes_max: z
    .int()
    .min(0)
    .default(1_073_741_824)
    .describe('What the files of an organisation may have together; the operator can set another limit for each'),
  submission_days: z
    .int()
    .min(1)
    .default(90)
    .describe('How long processed supplier submissions are kept, and what was sent with a job; the job stays'),
  delivery_log_days: z.int().min(1).default(30).describe('How long finished webhook deliveries are kept'),
  event_days: z
    .int()
    .min(1)
    .nullable()
    .default(null)
    .describe('How long bids, scenarios, answers and contacts of closed events are kept; null: for ever'),
  file_days: z
    .int()
    .min(1)
    .nullable()
    .default(null)
    .describe('How long files are kept that no open event has; null: for ever'),
});

const masterKey = z
  .string()
  .regex(/^\s*[A-Za-z0-9+/_-]{43}=?\s*$/, 'must be 32 bytes in base64; make one with: openssl rand -base64 32')
  .meta(secretMark);

export const configuration = z.strictObject({
  data_dir: z.string().min(1).default('./data').describe('The folder for the database, keys and certificates'),
  umask: z
    .string("must be a text in quotation marks, like '027'")
    .regex(/^0?[0-7]{3}$/, "must be octal digits, like '027'")
    .default('077')
    .describe('What other users may not do with new files of the programs: 077 nothing at all; 027 the group may read'),
  log_level: z
    .enum(['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'])
    .optional()
    .describe('Default: info for service and bridge, warn for start, error for demo'),
  database_url: z
    .url({ protocol: /^postgres(ql)?$/, error: 'must be like postgresql://user:password@host:5432/database' })
    .meta(secretMark)
    .optional()
    .describe('A PostgreSQL server (15 or newer); default: an embedded one'),
  migration_database_url: z
    .url({ protocol: /^postgres(ql)?$/, error: 'must be like postgresql://user:password@host:5432/database' })
    .meta(secretMark)
    .optional()
    .describe('The same database under the role that owns the tables, for `migrate`; default: database_url'),
  redis_url: z
    .url({ protocol: /^rediss?$/, error: 'must be like redis://host:6379 or rediss://:password@host:6379' })
    .meta(secretMark)
    .optional()
    .describe('Redis or Valkey for the queue; default: the queue is in PostgreSQL'),
  admin_token: z
    .string()
    .min(32, 'must have at least 32 characters; make one with: openssl rand -hex 24')
    .meta(secretMark)
    .optional()
    .describe('Bearer token of /admin, at least 32 characters; default: one is made and kept in the data folder'),
  master_key: masterKey
    .optional()
    .describe('32 bytes in base64 that seal secrets in the database; default: made and kept in the data folder'),
  previous_keys: z
    .array(masterKey)
    .max(10)
    .default([])
    .describe('Master keys of before, until `secrets rotate` has sealed everything under master_key'),
  sweep_seconds: z.number().min(0.1).default(5).describe('How often the sweep looks for due work without a signal'),
  action_days: z.int().min(31).default(730).describe('How long the audit logs of service and bridge are kept'),
  http: httpSettings.prefault({}).describe('The ports of the service and the bridge'),
  service: serviceSettings.prefault({}).describe('The Sourcing Service'),
  bridge: bridgeSettings.prefault({}).describe('The bridge'),
});

export interface Configuration extends z.infer<typeof configuration> {
  /** Every text that a variable of the environment has given: it may be a secret, whatever the setting is. */
  readonly fromEnvironment: readonly string[];
}

/** Variables of the environment that stand for a setting; docs/reference/settings.md names them. */
export const variables = {
  DATABASE_URL: 'database_url',
  MIGRATION_DATABASE_URL: 'migration_database_url',
  REDIS_URL: 'redis_url',
  DATA_DIR: 'data_dir',
  LOG_LEVEL: 'log_level',
  SOURCING_ADMIN_TOKEN: 'admin_token',
  SOURCING_MASTER_KEY: 'master_key',
};

/**
 * Reads the file and the environment, and .env beside the file, which the environment overrides; `overrides` (from the command line) override both. Throws an AppError `invalid`
 * that names every wrong setting. With `withoutSecrets` the variables of an ERP or a source need not be set: the command
 * calls neither.
 */
export function readConfiguration(
  file: string | undefined,
  overrides: { data?: string | undefined } = {},
  env: Readonly<Record<string, string | undefined>> = process.env,
  { withoutSecrets = false }: { withoutSecrets?: boolean } = {},
): Configuration {
  const path = file ?? presentFile() ?? 'config/bridge.yaml';
  const { fromEnvironment, settings: read } = loadConfiguration({
    schema: configuration,
    file: { path, required: file !== undefined },
    env: { ...variablesBeside(path), ...env },
    variables,
    ...(withoutSecrets && { mayLack: isForeignSecret }),
  });
  return { ...read, ...(overrides.data !== undefined && { data_dir: overrides.data }), fromEnvironment };
}

/** Where a configuration is looked for when the command names none; `init` writes the first. */
const defaultFiles = ['bridge.yaml', 'config/bridge.yaml'];

/** The file that is read when the command names none; undefined: there is none. */
export function presentFile(): string | undefined {
  return defaultFiles.find((known) => existsSync(known));
}

/** The .env that is read with this configuration. */
export function variablesFileBeside(path: string): string {
  return join(dirname(path), '.env');
}

/** The variables of .env beside the configuration that have a value. Throws an AppError `invalid` when it is unreadable. */
function variablesBeside(path: string): Record<string, string | undefined> {
  const file = variablesFileBeside(path);
  if (!existsSync(path) || !existsSync(file)) return {};
  try {
    // Some editors put a byte order mark before the first name.
    const text = readFileSync(file, 'utf8').replace(/^\uFEFF/, '');
    return Object.fromEntries(Object.entries(parseEnv(text)).filter(([, value]) => value !== ''));
  } catch (cause) {
    throw new AppError('invalid', `${file} cannot be read: ${errorText(cause)}`, { cause });
  }
}

const secretsOfAlerts = new Set(['url', 'header', 'user', 'password']);

/**
 * What only the processes need: the settings of connectors and alerts, logins at sources, and the console's own secrets.
 */
function isForeignSecret([top, list, index, name]: Path): boolean {
  if (top !== 'bridge') return false;
  if (list === 'console_token' || (list === 'console_login' && index === 'openid')) return true;
  return (
    (list === 'alerts' && secretsOfAlerts.has(String(name))) ||
    (list === 'flows' && name === 'settings') ||
    (list === 'sources' && (name === 'api_key' || name === 'signing_keys' || name === 'bearer'))
  );
}
