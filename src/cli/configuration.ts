/** The whole configuration: one file, `config/bridge.yaml` unless the command names another, and the environment. */
import { z } from 'zod';
import { bridgeSettings } from '#bridge/settings.ts';
import { loadConfiguration } from '#platform/configuration.ts';

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
          bucket: z.string().min(3).max(63).describe('It must exist'),
          region: z.string().min(1).default('us-east-1').describe('Most stores other than Amazon’s accept any region'),
          endpoint: z
            .url({ protocol: /^https?$/, error: 'must be a URL, like https://s3.example.com' })
            .optional()
            .describe('URL of a store other than Amazon’s'),
          path_style: z
            .boolean()
            .optional()
            .describe('The bucket stands in the path, not in the host name; true when endpoint is set'),
          prefix: z.string().max(200).default('').describe('The beginning of the key of each file'),
          access_key_id: z
            .string()
            .min(1)
            .optional()
            .describe('Default: the credentials of the machine’s role or of AWS_* variables'),
          secret_access_key: z.string().min(1).optional().describe('Belongs to access_key_id'),
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

const serviceSettings = z.strictObject({
  host: z.string().min(1).default('127.0.0.1').describe('Where it listens; 0.0.0.0 is every address of this machine'),
  port: z.int().min(0).max(65_535).default(8080).describe('0 takes a free port'),
  public_url: z
    .url({ protocol: /^https?$/, error: 'must be a URL, like https://sourcing.example.com' })
    .overwrite((url) => url.replace(/\/+$/, ''))
    .optional()
    .describe('The beginning of links in answers, for a service behind a proxy; default: the host of the request'),
  body_bytes_max: z.int().min(1).default(10_485_760).describe('The longest body that is read'),
  cors_origins: z
    .array(origin)
    .max(100)
    .default([])
    .describe('The origins whose pages may call the API from a browser'),
  files: fileSettings.default({ store: 'local' }),
  delivery_log_days: z.int().min(1).default(30).describe('How long finished webhook deliveries are kept'),
});

export const configuration = z.strictObject({
  data_dir: z.string().min(1).default('./data').describe('The folder for the database, keys and certificates'),
  log_level: z
    .enum(['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'])
    .optional()
    .describe('Default: info for service and bridge, warn for start, error for demo'),
  database_url: z
    .url({ protocol: /^postgres(ql)?$/, error: 'must be like postgresql://user:password@host:5432/database' })
    .optional()
    .describe('A PostgreSQL server (15 or newer); default: an embedded one'),
  redis_url: z
    .url({ protocol: /^rediss?$/, error: 'must be like redis://host:6379 or rediss://:password@host:6379' })
    .optional()
    .describe('Redis or Valkey for the queue; default: the queue is in PostgreSQL'),
  admin_token: z
    .string()
    .min(16)
    .optional()
    .describe('Bearer token of /admin; default: one is made and kept in the data folder'),
  master_key: z
    .string()
    .regex(/^\s*[A-Za-z0-9+/_-]{43}=?\s*$/, 'must be 32 bytes in base64; make one with: openssl rand -base64 32')
    .optional()
    .describe('32 bytes in base64 that seal secrets in the database; default: made and kept in the data folder'),
  sweep_seconds: z.number().min(0.1).default(5).describe('How often the sweep looks for due work without a signal'),
  service: serviceSettings.prefault({}).describe('The Sourcing Service'),
  bridge: bridgeSettings.prefault({}).describe('The bridge'),
});

export type Configuration = z.infer<typeof configuration>;

const variables = {
  DATABASE_URL: 'database_url',
  REDIS_URL: 'redis_url',
  DATA_DIR: 'data_dir',
  LOG_LEVEL: 'log_level',
  SOURCING_ADMIN_TOKEN: 'admin_token',
  SOURCING_MASTER_KEY: 'master_key',
};

/**
 * Reads the file and the environment; `overrides` (from the command line) override both. Throws an AppError `invalid`
 * that names every wrong setting.
 */
export function readConfiguration(
  file: string | undefined,
  overrides: { data?: string | undefined } = {},
  env: Readonly<Record<string, string | undefined>> = process.env,
): Configuration {
  const read = loadConfiguration({
    schema: configuration,
    file: { path: file ?? 'config/bridge.yaml', required: file !== undefined },
    env,
    variables,
  });
  return overrides.data === undefined ? read : { ...read, data_dir: overrides.data };
}
