/**
 * Logs: JSON lines on standard error. Values under a secret's name are replaced before they are written: at any depth,
 * in errors and their causes, and in the bindings of child loggers. Passwords in URLs and bearer tokens are replaced in
 * any text. Info lines mark boot and changes of state, not records.
 */
import { type DestinationStream, type Logger, pino, stdSerializers } from 'pino';
import { isSecretName } from './secret-names.ts';

export type { Logger } from 'pino';

/** Replaces a secret. */
export const censor = '[secret]';
const depthMax = 12;

/** Creates the process's logger; `destination` is standard error unless a test passes its own. */
export function createLogger(options: { level: string; name: string; destination?: DestinationStream }): Logger {
  const log = pino(
    {
      name: options.name,
      level: options.level,
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }), log: redactObject },
      // `redactObject` has redacted errors already, also inside objects, which a serializer does not reach.
      serializers: { err: (err: unknown) => err },
      hooks: { streamWrite: redactText },
    },
    options.destination ?? pino.destination({ dest: 2, sync: true }),
  );
  // A child's bindings pass no formatter, so they are redacted here. The child's own children inherit this method.
  const createChild = Reflect.get(log, 'child');
  log.child = function child(this: Logger, bindings: object, ...rest: []) {
    return createChild.call(this, redactObject(bindings), ...rest);
  } as Logger['child'];
  return log;
}

/** A logger that writes nothing, for programs that print for people (the CLI) and for tests. */
export const silentLogger: Logger = pino({ level: 'silent' });

function redactObject(object: object): Record<string, unknown> {
  return redact(object, []) as Record<string, unknown>;
}

/** Returns a copy without secrets. A circular or too deep value is replaced by its name in brackets. */
function redact(value: unknown, around: readonly object[]): unknown {
  if (typeof value !== 'object' || value === null) return value;
  if (around.includes(value)) return '[circular]';
  if (around.length >= depthMax) return '[deep]';
  const inside = [...around, value];
  if (value instanceof Error) return redactError(value, inside);
  if (Array.isArray(value)) return value.map((item) => redact(item, inside));
  if (value instanceof Map) return redact(Object.fromEntries(value), inside);
  if (value instanceof Uint8Array) return `[${value.length} bytes]`;
  if ('toJSON' in value && typeof value.toJSON === 'function') return redact(value.toJSON(), inside);
  const pairs = value instanceof Headers ? [...value] : Object.entries(value);
  return Object.fromEntries(pairs.map(([name, item]) => [name, isSecretName(name) ? censor : redact(item, inside)]));
}

/**
 * Type, text and stack, with those of the causes, and the error's own fields; a cause's own fields go under `cause`.
 */
function redactError(error: Error, around: readonly object[]): unknown {
  const { raw: _raw, ...fields } = stdSerializers.err(error);
  const own = redact(fields, around) as Record<string, unknown>;
  const { cause } = error;
  if (typeof cause !== 'object' || cause === null) return cause === undefined ? own : { ...own, cause };
  const { message: _message, stack: _stack, ...facts } = Object(redact(cause, around)) as Record<string, unknown>;
  return { ...own, cause: facts };
}

/** Replaces the secrets of `postgresql://user:password@host` and `Bearer token`, wherever they stand in a line. */
export function redactText(line: string): string {
  return line
    .replaceAll(/([a-z][a-z0-9+.-]*:\/\/[^/\s:@"\\]*:)[^/\s"\\]+@/gi, `$1${censor}@`)
    .replaceAll(/\b(Bearer|Basic) +[A-Za-z0-9._~+/=-]{8,}/gi, `$1 ${censor}`);
}
