/** The whole configuration: one file, `config/bridge.yaml` unless another is named, and the environment. */
import { z } from 'zod';
import { bridgeSettings } from '#bridge/settings.ts';
import { loadConfiguration } from '#platform/configuration.ts';

export const configuration = z.strictObject({
  data_dir: z.string().min(1).default('./data').describe('Everything that is kept: database, keys, certificates'),
  log_level: z.enum(['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent']).optional(),
  database_url: z.string().min(1).optional().describe('A PostgreSQL server (15 or newer); without it one is embedded'),
  redis_url: z.string().min(1).optional().describe('Redis or Valkey for the queue; without it PostgreSQL is the queue'),
  admin_token: z
    .string()
    .min(16)
    .optional()
    .describe('Bearer token of /admin; made and kept in the data directory if not set'),
  master_key: z.string().min(1).optional().describe('32 bytes in base64 that seal secrets at rest; likewise'),
  sweep_seconds: z.number().min(0.1).default(5).describe('How often work is looked for that no signal announced'),
  service: z
    .strictObject({
      host: z.string().default('127.0.0.1'),
      port: z.int().min(0).max(65_535).default(8080),
      public_url: z
        .url({ protocol: /^https?$/ })
        .optional()
        .describe('What links in answers start with, behind a proxy'),
      body_bytes_max: z.int().min(1).default(10_485_760),
    })
    .default({ host: '127.0.0.1', port: 8080, body_bytes_max: 10_485_760 }),
  bridge: bridgeSettings.default(bridgeSettings.parse({})),
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

/** Reads the file and the environment; `overrides` (from the command line) come last. Throws AppError `invalid`. */
export function readConfiguration(
  file: string | undefined,
  overrides: { data?: string | undefined } = {},
): Configuration {
  const read = loadConfiguration({
    schema: configuration,
    file: { path: file ?? 'config/bridge.yaml', required: file !== undefined },
    env: process.env,
    variables,
  });
  return overrides.data === undefined ? read : { ...read, data_dir: overrides.data };
}
