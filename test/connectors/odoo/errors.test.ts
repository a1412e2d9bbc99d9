/** What an answer of Odoo means, calls that are cut off or meet each other, and what `check` says of the key. */
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { closeAtEnd } from '../../harness/close-at-end.ts';
import { awardOf, idOf, never, openSession, operation, startErp, withLots, write } from './odoo-session.ts';
import type { Row } from './stand-in/rows.ts';
import { users } from './stand-in/seed.ts';
import type { OdooStandIn } from './stand-in/server.ts';

const chairs = { lot: 'Chairs', quantity: '10', unit_price: '49.9' };
const trace = 'Traceback (most recent call last): File "/opt/odoo/http.py", password=hunter2';

/** A session with a server that answers each call in the same way. */
async function sessionWith(erp: OdooStandIn, status: number, body: object | string) {
  const server = createServer((request, response) => {
    request.resume();
    const type = typeof body === 'string' ? 'text/html' : 'application/json';
    response.writeHead(status, { 'content-type': type }).end(typeof body === 'string' ? body : JSON.stringify(body));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  closeAtEnd(() => {
    server.close();
    server.closeAllConnections();
  });
  return openSession(erp, { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` });
}

describe('an answer', () => {
  let erp: OdooStandIn;
  beforeAll(async () => {
    erp = await startErp();
  });

  test.each([
    [500, 'builtins.ValueError', "Invalid field 'nope'", 'rejected', 'data'],
    [422, 'odoo.exceptions.UserError', 'No.', 'rejected', 'data'],
    [422, 'odoo.exceptions.ValidationError', 'No.', 'rejected', 'data'],
    [404, 'odoo.exceptions.MissingError', 'Record does not exist', 'retry', 'locked'],
    [404, 'werkzeug.exceptions.NotFound', "the model 'x' does not exist", 'retry', 'config'],
    [403, 'odoo.exceptions.AccessError', 'You are not allowed', 'retry', 'auth'],
    [403, 'odoo.exceptions.AccessError', 'Access to unauthorized or invalid companies.', 'retry', 'config'],
    [401, 'werkzeug.exceptions.Unauthorized', 'Invalid apikey', 'retry', 'auth'],
    [500, 'psycopg2.errors.SerializationFailure', 'could not serialize access', 'retry', 'locked'],
    [500, 'psycopg2.OperationalError', 'server closed the connection', 'retry', 'transient'],
  ])('%i %s (%s) is %s, %s, and its stack trace is not shown', async (status, name, message, outcome, type) => {
    const session = await sessionWith(erp, status, { name, message, arguments: [message], context: {}, debug: trace });
    const result = await write(session, 'create', awardOf([chairs]));
    expect(result).toMatchObject({ status: outcome, error: { type } });
    expect(JSON.stringify(result)).not.toMatch(/Traceback|hunter2/);
  });

  test('that is a page of a gateway or of an unknown database shows its title, not its text', async () => {
    const page = `<title>Oops</title><pre>${trace}</pre>`;
    const broken = await write(await sessionWith(erp, 500, page), 'create', awardOf([chairs]));
    expect(broken).toMatchObject({
      status: 'retry',
      error: { type: 'transient', message: expect.stringContaining('Oops') as string },
    });
    expect(JSON.stringify(broken)).not.toMatch(/Traceback|hunter2/);
    const wrong = await openSession(erp, { database: 'nodb' });
    await expect(write(wrong, 'create', awardOf([chairs]))).resolves.toMatchObject({
      status: 'retry',
      error: { type: 'config', message: expect.stringContaining('no Odoo database nodb') as string },
    });
  });
});

test('two loads of one award at the same time make one order: one is carried out, the other is locked', async () => {
  const erp = await startErp();
  const sessions = [await openSession(erp), await openSession(erp)] as const;
  const award = awardOf([chairs]);
  for (const session of sessions) await write(session, 'create', awardOf([chairs]));
  const before = erp.rows.all('purchase.order').length;
  // Long enough that both loads are under way at once, also on a machine that is busy.
  erp.workFor(300);
  const outcomes = await Promise.all(sessions.map((session) => write(session, 'create', award)));
  expect(outcomes.map((outcome) => ('error' in outcome ? outcome.error.type : outcome.status)).sort()).toEqual([
    'created',
    'locked',
  ]);
  expect(erp.rows.all('purchase.order').length).toBe(before + 1);
});

test('a call that is cut off commits all the same; lookup finds it, and the repeated create makes no second order', async () => {
  const erp = await startErp();
  const session = await openSession(erp);
  await write(session, 'create', awardOf([chairs]));
  const award = awardOf([chairs]);
  erp.workFor(40);
  const stop = new AbortController();
  const began = erp.requests;
  const writing = session.write([operation('create', award)], stop.signal);
  // The vendor, the order, its form, then the load.
  await expect.poll(() => erp.requests, { interval: 1 }).toBe(began + 4);
  stop.abort();
  await expect(writing).resolves.toMatchObject([{ status: 'unknown' }]);
  await erp.idle();
  const [found] = await session.lookup([award], never);
  expect(found).toMatchObject({ key: award.key });
  await expect(write(session, 'create', award)).resolves.toMatchObject({ status: 'unchanged' });
  expect(erp.rows.all('purchase.order')).toHaveLength(2);
});

test('a record that Odoo’s own rules refuse is refused alone, with Odoo’s words; the rest of the load is written', async () => {
  const erp = await startErp({
    constraints: [
      (model, row) =>
        model === 'purchase.order.line' && row['name'] === 'Forbidden' ? 'Not this lot, please.' : undefined,
    ],
  });
  const session = await openSession(erp);
  const lots = ['One', 'Forbidden', 'Three'].map((lot) => operation('create', awardOf([{ ...chairs, lot }])));
  const outcomes = await session.write(lots, never);
  expect(outcomes.map(({ status }) => status)).toEqual(['created', 'rejected', 'created']);
  expect(JSON.stringify(outcomes[1])).toContain('Odoo: Not this lot, please.');
  expect(erp.rows.all('purchase.order')).toHaveLength(2);
});

test('a write that Odoo refuses after its first step says so: an order that was set back to draft, or marked', async () => {
  const erp = await startErp({
    constraints: [(_model, row) => (row['name'] === 'Forbidden' ? 'Not this lot, please.' : undefined)],
  });
  const session = await openSession(erp);
  const award = awardOf([chairs]);
  const id = idOf(await write(session, 'create', award));
  const order = () => erp.rows.find('purchase.order', id) as Row;
  await write(session, 'cancel', withLots(award, []));
  const back = withLots(award, [chairs, { ...chairs, lot: 'Forbidden' }]);
  await expect(write(session, 'create', back)).resolves.toMatchObject({ status: 'rejected', partial: true });
  expect(order()).toMatchObject({ state: 'draft' });
  await expect(write(session, 'create', award)).resolves.toMatchObject({ status: 'updated' });
  // A bill and its refund: nothing is billed, and Odoo refuses all the same.
  Object.assign(order(), { invoice_count: 1 });
  await expect(write(session, 'cancel', withLots(award, []))).resolves.toMatchObject({
    status: 'rejected',
    partial: true,
  });
  expect(order()).toMatchObject({ state: 'draft', origin: expect.stringMatching(/\(withdrawn\)$/u) });
});

test('a text that PostgreSQL cannot hold fails its own document only', async () => {
  const erp = await startErp();
  const session = await openSession(erp);
  const bad = awardOf([chairs], { supplier: { id: 's', external_id: 'V\0', name: 'x' } });
  const outcomes = await session.write([operation('create', bad), operation('create', awardOf([chairs]))], never);
  expect(outcomes).toMatchObject([{ status: 'rejected', error: { type: 'data' } }, { status: 'created' }]);
  expect(idOf(outcomes[1] as never)).toBeGreaterThan(0);
});

test('check says when the first API key ends, and fails two weeks before', async () => {
  const erp = await startErp();
  const line = async () => (await (await openSession(erp)).check()).find(({ name }) => name === 'API key');
  const dayIn = (days: number) => new Date(Date.now() + days * 86_400_000).toISOString().slice(0, 10);
  const addKey = (expiration_date: string | false) =>
    erp.installed.create('res.users.apikeys', { name: 'bridge', user_id: users.connector, expiration_date });
  const says = (ok: boolean, message: string) => ({ ok, message: expect.stringContaining(message) as string });
  await expect(line()).resolves.toMatchObject(says(true, 'does not tell when'));
  addKey(false);
  await expect(line()).resolves.toMatchObject(says(true, 'has no end'));
  addKey(`${dayIn(60)} 23:59:59`);
  await expect(line()).resolves.toMatchObject(says(true, dayIn(60)));
  addKey(`${dayIn(7)} 23:59:59`);
  await expect(line()).resolves.toMatchObject(says(false, `${dayIn(7)}, in 7 days: make a new one`));
  addKey(`${dayIn(-2)} 10:00:00`);
  await expect(line()).resolves.toMatchObject(says(false, 'has ended'));
});

test('check names the group that a user without rights needs', async () => {
  const erp = await startErp();
  const lines = await (await openSession(erp, { api_key: erp.newKey(users.weak) })).check();
  expect(lines.filter(({ ok }) => !ok).map(({ message }) => message)).toContainEqual(
    expect.stringContaining('Purchase / User'),
  );
});

describe('check says beforehand', () => {
  let erp: OdooStandIn;
  const lineOf = async (wanted: string, more: Record<string, unknown> = {}) =>
    (await (await openSession(erp, more)).check()).find(({ name }) => name === wanted);
  const says = (ok: boolean, message: RegExp) => ({ ok, message: expect.stringMatching(message) as string });

  beforeEach(async () => {
    erp = await startErp();
  });

  test('that the company has no warehouse', async () => {
    await expect(lineOf('warehouse')).resolves.toMatchObject(says(true, /a place to deliver to/));
    await expect(lineOf('warehouse', { company: 'Second Co' })).resolves.toMatchObject(says(false, /has no warehouse/));
  });

  test('that the user may read and not write', async () => {
    const api_key = erp.newKey(users.weak);
    await expect(lineOf('suppliers', { api_key })).resolves.toMatchObject(
      says(false, /may not create suppliers \(res\.partner\).*Contact \/ Creation/),
    );
    await expect(lineOf('prices', { awards: 'pricelists' })).resolves.toMatchObject(says(true, /unlink prices/));
  });

  test('that a currency is active without a rate, and which are active', async () => {
    await expect(lineOf('currencies')).resolves.toMatchObject(says(true, /^Active: USD, EUR\./));
    erp.installed.create('res.currency', { name: 'PLN', active: true });
    await expect(lineOf('currencies')).resolves.toMatchObject(says(false, /without a rate: PLN\./));
  });

  test('how many vendors have no reference', async () => {
    await expect(lineOf('vendors')).resolves.toMatchObject(says(true, /^All 1 vendors/));
    erp.installed.create('res.partner', { name: 'Nameless', supplier_rank: 1 });
    await expect(lineOf('vendors')).resolves.toMatchObject(says(true, /^1 of 2 vendors have no reference/));
  });
});

test('when the key is refused in the middle of a batch of suppliers, none that was not written counts as written', async () => {
  const erp = await startErp();
  const session = await openSession(erp);
  const supplier = (key: string, name: string) =>
    operation('create', {
      kind: 'supplier',
      key,
      external_id: key,
      name,
      archived: false,
      attributes: [],
      contacts: [],
    });
  const keys = ['S-1', 'S-2', 'S-3'];
  await session.write(
    keys.map((key) => supplier(key, key)),
    never,
  );
  // The search, their people, the first contact, the second one.
  erp.refuseOnce(3);
  const renamed = keys.map((key) => supplier(key, `${key} renamed`));
  const outcomes = await session.write(renamed, never);
  expect(outcomes).toMatchObject([
    { status: 'updated' },
    { status: 'retry', error: { type: 'auth' } },
    { status: 'retry', error: { type: 'auth' } },
  ]);
  const names = erp.rows.all('res.partner').flatMap(({ ref, name }) => (keys.includes(String(ref)) ? [name] : []));
  expect(names).toEqual(['S-1 renamed', 'S-2', 'S-3']);
});
