/**
 * Logs: JSON lines on standard error. Values under a secret's name are replaced before they are written, at any depth
 * that our own objects have; info lines mark boot and changes of state, not records.
 */
import { type DestinationStream, type Logger, pino } from 'pino';

export type { Logger } from 'pino';

const secretNames = [
  'authorization',
  'api_key',
  'apiKey',
  'key',
  'password',
  'secret',
  'signing_key',
  'signingKey',
  'client_secret',
  'clientSecret',
  'access_token',
  'accessToken',
  'adminToken',
  'masterKey',
  'cookie',
];

const redactedPaths = ['', '*.', '*.*.'].flatMap((prefix) => secretNames.map((name) => `${prefix}${name}`));

/** Creates the process's logger; `destination` is standard error unless a test gives its own. */
export function createLogger(options: { level: string; name: string; destination?: DestinationStream }): Logger {
  return pino(
    {
      name: options.name,
      level: options.level,
      redact: { paths: [...redactedPaths, 'err.config', 'req.headers.authorization'], censor: '[secret]' },
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
    },
    options.destination ?? pino.destination({ dest: 2, sync: true }),
  );
}

/** A logger that writes nothing, for programs that speak to a person (the CLI) and for tests. */
export const silentLogger: Logger = pino({ level: 'silent' });
