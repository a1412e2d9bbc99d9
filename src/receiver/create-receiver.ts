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
import { types } from 'node:util';
import { isSignedWith, readSignature } from '#contract/signature.ts';
import { msFromTimestamp } from '#contract/timestamp.ts';
import { notification } from '#contract/webhook.ts';
import { errorText } from '#platform/errors.ts';
import { aFunction, anObjectWith, aPositiveNumber, checkOptions, isObject, kindOf } from './check-options.ts';
import { memoryStore } from './memory-store.ts';
import { type NotificationStore, newToken } from './notification-store.ts';
import {
  documentedTrigger,
  type NotificationHandlers,
  payloadSchemaOf,
  type VerifiedNotification,
} from './notifications.ts';

/** An entry that is unset or empty does not count, nor does white space round a key. */
type SigningKeys = readonly (string | null | undefined)[];

export interface ReceiverOptions {
  /** The webhook's `signing_key`; several while a key is rotated. Read at each notification when it is a function. */
  readonly signingKeys: SigningKeys | (() => SigningKeys | Promise<SigningKeys>);
  readonly on: NotificationHandlers;
  /** Where handled notifications are remembered. Default: in this process. */
  readonly store?: NotificationStore;
  /** The longest body. Default: 1 MiB. */
  readonly bodyBytesMax?: number;
  /** A notification whose time differs from now by more is acknowledged and does nothing. Default: four days. */
  readonly freshnessMs?: number;
  /**
   * Gets what a handler or the store threw; the answer is then 500, after the promise that it may return. If it fails
   * itself, both errors are printed. Default: printed on standard error.
   */
  readonly onError?: (error: unknown, notification: VerifiedNotification | undefined) => unknown;
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

/**
 * Creates a receiver. Throws a TypeError that names an option which is not as documented, and an Error when `signingKeys`
 * is a list without a key, because it would refuse everything.
 */
export function createReceiver(options: ReceiverOptions): NotificationReceiver {
  checkReceiverOptions(options);
  const { signingKeys, on, store = memoryStore(), nowMs = Date.now } = options;
  const { bodyBytesMax = bodyBytesDefault, freshnessMs = freshnessDefaultMs, onError = printError } = options;
  if (typeof signingKeys !== 'function') usableKeys(signingKeys);
  const readKeys = typeof signingKeys === 'function' ? signingKeys : () => signingKeys;

  const receive: NotificationReceiver['receive'] = async (request) => {
    let known: VerifiedNotification | undefined;
    try {
      if (request.method !== 'POST') return answer(405, 'Notifications are sent with POST.', { allow: 'POST' });
      // A body that cannot be genuine is not read.
      const signature = readSignature(request.signature);
      if (!signature) return answer(401, 'The signature is missing.');
      const body = await request.readBody(bodyBytesMax);
      if (body === undefined)
        return answer(413, `The body is longer than ${bodyBytesMax} bytes, or did not arrive whole.`);
      if (!types.isUint8Array(body))
        throw new TypeError(`readBody must return the bytes of the body as a Uint8Array, not ${kindOf(body)}.`);
      if (!isSignedWith(usableKeys(await readKeys()), body, signature)) return answer(401, 'The signature is wrong.');
      const parsed = parse(body);
      if (typeof parsed === 'string') return answer(400, parsed);
      known = parsed;
      if (Math.abs(nowMs() - msFromTimestamp(known.timestamp)) > freshnessMs) return answer(200, 'stale');
      return await handleOnce(known);
    } catch (error) {
      return fail(error, known);
    }
  };

  /** Never rejects, whatever `onError` does: a server may have nobody who catches it. */
  async function fail(error: unknown, known?: VerifiedNotification): Promise<ReceiverAnswer> {
    try {
      await onError(error, known);
    } catch (failure) {
      printError(error, known);
      print('onError of the receiver failed, too:', failure);
    }
    return answer(500, 'The notification could not be handled.');
  }

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
    handle: async (request) =>
      toResponse(
        isWebRequest(request)
          ? await receive({
              method: request.method,
              signature: request.headers.get('x-signature') ?? undefined,
              readBody: (bytesMax) => readRequest(request, bytesMax),
            })
          : await fail(new TypeError(`receiver.handle takes the web's Request, not ${kindOf(request)}.`)),
      ),
  };
}

/** An answer as the web's `Response`. */
export function toResponse({ status, headers, body }: ReceiverAnswer): Response {
  return new Response(body, { status, headers });
}

function checkReceiverOptions(options: ReceiverOptions): void {
  checkOptions(
    'createReceiver',
    options,
    {
      signingKeys: {
        isRight: (value) => Array.isArray(value) || typeof value === 'function',
        wanted: 'an array of keys, or a function that returns one',
      },
      on: { isRight: isObject, wanted: 'an object with a handler for each trigger' },
      store: anObjectWith('begin', 'finish', 'abandon'),
      bodyBytesMax: aPositiveNumber,
      freshnessMs: aPositiveNumber,
      onError: aFunction,
      nowMs: aFunction,
    },
    ['signingKeys', 'on'],
  );
  for (const [trigger, handler] of Object.entries(options.on))
    if (handler !== undefined && typeof handler !== 'function')
      throw new TypeError(`The option on.${trigger} of createReceiver must be a function, and is ${kindOf(handler)}.`);
}

/** The keys of a list that count. Throws when there is none, and for what is no list of keys. */
function usableKeys(list: unknown): readonly string[] {
  if (!Array.isArray(list))
    throw new TypeError(`The function signingKeys must return an array of keys, and returned ${kindOf(list)}.`);
  const keys = list.map((key: unknown, index) => {
    if (key === undefined || key === null) return '';
    // The newline at the end of a file with a key is the usual case.
    if (typeof key === 'string') return key.trim();
    throw new TypeError(
      `signingKeys[${index}] of createReceiver must be a string, and is a value of type ${typeof key}.`,
    );
  });
  const used = keys.filter((key) => key !== '');
  if (used.length === 0)
    throw new Error(
      'createReceiver needs the signing_key of the webhook in signingKeys: there is none, or every entry is unset or ' +
        'empty. Look at the environment variable or file that it comes from.',
    );
  return used;
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
  const { timestamp } = read.data;
  const trigger = documentedTrigger(read.data.trigger);
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

function isWebRequest(request: unknown): request is Request {
  return isObject(request) && isObject(request['headers']) && typeof request['headers']['get'] === 'function';
}

/** Reads the body to its end; undefined as soon as it is longer than `bytesMax`. Throws when something has read it before. */
async function readRequest(request: Request, bytesMax: number): Promise<Uint8Array | undefined> {
  if (request.bodyUsed || request.body?.locked)
    throw new Error(
      'The bytes of the body are gone: something has read this Request before. Give the receiver the Request first, or ' +
        'a request.clone() that was made before.',
    );
  const chunks: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of request.body ?? []) {
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
  print(`A notification (${received?.trigger ?? 'not yet read'}) could not be handled:`, error);
}

function print(text: string, error: unknown): void {
  try {
    // oxlint-disable-next-line no-console -- an error that the caller does not take must not be lost
    console.error(text, error);
  } catch {
    // A thrown value may fail while it is shown.
    // oxlint-disable-next-line no-console -- as above
    console.error(text, errorText(error));
  }
}
