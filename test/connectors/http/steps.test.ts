/** A list of steps: what is sent, what is left out, and what becomes of an attempt that ends in the middle. */
import { describe, expect, onTestFinished, test } from 'vitest';
import type { Operation } from '#connector/connector.ts';
import { testContext } from '#connector/testing/test-context.ts';
import http from '../../../connectors/http/index.ts';
import { answerJson, type ReceivedRequest, startPlainServer } from '../../connector/plain-server.ts';
import { eventually } from '../../harness/eventually.ts';
import { createManualClock } from '../../harness/manual-clock.ts';
import { award, operationOf } from './documents.ts';

const never = new AbortController().signal;

const open = {
  name: 'open',
  method: 'PUT',
  path: '/events/{event.id}/state',
  body: { json: { state: 'draft' } },
};
const bidder = {
  name: 'add the bidder',
  find: { path: '/bidders?vendor={supplier.id}', list: 'found', where: { vendor: '{supplier.id}' } },
  method: 'POST',
  path: '/bidders',
  body: { json: { vendor: '{supplier.id}' } },
  capture: { bidder: 'id' },
};
const item = {
  name: 'add the item',
  find: { path: '/items?key={key}', list: 'found', where: { key: '{key}', hash: '{content_hash}' } },
  method: 'POST',
  path: '/bidders/{captured.bidder}/items',
  body: { json: { hash: '{content_hash}', bidder: '{captured.bidder}' } },
  capture: { item: 'id' },
};
const kind = {
  create: [open, bidder, item],
  cancel: [{ name: 'remove', method: 'DELETE', path: '/items/{reference}' }],
  reference: { captured: 'item' },
  lookup: { path: '/lookup?key={key}', list: 'found', where: { key: '{key}' }, reference: 'id' },
};

type Answers = Readonly<Record<string, readonly [status: number, body: object | null]>>;

/** The answers of a target that holds nothing yet, by request. */
const fresh: Answers = {
  'PUT /events/ev-1/state': [200, {}],
  'GET /bidders?vendor=su-1': [200, { found: [] }],
  'POST /bidders': [201, { id: 'B/7' }],
  'GET /items?key=ev-1%2Fsu-1': [200, { found: [] }],
  'POST /bidders/B%2F7/items': [201, { id: 9 }],
};
const known = { 'GET /bidders?vendor=su-1': [200, { found: [{ vendor: 'su-1', id: 'B/7' }] }] } as const;

async function start(answers: Answers, changed: object = {}, settings: object = {}) {
  const lineOf = ({ method, url }: Pick<ReceivedRequest, 'method' | 'url'>) => `${method} ${url}`;
  const server = await startPlainServer((response, request) => {
    const [status, body] = answers[lineOf(request)] ?? [404, {}];
    answerJson(response, status, body, status === 429 ? { 'retry-after': '7' } : {});
  });
  const manual = createManualClock();
  let sleeps = 0;
  const clock = {
    ...manual,
    sleep: async (ms: number, signal?: AbortSignal) => {
      sleeps += 1;
      return manual.sleep(ms, signal);
    },
  };
  const parsed = http.settings.parse({
    base_url: server.url,
    visible_seconds: 0,
    documents: { award: { ...kind, ...changed } },
    ...settings,
  });
  const session = await http.open(parsed, testContext({ clock }).context);
  onTestFinished(() => session.close());
  return {
    clock,
    untilSleeps: (count: number) => eventually(`${count} waits`, async () => sleeps === count),
    server,
    session,
    sent: () => server.requests.map(lineOf),
    write: async (given: Partial<Operation> = {}, signal = never) =>
      (await session.write([operationOf(award, given)], signal))[0],
  };
}

describe('a list of steps', () => {
  test('is sent in its order, with what the steps before have captured', async () => {
    const { write, sent, server } = await start(fresh, {}, { idempotency_header: 'Idempotency-Key' });
    expect(await write()).toEqual({ status: 'created', reference: '9' });
    expect(sent()).toEqual(Object.keys(fresh));
    expect(JSON.parse(server.requests.at(-1)?.body ?? '')).toMatchObject({ bidder: 'B/7' });
    // No step may be taken for the repetition of another.
    const keys = server.requests.map(({ headers }) => headers['idempotency-key']);
    expect(keys.filter((key) => key !== undefined)).toEqual(['id-1-1', 'id-1-2', 'id-1-3']);
  });

  test('leaves out what its find shows as done, and captures it there', async () => {
    const { write, sent } = await start({ ...fresh, ...known });
    expect(await write({ action: 'amend', reference: 'old' })).toEqual({ status: 'updated', reference: '9' });
    expect(sent()).toEqual(Object.keys(fresh).filter((line) => line !== 'POST /bidders'));
  });

  test('sends a step whose find for one object is answered with null', async () => {
    const publish = {
      name: 'publish',
      find: { path: '/publications/{key}' },
      method: 'POST',
      path: '/publications',
      body: { json: { key: '{key}' } },
    };
    const answers: Answers = {
      ...fresh,
      'GET /publications/ev-1%2Fsu-1': [200, null],
      'POST /publications': [201, {}],
    };
    const { write, sent } = await start(answers, { create: [...kind.create, publish] });
    expect(await write()).toEqual({ status: 'created', reference: '9' });
    expect(sent().at(-1)).toBe('POST /publications');
  });

  test('leaves out a step whose condition does not hold, on the document or on what was captured', async () => {
    const { write, sent } = await start(fresh, {
      create: [
        { ...open, when: { 'event.type': ['DUTCH', 'ENGLISH'] } },
        { ...bidder, when: { 'event.tags[Cost Center]': { exists: true } } },
        { ...open, name: 'again', when: { 'captured.bidder': { matches: '^A' } } },
        { ...item, when: { 'captured.bidder': 'B/7' } },
      ],
    });
    expect(await write()).toMatchObject({ status: 'created' });
    expect(sent()).toEqual(Object.keys(fresh).slice(1));
  });

  test('of two documents are never mixed, whatever the concurrency is', async () => {
    const { session, server } = await start(fresh);
    await session.write([operationOf(award), operationOf(award)], never);
    expect(server.requests.map(({ url }) => url)).toEqual(
      [...Object.keys(fresh), ...Object.keys(fresh)].map((line) => line.split(' ')[1]),
    );
  });

  test('is planned in words, and sends nothing', async () => {
    const { session, sent } = await start(fresh, {
      create: [{ ...open, when: { 'event.type': 'DUTCH' } }, bidder, { ...item, when: { 'captured.bidder': 'B/7' } }],
    });
    const [planned] = (await session.plan?.([operationOf(award)], never)) ?? [];
    const hash = operationOf(award).contentHash;
    expect(planned?.steps).toEqual([
      'step 2 "add the bidder": POST /bidders, unless GET /bidders?vendor={supplier.id} shows that it is done',
      'vendor: su-1',
      'step 3 "add the item": POST /bidders/captured.bidder/items, when {"captured.bidder":"B/7"}, unless GET /items?key={key} shows that it is done',
      `hash: ${hash}`,
      'bidder: captured.bidder',
    ]);
    expect(sent()).toEqual([]);
  });
});

describe('an attempt that ends in the middle', () => {
  const refused = (status: number, body: object = {}) =>
    ({ ...fresh, 'POST /bidders/B%2F7/items': [status, body] }) as const;

  const limited = { status: 'retry', error: { type: 'rate-limited', retryAfterMs: 7_000 } } as const;

  test.each<[string, Answers, object, object]>([
    [
      'refused by the target: a dead letter that names the step',
      refused(422, { text: 'no such plant' }),
      {},
      {
        status: 'rejected',
        partial: true,
        error: {
          type: 'data',
          message: 'step 3 "add the item": the ERP answered 422 to POST /bidders/B%2F7/items: {"text":"no such plant"}',
        },
      },
    ],
    [
      'not ready, by a rule of the step: partial, as earlier steps have done something',
      refused(409),
      { create: [open, bidder, { ...item, answers: [{ status: 409, means: 'locked' }] }] },
      {
        status: 'retry',
        partial: true,
        error: { type: 'locked', message: expect.stringMatching(/^step 3 "add the item": .*409/) },
      },
    ],
    ['limited: partial, with the time', refused(429), {}, { ...limited, partial: true }],
    [
      'limited in a find: partial',
      { ...fresh, 'GET /items?key=ev-1%2Fsu-1': [429, {}] },
      {},
      { ...limited, partial: true },
    ],
    ['limited before anything was done', { ...fresh, 'PUT /events/ev-1/state': [429, {}] }, {}, limited],
    [
      'login refused: the flow pauses',
      refused(401),
      {},
      { status: 'retry', partial: true, error: { type: 'auth', message: expect.stringContaining('step 3') } },
    ],
    [
      'an answer without what has to be captured',
      refused(201, {}),
      {},
      { status: 'unknown', answered: true, message: expect.stringContaining('has no value at id') },
    ],
    [
      'two bidders that both may be the one',
      {
        ...fresh,
        'GET /bidders?vendor=su-1': [
          200,
          {
            found: [
              { vendor: 'su-1', id: 1 },
              { vendor: 'su-1', id: 2 },
            ],
          },
        ],
      },
      {},
      {
        status: 'rejected',
        error: {
          message:
            'step 2 "add the bidder": the ERP holds several: {"bidder":"1"}, {"bidder":"2"}; leave one of them there',
        },
      },
    ],
    [
      'a find that shows others, too',
      { ...fresh, 'GET /bidders?vendor=su-1': [200, { found: [{ vendor: 'su-2', id: 1 }] }] },
      {},
      {
        status: 'retry',
        error: { type: 'config', message: expect.stringContaining('returned other objects as well') },
      },
    ],
  ])('%s', async (_name, answers, changed, outcome) => {
    const { write } = await start(answers, changed);
    expect(await write()).toMatchObject(outcome);
  });

  test('for want of a value in the document names the step, the document and the value; nothing of the step is sent', async () => {
    const { write, sent } = await start(fresh, {
      create: [open, { ...bidder, find: { ...bidder.find, where: { vendor: '{event.tags[Ariba id]}' } } }, item],
    });
    expect(await write()).toEqual({
      status: 'rejected',
      partial: true,
      error: {
        type: 'data',
        message: 'step 2 "add the bidder": event "Chairs" has no tag "Ariba id", which `where` (vendor) needs',
      },
    });
    expect(sent()).toEqual(['PUT /events/ev-1/state', 'GET /bidders?vendor=su-1']);
  });

  test('a find is not asked, and the attempt does not end, before what was sent is visible', async () => {
    const { write, sent, untilSleeps, clock } = await start(fresh, {}, { visible_seconds: 5 });
    const writing = write();
    for (const [index, count] of [1, 3, 5].entries()) {
      await untilSleeps(index + 1);
      expect(sent()).toHaveLength(count);
      clock.advance(5_000);
    }
    expect(await writing).toMatchObject({ status: 'created' });
  });

  test('by an abort, while it waits for that, is partial', async () => {
    const { write, untilSleeps } = await start(fresh, {}, { visible_seconds: 5 });
    const stop = new AbortController();
    const writing = write({}, stop.signal);
    await untilSleeps(1);
    stop.abort();
    expect(await writing).toMatchObject({ status: 'retry', error: { type: 'transient' }, partial: true });
  });

  test('by a login that is refused leaves the next document untouched, which is not partial', async () => {
    const { session, sent } = await start(refused(401));
    const [first, second] = await session.write([operationOf(award), operationOf(award)], never);
    expect(first).toMatchObject({ error: { type: 'auth' }, partial: true });
    expect(second).toEqual({ status: 'retry', error: expect.objectContaining({ type: 'auth' }) });
    expect(sent()).toEqual(Object.keys(fresh));
  });

  test('is cancelled without a reference, by all steps that need none', async () => {
    const publish = { ...open, name: 'publish', body: { json: { state: 'published' } } };
    const { write, sent } = await start(fresh, { cancel: [...kind.cancel, publish] });
    expect(await write({ action: 'cancel' })).toEqual({ status: 'cancelled', reference: award.key });
    expect(sent()).toEqual(['PUT /events/ev-1/state']);
  });
});
