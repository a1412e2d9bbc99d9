/**
 * Logs: JSON lines on standard error. Values under a secret's name are replaced before they are written: at any depth,
 * and in the bindings of child loggers. Passwords in URLs and bearer tokens are replaced in any text, and long texts are
 * cut. Of an error, a line shows its type, message, stack and code and those of its causes. Info lines mark boot and changes of state, not records.
 */
import { types } from 'node:util';
import { type DestinationStream, type Logger, pino } from 'pino';
import { censor, isSecretName } from './secret-names.ts';
import { traceFields } from './telemetry.ts';

export type { Logger } from 'pino';

const depthMax = 12;
/** Of an error's chain of causes, and characters of its texts. */
const causesMax = 5;
const messageMax = 2_000;
const stackMax = 4_000;
/** Characters of any other text in a line: what comes from outside may have megabytes. */
const textMax = 8_000;
/** Characters of a secret in a text, with what shows that it is one. */
const secretMax = 4_000;

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
      mixin: traceFields,
      hooks: {
        streamWrite: redactText,
        logMethod(args, method) {
          const cut = args.map((arg: unknown) => (typeof arg === 'string' ? shortText(arg, textMax) : arg));
          method.apply(this, cut as typeof args);
        },
      },
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
  if (typeof value === 'string') return shortText(value, textMax);
  if (typeof value !== 'object' || value === null) return value;
  if (isError(value)) return loggedError(value);
  if (around.includes(value)) return '[circular]';
  if (around.length >= depthMax) return '[deep]';
  const inside = [...around, value];
  if (Array.isArray(value)) return value.map((item) => redact(item, inside));
  if (value instanceof Map) return redact(Object.fromEntries(value), inside);
  if (value instanceof Uint8Array) return `[${value.length} bytes]`;
  if ('toJSON' in value && typeof value.toJSON === 'function') return redact(value.toJSON(), inside);
  return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, redactMember(name, item, inside)]));
}

function redactMember(name: string, item: unknown, around: readonly object[]): unknown {
  if (isSecretName(name)) return censor;
  // Foreign code may throw any object.
  return name === 'err' && typeof item === 'object' && item !== null ? loggedError(item) : redact(item, around);
}

/** What a line says of an error: this, and nothing else that hangs on it. */
interface LoggedError {
  readonly type: string;
  readonly message: string;
  readonly stack?: string;
  readonly code?: string | number;
  readonly cause?: LoggedError | string;
}

/**
 * An error as a line shows it. Errors of drivers carry their client, their socket and what they were sent: none of it is
 * written. Causes beyond the fifth are left out, and texts are cut. Never throws, whatever the error's members do.
 */
function loggedError(error: unknown, causesLeft = causesMax, seen: readonly unknown[] = []): LoggedError | string {
  if (typeof error !== 'object' || error === null) return shortText(error, messageMax);
  const type = shortText(attempted(() => (error.constructor as { name?: unknown } | undefined)?.name) || 'Error', 100);
  const [stack, code, cause] = (['stack', 'code', 'cause'] as const).map((name) =>
    attempted(() => (error as Readonly<Record<string, unknown>>)[name]),
  );
  const isShown = cause !== undefined && cause !== null && causesLeft > 0 && !seen.includes(cause) && cause !== error;
  return {
    type,
    message: shortText(messageOf(error), messageMax),
    ...(typeof stack === 'string' && { stack: shortText(stack, stackMax) }),
    ...(typeof code === 'number' && { code }),
    ...(typeof code === 'string' && { code: shortText(code, 100) }),
    ...(isShown && { cause: loggedError(cause, causesLeft - 1, [...seen, error]) }),
  };
}

function isError(value: unknown): value is Error {
  return attempted(() => value instanceof Error) === true || types.isNativeError(value);
}

/** Node's error for a host with several addresses has no text of its own, only errors for each address. */
function messageOf(error: object): string {
  const textOf = (value: unknown) => {
    const message: unknown = attempted(() => (value as { message?: unknown }).message);
    return typeof message === 'string' ? message : '';
  };
  const errors: unknown = attempted(() => (error as { errors?: unknown }).errors);
  const texts = Array.isArray(errors) ? errors.slice(0, causesMax).map(textOf) : [];
  return textOf(error) || texts.join('; ') || 'an error that has no text';
}

/** Secrets are replaced before the cut: half of one would not be recognised. */
function shortText(value: unknown, charactersMax: number): string {
  const text = attempted(() => String(value)) ?? 'a value that has no text';
  if (text.length <= charactersMax) return text;
  return `${redactText(text.slice(0, charactersMax + secretMax)).slice(0, charactersMax)}...`;
}

function attempted<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch {
    return undefined;
  }
}

/**
 * Replaces the secrets of `postgresql://user:password@host` and `Bearer token`, wherever they stand in a line. Both
 * patterns begin with fixed text, and no part of the line is tried for more than one beginning: the time grows with the
 * line, not faster.
 */
export function redactText(line: string): string {
  return line
    .replaceAll(/(:\/\/[^/\s:@"\\]*:)[^/\s"\\]+@/g, `$1${censor}@`)
    .replaceAll(/\b(Bearer|Basic) +[A-Za-z0-9._~+/=-]{8,}/gi, `$1 ${censor}`);
}
