/**
 * How the connector interprets Tryton's answers. A real Tryton sends most of these only at moments that a test cannot
 * choose. Here a stand-in sends answers that were observed from Tryton.
 */
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { systemClock } from '#platform/clock.ts';
import { createTryton, type Tryton } from '../../../connectors/tryton/rpc.ts';
import { settings } from '../../../connectors/tryton/settings.ts';
import { never } from './tryton-session.ts';

interface Call {
  readonly method: string;
  readonly params: readonly unknown[];
}
interface Answer {
  readonly status?: number;
  readonly body: unknown;
}

let calls: Call[] = [];
let answerTo: (call: Call, index: number) => Answer | undefined;
let authorizations: (string | undefined)[] = [];
let tryton: Tryton;
let connect: (more?: Record<string, unknown>) => Tryton;

beforeEach(async () => {
  calls = [];
  authorizations = [];
  answerTo = () => undefined;
  const answer = async (request: IncomingMessage): Promise<Answer> => {
    const call = JSON.parse(await bodyOf(request)) as Call;
    calls.push(call);
    authorizations.push(request.headers.authorization);
    const index = calls.filter(({ method }) => method === call.method).length;
    return answerTo(call, index) ?? { body: { id: 0, result: usualResult(call.method, index) } };
  };
  const server = createServer((request, response) => {
    void answer(request).then(({ status = 200, body }) =>
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body)),
    );
  });
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const values = { url, database: 'erp', user: 'bridge', password: 'secret word' };
  connect = (more = {}) =>
    createTryton(settings.parse({ ...values, ...more }), { clock: systemClock, caPem: undefined });
  tryton = connect();
  return () => server.close();
});
afterEach(() => tryton.close());

async function bodyOf(request: IncomingMessage): Promise<string> {
  const parts: Buffer[] = [];
  for await (const part of request) parts.push(part as Buffer);
  return Buffer.concat(parts).toString('utf8');
}

function usualResult(method: string, index: number): unknown {
  if (method === 'common.db.login') return [3, `key-${index}`];
  if (method === 'model.res.user.get_preferences') return { company: 1, language: 'de' };
  if (method === 'model.company.company.search_read') return [{ id: 1, rec_name: 'Buyer GmbH' }];
  return [1];
}

const anything = { parse: (value: unknown) => value, safeParse: (data: unknown) => ({ success: true, data }) } as never;
const change = () => tryton.change('party.party.write', [[1], {}], anything, never);
const ask = () => tryton.ask('party.party.read', [[1], []], anything, never);

function answerWith(error: unknown): void {
  answerTo = ({ method }) => (method.startsWith('model.party') ? { body: { id: 0, error } } : undefined);
}

test.each([
  [
    'a refusal concerns the record',
    ['UserError', ['The code on party must be unique.', '', null]],
    'data',
    /must be unique/u,
  ],
  [
    'a missing right concerns the login',
    ['UserError', ['You are not allowed to access "Party".', '', null]],
    'auth',
    /groups/u,
  ],
  [
    'a rule that forbids a record concerns the record',
    [
      'UserError',
      [
        'You are not allowed to create records of "Party" because they fail on at least one of these rules:\nX',
        '',
        null,
      ],
    ],
    'data',
    /rules/u,
  ],
  [
    'a record that a user has deleted in the meantime is tried again',
    ['UserError', ['You are trying to write to records "1" of "Party" that don\'t exist anymore.', '', null]],
    'locked',
    /exist anymore/u,
  ],
  [
    'a record that a user has changed in the meantime is tried again',
    ['ConcurrencyException', 'Records were modified in the meanwhile'],
    'locked',
    /modified/u,
  ],
  [
    'a warning is reported and not confirmed',
    ['UserWarning', ['name.1', 'Are you sure?', '']],
    'data',
    /Are you sure\?/u,
  ],
  ['a missing model means that its module is not activated', ["'party.party'", ''], 'config', /module/u],
  ['after a deadlock, the call is tried again', ['deadlock detected\nDETAIL: …', ''], 'transient', /deadlock/u],
  ['if SQLite is locked, the call is tried again', ['database is locked', ''], 'transient', /locked/u],
  [
    'if Tryton loses the database, it is unknown whether the change was made',
    ['server closed the connection unexpectedly', ''],
    'unknown',
    /closed the connection/u,
  ],
  ['an unexpected fault of Tryton concerns the record', ["'nope'", ''], 'data', /nope/u],
] as const)('%s', async (_, error, type, message) => {
  answerWith(error);
  await expect(change()).rejects.toMatchObject({ type, message: expect.stringMatching(message) });
});

test.each([
  ['nothing in it', {}],
  ['null', null],
  ['a list', []],
])('a 200 with %s is no success: the outcome of a change is unknown, and a query fails', async (_, body) => {
  answerTo = ({ method }) => (method.startsWith('model.party') ? { body } : undefined);
  await expect(change()).rejects.toMatchObject({ type: 'unknown', message: expect.stringContaining('neither result') });
  await expect(ask()).rejects.toMatchObject({ type: 'config' });
});

test('if Tryton loses the database during a query, the query is tried again', async () => {
  answerWith(['server closed the connection unexpectedly', '']);
  await expect(ask()).rejects.toMatchObject({ type: 'transient' });
});

test('with warnings: accept, a warning is confirmed once, and the call is repeated', async () => {
  await tryton.close();
  tryton = connect({ warnings: 'accept' });
  answerTo = ({ method }, index) =>
    method === 'model.party.party.write' && index === 1
      ? { body: { id: 0, error: ['UserWarning', ['name.1', 'Are you sure?', '']] } }
      : undefined;
  await change();
  const [warning] = calls.filter(({ method }) => method === 'model.res.user.warning.create');
  expect(warning?.params[0]).toEqual([{ user: 3, name: 'name.1', always: false }]);
  expect(calls.filter(({ method }) => method === 'model.party.party.write')).toHaveLength(2);
});

test('a warning that comes back each time ends as an error of the record', async () => {
  await tryton.close();
  tryton = connect({ warnings: 'accept' });
  answerWith(['UserWarning', ['name.1', 'Are you sure?', '']]);
  await expect(change()).rejects.toMatchObject({ type: 'data' });
});

test('each call has the user’s context, in English and with the company, and the session of the login', async () => {
  await ask();
  expect(calls.at(-1)).toMatchObject({
    method: 'model.party.party.read',
    params: [[1], [], { company: 1, language: 'en' }],
  });
  expect(authorizations.at(-1)).toBe(`Session ${Buffer.from('bridge:3:key-1').toString('base64')}`);
});

test('a session that Tryton has forgotten is renewed once', async () => {
  answerTo = ({ method }, index) =>
    method === 'model.party.party.write' && index === 1 ? { status: 401, body: '' } : undefined;
  await change();
  expect(authorizations.at(-1)).toBe(`Session ${Buffer.from('bridge:3:key-2').toString('base64')}`);
  answerTo = ({ method }) => (method === 'model.party.party.write' ? { status: 401, body: '' } : undefined);
  await expect(change()).rejects.toMatchObject({ type: 'auth' });
});

test.each([
  [401, 'auth', /settings\.password/u],
  [404, 'config', /no database erp/u],
  [429, 'rate-limited', /429/u],
  [502, 'transient', /502/u],
])('a login that is answered %i is %s', async (status, type, message) => {
  answerTo = ({ method }) => (method === 'common.db.login' ? { status, body: '' } : undefined);
  await expect(ask()).rejects.toMatchObject({ type, message: expect.stringMatching(message) });
});

test('a login that asks for a second factor is reported: the bridge has none', async () => {
  const body = { id: 0, error: ['LoginException', ['sms', 'Code', 'char']] };
  answerTo = ({ method }) => (method === 'common.db.login' ? { body } : undefined);
  await expect(ask()).rejects.toMatchObject({ type: 'auth', message: expect.stringContaining('more than a password') });
});
