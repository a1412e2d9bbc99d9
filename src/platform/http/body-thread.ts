/**
 * A thread that checks large bodies, so that no body holds up the calls of others while it is parsed. It starts with the
 * first large body, checks one at a time, and ends when none has come for a while. A body that breaks its limits of time
 * or memory ends the thread and is refused; the next body gets a new one.
 */
import { createHash } from 'node:crypto';
import { parentPort, Worker } from 'node:worker_threads';
import { type Issue, issuesMax } from '#contract/issue.ts';
import { AppError, type ErrorCode } from '../errors.ts';
import { type BodyRules, checkBody } from './check-body.ts';
import { toAppError } from './problem.ts';

/** A body that was accepted, and the SHA-256 of its bytes. */
export interface CheckedBody {
  readonly body: unknown;
  readonly hash: Buffer;
}

export interface BodyThread {
  /**
   * Checks a body by the rules of this endpoint, named by method and path. The bytes are given away: they cannot be read
   * afterwards. Throws what `checkBody` throws, and `too-large` for a body that takes too much time or memory.
   */
  check(endpoint: { method: string; path: string }, bytes: Buffer): Promise<CheckedBody>;
  /** Ends the thread. */
  close(): Promise<void>;
}

interface Order {
  readonly rules: string;
  readonly bytes: Uint8Array;
}

type Report =
  | { readonly json: string | undefined; readonly hash: Uint8Array }
  | { readonly code: ErrorCode; readonly publicMessage: string; readonly message: string; readonly issues: Issue[] };

/** Bodies of 10 MB need a few seconds on a busy machine. */
const checkMs = 30_000;
/** Ten megabytes of JSON with as many values as are allowed need less. */
const heapMegabytes = 512;
const idleMs = 30_000;

/** `entry` is a module that calls `serveBodyChecks`, and finds `data` as its `workerData`. No thread is started yet. */
export function createBodyThread(entry: URL, data?: string): BodyThread {
  let running: Worker | undefined;
  let idle: NodeJS.Timeout | undefined;
  let last: Promise<unknown> = Promise.resolve();

  async function end(): Promise<void> {
    clearTimeout(idle);
    const ended = running;
    running = undefined;
    await ended?.terminate();
  }

  async function ask(order: Order): Promise<CheckedBody> {
    clearTimeout(idle);
    running ??= startThread(entry, data);
    const report = await reportOf(running, order).catch(async (cause: unknown) => {
      await end();
      throw cause;
    });
    idle = setTimeout(() => void end(), idleMs).unref();
    if ('code' in report) {
      const { code, publicMessage, message, issues } = report;
      throw new AppError(code, publicMessage, { message, issues });
    }
    const { json, hash } = report;
    return { body: json === undefined ? undefined : JSON.parse(json), hash: Buffer.from(hash) };
  }

  return {
    check: ({ method, path }, bytes) => {
      const result = last.then(() => ask({ rules: `${method} ${path}`, bytes: ownBytes(bytes) }));
      last = result.catch(() => undefined);
      return result;
    },
    close: async () => {
      await last;
      await end();
    },
  };
}

function startThread(entry: URL, data: string | undefined): Worker {
  const worker = new Worker(entry, {
    name: 'body checks',
    workerData: data,
    execArgv: [],
    resourceLimits: { maxOldGenerationSizeMb: heapMegabytes },
  });
  // An error between two bodies must not end the process: the next body finds out.
  return worker.on('error', () => undefined);
}

/** Rejects with `too-large` when the thread ends, or takes too long. */
async function reportOf(worker: Worker, order: Order): Promise<Report> {
  const { promise, resolve, reject } = Promise.withResolvers<Report>();
  const tooMuch = (cause?: unknown) =>
    reject(new AppError('too-large', 'The body takes too long, or too much memory, to be checked.', { cause }));
  const timer = setTimeout(tooMuch, checkMs);
  worker.once('message', resolve).once('error', tooMuch).once('exit', tooMuch);
  worker.postMessage(order, [order.bytes.buffer as ArrayBuffer]);
  try {
    return await promise;
  } finally {
    clearTimeout(timer);
    worker.off('message', resolve).off('error', tooMuch).off('exit', tooMuch);
  }
}

/** Bytes that lie in memory of their own can be handed over without a copy. */
function ownBytes(bytes: Buffer): Uint8Array {
  return bytes.byteLength === bytes.buffer.byteLength ? bytes : Uint8Array.from(bytes);
}

/** Checks bodies in this thread for the thread that has started it. */
export function serveBodyChecks(table: readonly BodyRules[]): void {
  const byName = new Map(table.map((rules) => [`${rules.method} ${rules.path}`, rules]));
  const port = parentPort;
  port?.on('message', ({ rules: name, bytes }: Order) => {
    try {
      const rules = byName.get(name);
      if (!rules) throw new Error(`no endpoint is named ${name}`);
      const json = JSON.stringify(checkBody(rules, bytes));
      port.postMessage({ json, hash: createHash('sha256').update(bytes).digest() } satisfies Report);
    } catch (error) {
      const { code, publicMessage, message, cause, issues } = toAppError(error);
      const text = cause instanceof Error ? `${message}: ${cause.stack}` : message;
      port.postMessage({ code, publicMessage, message: text, issues: issues.slice(0, issuesMax) } satisfies Report);
    }
  });
}
