import { inspect } from 'node:util';
import { Redis } from 'ioredis';
import { Pool } from 'pg';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { signBody } from '#contract/signature.ts';
import { createReceiver, type ReceiverOptions } from '../../src/receiver/create-receiver.ts';
import { memoryStore } from '../../src/receiver/memory-store.ts';
import type { NotificationStore } from '../../src/receiver/notification-store.ts';
import { postgresStore, postgresStoreTable } from '../../src/receiver/postgres-store.ts';
import { redisStore } from '../../src/receiver/redis-store.ts';
import { eventually } from '../harness/eventually.ts';
import { findTestRedis, type TestRedis } from '../harness/redis.ts';
import { createEmptyDatabase, type TestDatabase } from '../harness/test-database.ts';

const key = 'the-signing-key';
const nowMs = Date.parse('2026-05-04T10:00:00Z');
const award = {
  trigger: 'AWARDS_FEED_UPDATED',
  timestamp: '2026-05-04T09:59:59.000001Z',
  payload: { sourcing_event: '6f3f0f8c-5a6e-4c1c-9d60-2f6a4f6f0c11', sourcing_event_name: 'Chairs ä' },
};

function post(body: string | Uint8Array, signature: string | null = signBody(body, key), method = 'POST'): Request {
  return new Request('https://erp.example/webhook', {
    method,
    ...(method === 'POST' && { body }),
    headers: signature === null ? {} : { 'x-signature': signature },
  });
}

function receiverOf(options: Partial<ReceiverOptions> = {}) {
  const seen: unknown[] = [];
  const errors: unknown[] = [];
  const receiver = createReceiver({
    signingKeys: [key],
    on: {
      AWARDS_FEED_UPDATED: ({ payload }) => seen.push(payload.sourcing_event),
      otherwise: (other) => seen.push(other),
    },
    onError: (error) => errors.push(error),
    nowMs: () => nowMs,
    ...options,
  });
  const answerTo = async (request: Request) => {
    const response = await receiver.handle(request);
    return [response.status, ((await response.json()) as { detail: string }).detail];
  };
  return { answerTo, receiver, seen, errors };
}

test('a notification with the right signature reaches the handler of its trigger, once', async () => {
  const { answerTo, seen, errors } = receiverOf();
  const body = JSON.stringify(award);
  expect(await answerTo(post(body))).toEqual([200, 'accepted']);
  expect(await answerTo(post(body))).toEqual([200, 'repeated']);
  expect([seen, errors]).toEqual([[award.payload.sourcing_event], []]);
});

test('a trigger that another service names otherwise reaches the handler of the documented name', async () => {
  const { answerTo, seen } = receiverOf();
  const body = JSON.stringify({ ...award, trigger: 'AWARD_FEED_UPDATED' });
  expect(await answerTo(post(body))).toEqual([200, 'accepted']);
  expect(seen).toEqual([award.payload.sourcing_event]);
});

test('the payloads that the documents show are enough: without an event, with a detail alone, and empty', async () => {
  const { answerTo } = receiverOf();
  const payloads = {
    LATEST_BIDS_FEED_UPDATED: { sourcing_request: award.payload.sourcing_event, sourcing_event_name: 'Chairs' },
    TEST: { detail: 'It works' },
    AWARDS_FEED_UPDATED: {},
    JOB_UPDATED: {},
  };
  for (const [trigger, payload] of Object.entries(payloads))
    expect(await answerTo(post(JSON.stringify({ ...award, trigger, payload })))).toEqual([200, 'accepted']);
});

test('while a key is rotated, both keys are right; a wrong, short or missing signature is refused', async () => {
  const { answerTo, seen } = receiverOf({ signingKeys: async () => ['new', key] });
  const body = JSON.stringify(award);
  expect(await answerTo(post(body, signBody(body, 'new')))).toEqual([200, 'accepted']);
  const other = JSON.stringify({ ...award, timestamp: '2026-05-04T09:00:00Z' });
  expect(await answerTo(post(other))).toEqual([200, 'accepted']);
  for (const signature of [signBody(body, 'old'), signBody(`${body} `, key), 'hmac-sha256=', '', null])
    expect((await answerTo(post(body, signature)))[0]).toBe(401);
  expect(seen).toHaveLength(2);
});

describe('signing keys', () => {
  const body = JSON.stringify(award);

  test('that are unset or empty are skipped, and white space round a key does not count', async () => {
    const given = [undefined, null, '', '  ', ` ${key}\r\n`];
    for (const signingKeys of [given, () => given, async () => given]) {
      const { answerTo } = receiverOf({ signingKeys });
      expect(await answerTo(post(body))).toEqual([200, 'accepted']);
      expect((await answerTo(post(body, signBody(body, 'another'))))[0]).toBe(401);
    }
  });

  test('without any, the creation throws; a function without any is answered with 500 and reported', async () => {
    for (const signingKeys of [[], [undefined], ['', null, ' \n']]) {
      expect(() => createReceiver({ signingKeys, on: {} })).toThrow('needs the signing_key of the webhook');
      const { answerTo, errors } = receiverOf({ signingKeys: () => signingKeys });
      expect((await answerTo(post(body)))[0]).toBe(500);
      expect(String(errors)).toContain('needs the signing_key of the webhook');
    }
  });

  test('that are none are named by their place, and never shown', async () => {
    expect(() => make({ signingKeys: [key, 12_345], on: {} })).toThrow(
      'signingKeys[1] of createReceiver must be a string, and is a value of type number.',
    );
    expect(() => make({ signingKeys: key, on: {} })).toThrow(
      'The option signingKeys of createReceiver must be an array of keys, or a function that returns one, and is a string.',
    );
    const { answerTo, errors } = receiverOf({ signingKeys: (() => key) as never });
    expect((await answerTo(post(body)))[0]).toBe(500);
    expect(String(errors)).toContain('must return an array of keys, and returned a string');
  });
});

/** As JavaScript calls it. */
const make = createReceiver as (options?: unknown) => unknown;

describe('options that are not as documented are refused by name when the receiver is made', () => {
  const right = { signingKeys: [key], on: {} };

  test.each([
    [undefined, 'createReceiver takes an object of options, not undefined.'],
    [{ ...right, signingKey: key }, 'createReceiver has no option signingKey.'],
    [
      { on: {} },
      'The option signingKeys of createReceiver must be an array of keys, or a function that returns one, and is undefined.',
    ],
    [{ ...right, on: { TEST: 'log' } }, 'The option on.TEST of createReceiver must be a function, and is a string.'],
    [
      { ...right, store: new Map() },
      'The option store of createReceiver must be an object with the methods begin, finish, abandon',
    ],
    [
      { ...right, bodyBytesMax: Number(undefined) },
      'The option bodyBytesMax of createReceiver must be a number above 0, and is NaN.',
    ],
  ])('%o', (options, message) => {
    expect(() => make(options)).toThrow(message);
    expect(() => make(options)).toThrow(TypeError);
  });

  test('those of the stores, too', () => {
    const stores = { memoryStore, redisStore, postgresStore } as unknown as Record<
      string,
      (options: unknown) => unknown
    >;
    for (const [name, options, message] of [
      ['memoryStore', { entriesMax: '10' }, 'The option entriesMax of memoryStore must be a number above 0'],
      ['redisStore', {}, 'The option send of redisStore must be a function, and is undefined.'],
      [
        'postgresStore',
        { database: 'postgres://localhost' },
        'The option database of postgresStore must be an object with the methods query',
      ],
    ] as const)
      expect(() => stores[name]?.(options)).toThrow(message);
  });
});

describe('handle() never rejects', () => {
  const failing = { AWARDS_FEED_UPDATED: () => Promise.reject(new Error('the ERP is away')) };
  const body = JSON.stringify(award);

  test.each([
    ['rejects', () => Promise.reject(new Error('the reporter is away'))],
    [
      'throws what cannot be shown',
      () => {
        throw unshowable();
      },
    ],
  ])('when onError %s: the answer is 500, and both errors are printed', async (_name, onError) => {
    const print = vi.spyOn(console, 'error').mockImplementation((_text, error) => void inspect(error));
    const { answerTo } = receiverOf({ on: failing, onError });
    expect((await answerTo(post(body)))[0]).toBe(500);
    const printed = print.mock.calls.map(([text]) => String(text));
    print.mockRestore();
    expect(printed).toContain('A notification (AWARDS_FEED_UPDATED) could not be handled:');
    expect(printed).toContain('onError of the receiver failed, too:');
  });

  test('when a handler throws what cannot be shown, and nobody takes the errors', async () => {
    const print = vi.spyOn(console, 'error').mockImplementation((_text, error) => void inspect(error));
    const receiver = createReceiver({
      signingKeys: [key],
      on: { AWARDS_FEED_UPDATED: () => Promise.reject(unshowable()) },
      nowMs: () => nowMs,
    });
    expect((await receiver.handle(post(body))).status).toBe(500);
    print.mockRestore();
  });

  test('when it gets no Request, or one that was read before: the error says so', async () => {
    const { receiver, errors } = receiverOf();
    for (const wrong of [undefined, 'POST', { method: 'POST', headers: {} }])
      expect((await receiver.handle(wrong as never)).status).toBe(500);
    expect(String(errors[0])).toBe("TypeError: receiver.handle takes the web's Request, not undefined.");
    const read = post(body);
    const kept = read.clone();
    await read.text();
    expect((await receiver.handle(read)).status).toBe(500);
    expect(String(errors[3])).toContain('something has read this Request before');
    expect((await receiver.handle(kept)).status).toBe(200);
  });

  test('when an adapter of your own brings no bytes', async () => {
    const { receiver, errors } = receiverOf();
    const signature = signBody(body, key);
    const request = { method: 'POST', signature, readBody: async () => award as never };
    expect((await receiver.receive(request)).status).toBe(500);
    expect(String(errors[0])).toContain('readBody must return the bytes of the body as a Uint8Array, not an object.');
  });
});

/** An error that fails when it is printed or made a text. */
function unshowable(): object {
  const fail = () => {
    throw new Error('not to be shown');
  };
  return { [inspect.custom]: fail, toString: fail };
}

test('what is signed and no notification is answered with 400, also a payload that its trigger does not have', async () => {
  const { answerTo, seen } = receiverOf();
  const wrong = { ...award, payload: { sourcing_event: 7 } };
  for (const body of ['{', '[]', '{"trigger":"TEST"}', JSON.stringify(wrong), Buffer.from([0x22, 0xff, 0x22])])
    expect((await answerTo(post(body)))[0]).toBe(400);
  expect((await answerTo(post('', null, 'GET')))[0]).toBe(405);
  expect(seen).toEqual([]);
});

test('a body over the bound is not kept, and an old notification does nothing', async () => {
  const { answerTo, seen } = receiverOf({ bodyBytesMax: 500 });
  expect((await answerTo(post(JSON.stringify({ ...award, padding: 'x'.repeat(500) }))))[0]).toBe(413);
  const old = { ...award, timestamp: '2026-04-30T09:59:59Z' };
  expect(await answerTo(post(JSON.stringify(old)))).toEqual([200, 'stale']);
  expect(seen).toEqual([]);
});

test('a handler that fails is answered with 500 and reported, and the next delivery runs it again', async () => {
  const failed = new Error('the ERP is away');
  let calls = 0;
  const { answerTo, errors } = receiverOf({
    on: {
      AWARDS_FEED_UPDATED: () => {
        calls += 1;
        if (calls === 1) throw failed;
      },
    },
  });
  const body = JSON.stringify(award);
  expect((await answerTo(post(body)))[0]).toBe(500);
  expect(errors).toEqual([failed]);
  expect(await answerTo(post(body))).toEqual([200, 'accepted']);
  expect(calls).toBe(2);
});

test('a trigger that the documents do not have goes to otherwise; names of objects are no handlers', async () => {
  const { answerTo, seen } = receiverOf();
  for (const trigger of ['SOMETHING_NEW', 'constructor', 'otherwise'])
    expect(await answerTo(post(JSON.stringify({ ...award, trigger })))).toEqual([200, 'accepted']);
  expect(seen).toMatchObject([{ trigger: 'SOMETHING_NEW' }, { trigger: 'constructor' }, { trigger: 'otherwise' }]);
});

describe('every store', () => {
  let db: TestDatabase;
  let pool: Pool;
  let server: TestRedis | undefined;
  let redis: Redis | undefined;
  /** Short, so that the test of a dead process need not wait. */
  const leaseShortMs = 200;
  beforeAll(async () => {
    db = await createEmptyDatabase();
    pool = new Pool({ connectionString: db.url });
    for (const _twice of [1, 2]) await pool.query(postgresStoreTable);
    server = await findTestRedis();
    redis = server && new Redis(server.url);
  });
  afterAll(async () => {
    redis?.disconnect();
    await server?.close();
    await pool.end();
    await db.drop();
  });

  const stores: [string, (rememberMs: number, leaseMs?: number) => NotificationStore | undefined][] = [
    ['memory', (rememberMs, leaseMs = 60_000) => memoryStore({ leaseMs, rememberMs })],
    ['PostgreSQL', (rememberMs, leaseMs = 60_000) => postgresStore({ database: pool, leaseMs, rememberMs })],
    [
      'Redis',
      (rememberMs, leaseMs = 60_000) =>
        redis && redisStore({ send: (...command) => redis!.call(...command), leaseMs, rememberMs }),
    ],
  ];

  test.each(stores)('%s: of two deliveries at once one is new, and after its end none is', async (_name, make) => {
    const store = make(60_000);
    if (!store) return;
    const states = await Promise.all(['a', 'b', 'c'].map((token) => store.begin('one', token)));
    expect(states.toSorted()).toEqual(['new', 'running', 'running']);
    const owner = ['a', 'b', 'c'][states.indexOf('new')] ?? '';
    await store.finish('one', 'someone else');
    await store.abandon('one', 'someone else');
    expect(await store.begin('one', 'd')).toBe('running');
    await store.finish('one', owner);
    expect(await store.begin('one', 'e')).toBe('done');
    await store.abandon('one', owner);
    expect(await store.begin('one', 'f')).toBe('done');
  });

  test.each(stores)('%s: a delivery that failed, or whose process died, is new again', async (_name, make) => {
    const store = make(60_000, leaseShortMs);
    if (!store) return;
    expect(await store.begin('two', 'a')).toBe('new');
    await store.abandon('two', 'a');
    expect(await store.begin('two', 'b')).toBe('new');
    // b never ends.
    await eventually('the lease is over', async () => (await store.begin('two', 'c')) === 'new');
    await store.finish('two', 'b');
    expect(await store.begin('two', 'd')).not.toBe('done');
  });

  test.each(stores)('%s: forgets what is older than it has to remember', async (_name, make) => {
    const store = make(100);
    if (!store) return;
    await store.begin('three', 'a');
    await store.finish('three', 'a');
    const states = new Set<string>();
    await eventually('it is forgotten', async () => states.add(await store.begin('three', 'b')).has('new'));
    expect([...states].filter((state) => state === 'running')).toEqual([]);
  });
});

test('the memory store keeps no more than its bound', async () => {
  const store = memoryStore({ entriesMax: 2 });
  for (const id of ['1', '2', '3']) {
    await store.begin(id, 't');
    await store.finish(id, 't');
  }
  expect(await store.begin('3', 'u')).toBe('done');
  expect(await store.begin('1', 'u')).toBe('new');
});
