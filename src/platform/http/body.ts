/**
 * Request bodies: read as bytes up to a limit, and parsed as JSON that the database can hold. Text that PostgreSQL or
 * UTF-8 would refuse or silently change (NUL, lone surrogates, invalid bytes) is refused here, so that the sender gets
 * a clear answer.
 */
import type { IncomingMessage } from 'node:http';
import type { Issue } from '#contract/issue.ts';
import { AppError, errorText } from '../errors.ts';
import { checkJsonBounds } from '../exact-json.ts';
import { pathText } from '../input.ts';
import type { UnverifiedBody } from './unverified-bytes.ts';

const depthMax = 64;
/** Memory for one body is bounded by these: ten megabytes may hold more than three million values. */
const valuesMax = 2_000_000;
/** One decoder for all bodies: it keeps no state from one text to the next. */
const decoder = new TextDecoder('utf-8', { fatal: true });

export interface BodyBounds {
  /** How long the body may take, counted from its first byte. */
  withinMs?: number;
  /** Where the bytes count while it is not known who sends them. The caller ends it. */
  unverified?: UnverifiedBody;
}

/**
 * Reads the whole body. Rejects with `too-large` as soon as more than `bytesMax` bytes are announced or have arrived,
 * with `too-slow` or `unavailable` beyond the other bounds, and with `invalid` when the body breaks off.
 */
export async function readBody(request: IncomingMessage, bytesMax: number, bounds: BodyBounds = {}): Promise<Buffer> {
  return await openBody(request, bytesMax, bounds).readAll();
}

/** A body that is read in two steps: its beginning shows whether it is small, and the rest waits until it is wanted. */
export interface OpenBody {
  readonly bytesMax: number;
  /** The length that the client has announced; undefined when the body comes in chunks. */
  readonly announcedBytes: number | undefined;
  /**
   * Reads until the body has ended, and returns true; or returns false as soon as it is known to be longer than `bytes`.
   * The rest stays with the sender. Rejects as `readBody` does.
   */
  isWithin(bytes: number): Promise<boolean>;
  /** Reads to the end, and returns the whole body. Rejects as `readBody` does. */
  readAll(): Promise<Buffer>;
}

/**
 * Opens the body of a request. Throws `too-large` when more than `bytesMax` bytes are announced. It listens to the
 * request's events: for a small body an iterator would cost more than all the rest.
 */
export function openBody(
  request: IncomingMessage,
  bytesMax: number,
  { withinMs, unverified }: BodyBounds = {},
): OpenBody {
  const announced = announcedBytes(request);
  if (announced !== undefined && announced > bytesMax) throw tooLarge(bytesMax);
  const chunks: Buffer[] = [];
  let length = 0;
  let hasEnded = false;

  /** Resolves to whether the body has ended; false when it is longer than `bytes`. */
  const readUpTo = (bytes: number) =>
    new Promise<boolean>((resolve, reject) => {
      let timer: NodeJS.Timeout | undefined;
      const stopListening = () => {
        clearTimeout(timer);
        request.off('data', onData).off('end', onEnd).off('error', onBreak).off('close', onBreak);
      };
      const refuse = (error: AppError) => {
        stopListening();
        request.pause();
        chunks.length = 0;
        reject(error);
      };
      const onData = (chunk: Buffer) => {
        chunks.push(chunk);
        length += chunk.length;
        if (length > bytesMax) refuse(tooLarge(bytesMax));
        else if (length > bytes) {
          stopListening();
          request.pause();
          resolve(false);
        } else {
          if (withinMs !== undefined && length !== announced)
            timer ??= setTimeout(() => refuse(tooSlow(withinMs)), withinMs);
          unverified?.add(chunk.length, refuse);
        }
      };
      // The listeners go with the request, which has ended: removing them would cost as much as the rest.
      const onEnd = () => {
        clearTimeout(timer);
        hasEnded = true;
        resolve(true);
      };
      const onBreak = (cause?: unknown) => {
        if (hasEnded) return;
        stopListening();
        reject(brokenOff(cause));
      };
      if (request.readableEnded) onEnd();
      else if (request.destroyed) onBreak();
      else request.on('data', onData).on('end', onEnd).on('error', onBreak).on('close', onBreak).resume();
    });

  const whole = () => (chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks, length));

  return {
    bytesMax,
    announcedBytes: announced,
    isWithin: async (bytes) => {
      if (hasEnded) return length <= bytes;
      return length <= bytes && (announced ?? 0) <= bytes && (await readUpTo(bytes));
    },
    readAll: () => (hasEnded ? Promise.resolve(whole()) : readUpTo(bytesMax).then(whole)),
  };
}

function announcedBytes({ headers }: IncomingMessage): number | undefined {
  return headers['content-length'] === undefined ? undefined : Number(headers['content-length']);
}

function tooLarge(bytesMax: number): AppError {
  return new AppError('too-large', `The body is larger than the limit of ${bytesMax} bytes.`);
}

function tooSlow(withinMs: number): AppError {
  return new AppError('too-slow', `The body did not come within ${withinMs / 1000} s of its first byte.`);
}

function brokenOff(cause: unknown): AppError {
  return new AppError('invalid', 'The body broke off before its end.', { cause });
}

/** The body in chunks as they arrive. Throws as `readBody` does. */
export async function* bodyChunks(request: IncomingMessage, bytesMax: number): AsyncGenerator<Buffer, void, undefined> {
  if ((announcedBytes(request) ?? 0) > bytesMax) throw tooLarge(bytesMax);
  let length = 0;
  // An ordinary iterator that ends early would destroy the connection, and the refusal could not be sent.
  const chunks = request.iterator({ destroyOnReturn: false }) as AsyncIterator<Buffer, undefined>;
  try {
    for (;;) {
      const next = await chunks.next().catch((cause: unknown) => {
        throw brokenOff(cause);
      });
      if (next.done === true) return;
      length += next.value.length;
      if (length > bytesMax) throw tooLarge(bytesMax);
      yield next.value;
    }
  } finally {
    await chunks.return?.();
  }
}

/** Parses JSON. Throws `invalid` with the place of the fault. An empty body is undefined. */
export function parseJson(bytes: Uint8Array): unknown {
  if (bytes.length === 0) return undefined;
  let text: string;
  try {
    text = decoder.decode(bytes);
  } catch (cause) {
    throw new AppError('invalid', 'The body is not valid UTF-8.', { cause });
  }
  try {
    checkJsonBounds(text, { depthMax, valuesMax });
  } catch (cause) {
    const message = errorText(cause);
    throw new AppError('invalid', `The body ${message}.`, { cause, issues: [{ path: '', message }] });
  }
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    // V8's message may quote the text around the fault, which may be a secret: only the position at its end is used.
    const position = / JSON at position (\d+)(?: \(line \d+ column \d+\))?$/.exec(errorText(cause))?.[1];
    throw new AppError('invalid', `The body is not valid JSON${position ? ` (at character ${position})` : ''}.`, {
      message: 'invalid JSON body',
    });
  }
  // What was decoded has neither NUL nor half of a surrogate pair but by an escape.
  if (text.includes('\\')) refuseUnstorable(value, 'The body');
  return value;
}

/** Throws `invalid` with the first place that PostgreSQL or UTF-8 cannot hold. `what` begins the message. */
export function refuseUnstorable(value: unknown, what: string): void {
  const issue = findUnstorable(value, []);
  if (!issue) return;
  const place = issue.path === '' ? '' : `${issue.path} `;
  throw new AppError('invalid', `${what} is not valid: ${place}${issue.message}.`, { issues: [issue] });
}

/**
 * `path` is the place of `value`. One array serves for the whole traversal, since a body may have millions of values.
 */
function findUnstorable(value: unknown, path: (string | number)[]): Issue | undefined {
  if (typeof value === 'string') return findInText(value, path);
  if (typeof value !== 'object' || value === null) return undefined;
  if (Array.isArray(value)) {
    for (const [index, item] of value.entries()) {
      path.push(index);
      const issue = findUnstorable(item, path);
      if (issue) return issue;
      path.pop();
    }
    return undefined;
  }
  for (const key of Object.keys(value)) {
    const keyIssue = findInText(key, path);
    if (keyIssue) return { ...keyIssue, message: `has a field whose name ${keyIssue.message}` };
    path.push(key);
    const issue = findUnstorable((value as Record<string, unknown>)[key], path);
    if (issue) return issue;
    path.pop();
  }
  return undefined;
}

function findInText(text: string, path: (string | number)[]): Issue | undefined {
  if (text.includes('\u0000')) return { path: pathText(path), message: 'contains a NUL character' };
  if (!text.isWellFormed()) return { path: pathText(path), message: 'contains half of a surrogate pair' };
  return undefined;
}
