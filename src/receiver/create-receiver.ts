/**
 * Verifies and parses the notifications that a sourcing service sends to a webhook, in anybody's web server.
 *
 *     const receiver = createReceiver({
 *       signingKeys: [process.env.SIGNING_KEY],
 *       on: { AWARDS_FEED_UPDATED: async ({ payload }) => readAwardsOf(payload.sourcing_event) },
 *     });
 *     const response = await receiver.handle(request);   // web-standard Request and Response
 *
 * The signature is verified over the bytes as they came, before anything is parsed, in constant time, against every key.
 * A notification is answered with 200 after its handler has ended, so that a crash costs a repetition and no
 * notification. It says that there is something to read: the handler reads the feed from its own checkpoint.
 */
import { createHash } from 'node:crypto';
import { isSignedWith, readSignature } from '#contract/signature.ts';
import { msFromTimestamp } from '#contract/timestamp.ts';
import { notification } from '#contract/webhook.ts';
import { memoryStore } from './memory-store.ts';
import { type NotificationStore, newToken } from './notification-store.ts';
import { type NotificationHandlers, payloadSchemaOf, type VerifiedNotification } from './notifications.ts';

export interface ReceiverOptions {
  /** The webhook's `signing_key`; several while a key is rotated. Read at each notification when it is a function. */
  readonly signingKeys: readonly string[] | (() => readonly string[] | Promise<readonly string[]>);
  readonly on: NotificationHandlers;
  /** Where handled notifications are remembered. Default: in this process. */
  readonly store?: NotificationStore;
  /** The longest body. Default: 1 MiB. */
  readonly bodyBytesMax?: number;
  /** A notification whose time differs from now by more is acknowledged and does nothing. Default: four days. */
  readonly freshnessMs?: number;
  /** Gets what a handler or the store threw; the answer is then 500. Default: printed on standard error. */
  readonly onError?: (error: unknown, notification: VerifiedNotification | undefined) => void;
  readonly nowMs?: () => number;
}

/** What is answered, for servers without `Response`. */
export interface ReceiverAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  /** JSON. */
  readonly body: string;
}

export interface NotificationReceiver {
  /** Never rejects. */
  handle(request: Request): Promise<Response>;
  /**
   * The same of parts, for adapters. `readBody` is called when the header has the form of a signature, and resolves to the
   * bytes as they came, undefined when there are more than `bytesMax` or they broke off. Never rejects.
   */
  receive(request: {
    readonly method: string;
    readonly signature: string | undefined;
    readonly readBody: (bytesMax: number) => Promise<Uint8Array | undefined>;
  }): Promise<ReceiverAnswer>;
}

const bodyBytesDefault = 1024 * 1024;
const freshnessDefaultMs = 4 * 86_400_000;

/** Creates a receiver. Throws when `signingKeys` is a list without a key, because it would refuse everything. */
export function createReceiver(options: ReceiverOptions): NotificationReceiver {
  const { signingKeys, on, store = memoryStore(), nowMs = Date.now } = options;
  const { bodyBytesMax = bodyBytesDefault, freshnessMs = freshnessDefaultMs, onError = printError } = options;
  if (typeof signingKeys !== 'function' && !signingKeys.some((key) => key !== ''))
    throw new Error('createReceiver needs the signing_key of the webhook in signingKeys.');

  const receive: NotificationReceiver['receive'] = async ({ method, signature: header, readBody }) => {
    let known: VerifiedNotification | undefined;
    try {
      if (method !== 'POST') return answer(405, 'Notifications are sent with POST.', { allow: 'POST' });
      // A body that cannot be genuine is not read.
      const signature = readSignature(header);
      if (!signature) return answer(401, 'The signature is missing.');
      const body = await readBody(bodyBytesMax);
      if (body === undefined)
        return answer(413, `The body is longer than ${bodyBytesMax} bytes, or did not arrive whole.`);
      const keys = typeof signingKeys === 'function' ? await signingKeys() : signingKeys;
      if (!isSignedWith(keys, body, signature)) return answer(401, 'The signature is wrong.');
      const parsed = parse(body);
      if (typeof parsed === 'string') return answer(400, parsed);
      known = parsed;
      if (Math.abs(nowMs() - msFromTimestamp(known.timestamp)) > freshnessMs) return answer(200, 'stale');
      return await handleOnce(known);
    } catch (error) {
      onError(error, known);
      return answer(500, 'The notification could not be handled.');
    }
  };

  async function handleOnce(received: VerifiedNotification): Promise<ReceiverAnswer> {
    const token = newToken();
    const state = await store.begin(received.id, token);
    if (state === 'done') return answer(200, 'repeated');
    if (state === 'running') return answer(503, 'It is being handled.', { 'retry-after': '5' });
    try {
      await handlerOf(on, received.trigger)?.(received);
    } catch (error) {
      // If this fails too, the lease ends by itself; the handler's error says more.
      await store.abandon(received.id, token).catch(() => undefined);
      throw error;
    }
    await store.finish(received.id, token);
    return answer(200, 'accepted');
  }

  return {
    receive,
    handle: async (request) => {
      const { status, headers, body } = await receive({
        method: request.method,
        signature: request.headers.get('x-signature') ?? undefined,
        readBody: (bytesMax) => readStream(request.body, bytesMax),
      });
      return new Response(body, { status, headers });
    },
  };
}

/** Returns the notification, or what is wrong with it. */
function parse(body: Uint8Array): VerifiedNotification | string {
  let json: unknown;
  try {
    json = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(body));
  } catch {
    return 'The body is no JSON in UTF-8.';
  }
  const read = notification.safeParse(json);
  if (!read.success) return `The notification is not as documented: ${pathsOf(read.error.issues)}.`;
  const { trigger, timestamp } = read.data;
  const payload = payloadSchemaOf(trigger)?.safeParse(read.data.payload);
  if (payload?.success === false) return `The payload is not as documented: ${pathsOf(payload.error.issues)}.`;
  const id = createHash('sha256').update(body).digest('hex');
  return { trigger, timestamp, payload: payload?.data ?? read.data.payload, id };
}

function pathsOf(issues: readonly { path: readonly PropertyKey[]; message: string }[]): string {
  return issues.map(({ path, message }) => `${path.map(String).join('.')}: ${message}`).join('; ');
}

/** The payload has been checked by the schema of its trigger, so it is what the trigger's handler takes. */
function handlerOf(on: NotificationHandlers, trigger: string) {
  const own =
    Object.hasOwn(on, trigger) && trigger !== 'otherwise' ? on[trigger as keyof NotificationHandlers] : undefined;
  return (own ?? on.otherwise) as ((received: VerifiedNotification) => unknown) | undefined;
}

/** Reads a body to its end; undefined as soon as it is longer than `bytesMax`. */
async function readStream(
  stream: ReadableStream<Uint8Array> | null,
  bytesMax: number,
): Promise<Uint8Array | undefined> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of stream ?? []) {
    length += chunk.byteLength;
    if (length > bytesMax) return undefined;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

function answer(status: number, detail: string, headers: Record<string, string> = {}): ReceiverAnswer {
  return { status, headers: { 'content-type': 'application/json', ...headers }, body: JSON.stringify({ detail }) };
}

function printError(error: unknown, received: VerifiedNotification | undefined): void {
  // oxlint-disable-next-line no-console -- an error that the caller does not take must not be lost
  console.error(`A notification (${received?.trigger ?? 'not yet read'}) could not be handled:`, error);
}
