/** Planted faults, and the doctor's line for each: the cause, and what to do. */
import { randomUUID } from 'node:crypto';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, test } from 'vitest';
import { createSourceClients } from '#bridge/mirror/source/source-clients.ts';
import { storeRecords } from '#bridge/mirror/store-records.ts';
import { createRefusals } from '#bridge/receive/refusals.ts';
import { insertIntent, storeKey } from '#bridge/receive/webhook-store.ts';
import type { FlowSettings, SourceSettings } from '#bridge/settings/settings.ts';
import type { BridgeCommand } from '#cli/bridge-command.ts';
import { findCertificates } from '#cli/doctor/certificate-findings.ts';
import { findServer } from '#cli/doctor/database-findings.ts';
import { findConnector, findMapping } from '#cli/doctor/flow-findings.ts';
import { findDisk } from '#cli/doctor/machine-findings.ts';
import { findJobs } from '#cli/doctor/probe-findings.ts';
import { checkSource, findRefusals } from '#cli/doctor/source-findings.ts';
import { findWebhooks } from '#cli/doctor/webhook-findings.ts';
import type { Installation } from '#cli/installation.ts';
import type { Webhook } from '#client/webhook-calls.ts';
import { systemClock, timestampNow } from '#platform/clock.ts';
import { silentLogger } from '#platform/log.ts';
import { Registry } from '#platform/metrics.ts';
import { eventRecord, idOf, lotAwardRecord, settingsOf, testClock } from '../bridge/parts.ts';
import { testSecrets } from '../bridge/receive/receiver.ts';
import { closeAtEnd } from '../harness/close-at-end.ts';
import { scratchFolder } from '../harness/scratch-folder.ts';
import { testCertificates, testOutgoing } from '../harness/test-certificates.ts';
import { createTestDatabase } from '../harness/test-database.ts';

const { database } = await createTestDatabase();

/** What a command has, on a database of this file. Each has a source of its own name. */
async function commandOf(
  source: Partial<SourceSettings> & { base_url?: string } = {},
  flows: readonly Partial<FlowSettings>[] = [],
): Promise<BridgeCommand & { source: SourceSettings; flow: FlowSettings }> {
  commands += 1;
  const name = `source-${commands}`;
  const settings = settingsOf(
    { name, ...source },
    flows.map((flow) => ({ ...flow, source: name })),
  );
  const { clientOf } = createSourceClients({
    settings,
    fetch: testOutgoing().fetch,
    clock: systemClock,
    registry: new Registry(),
  });
  return {
    installation: { dataDir: await scratchFolder(), log: silentLogger, secrets: testSecrets } as Installation,
    settings,
    database,
    clock: systemClock,
    signal: new AbortController().signal,
    perform: (_subject, work) => work(),
    clientOf,
    source: settings.sources[0] as SourceSettings,
    flow: settings.flows[0] as FlowSettings,
  };
}
let commands = 0;

/** A server that answers every request so; returns its URL. */
async function answering(status: number, headers: Record<string, string>, body: string): Promise<string> {
  const server: Server = createServer((_request, response) => response.writeHead(status, headers).end(body));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  closeAtEnd(async () => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

const loginPage = '<!doctype html><title>Sign in</title>';
const toHttp = (base_url: string): Partial<FlowSettings> => ({
  name: 'erp',
  connector: 'http',
  documents: ['supplier'],
  settings: {
    base_url,
    documents: {
      supplier: { create: { method: 'PUT', path: '/{key}' }, reference: 'key', lookup: { path: '/{key}' } },
    },
  },
});

test('the ERP is down: the connector’s check says so', async () => {
  const command = await commandOf({}, [toHttp('http://127.0.0.1:1')]);
  expect(await findConnector(command, command.flow)).toMatchObject([
    { level: 'fail', message: expect.stringContaining('http://127.0.0.1:1'), todo: expect.stringContaining('wait') },
  ]);
});

test('the ERP’s address leads to a login page', async () => {
  const command = await commandOf({}, [toHttp(await answering(200, { 'Content-Type': 'text/html' }, loginPage))]);
  expect(await findConnector(command, command.flow)).toMatchObject([
    { level: 'fail', message: expect.stringMatching(/answered 200 with a body that is not JSON.*Sign in/) },
  ]);
});

test('an ERP that works is one line', async () => {
  const command = await commandOf({}, [toHttp(await answering(404, {}, ''))]);
  expect(await findConnector(command, command.flow)).toMatchObject([{ level: 'ok' }]);
});

test('the API key was revoked', async () => {
  const problem = JSON.stringify({ title: 'Unauthorized', status: 401, detail: 'The API key was revoked.' });
  const base_url = await answering(401, { 'Content-Type': 'application/problem+json' }, problem);
  const command = await commandOf({ base_url });
  expect(await checkSource(command, command.source)).toMatchObject([
    { level: 'fail', message: expect.stringContaining('revoked'), todo: expect.stringContaining('Issue an API key') },
  ]);
});

test('the source’s address leads to a login page', async () => {
  const command = await commandOf({ base_url: await answering(200, { 'Content-Type': 'text/html' }, loginPage) });
  expect(await checkSource(command, command.source)).toMatchObject([
    { level: 'fail', message: expect.stringContaining('a page for people'), todo: expect.stringContaining('base_url') },
  ]);
});

test('refused notifications are counted by their reason, and are no fault: anybody can send them', async () => {
  const { source, ...command } = await commandOf();
  const { database } = command;
  const clock = testClock();
  const refusals = createRefusals({ log: silentLogger, clock, sources: new Map([[source.name, undefined]]) });
  const find = () => findRefusals({ ...command, clock }, source);
  expect(await find()).toBeUndefined();
  for (let n = 0; n < 9; n += 1) {
    clock.advance(60_000);
    refusals.refused(source.name, 'wrong-signature');
    refusals.refused('no such source', 'wrong-signature');
    if (n % 3 === 0) await refusals.save(database);
  }
  refusals.refused(source.name, 'no-signature');
  await refusals.save(database);
  expect(await find()).toMatchObject({
    level: 'ok',
    message:
      '9 with a signature of another key, 1 without a signature; since 2030-01-01T00:01:00Z, the last at ' +
      '2030-01-01T00:09:00Z; they did nothing',
  });
  // A day later they are history; a new one begins to count anew.
  clock.advance(25 * 3_600_000);
  expect(await find()).toBeUndefined();
  refusals.refused(source.name, 'no-token');
  refusals.refused(source.name, 'wrong-signature');
  await refusals.save(database);
  expect((await find())?.message).toMatch(
    /^1 without a bearer token, 1 with a signature of another key; since 2030-01-02/,
  );
});

test('a mapping that cannot make the newest documents', async () => {
  const mapping = { supplier: { fields: { vendor: { from: 'attributes[Vendor No]', required: true } } } };
  const command = await commandOf({}, [
    { name: 'erp', connector: 'memory', documents: ['supplier'], mapping } as never,
  ]);
  const { database, flow, source } = command;
  expect(await findMapping(command, flow)).toMatchObject({ level: 'ok', message: 'no record has been read yet' });
  await database.query(
    `insert into bridge.resources (source, kind, id, body, content_hash, observed)
     values ($1, 'supplier', '5f0c3e62-7f0e-4a35-8a3e-0c2f6a1d9b70', '{"id": "5f0c3e62-7f0e-4a35-8a3e-0c2f6a1d9b70", "name": "Meyer", "external_id": "4711"}', '', now())`,
    [source.name],
  );
  expect(await findMapping(command, flow)).toMatchObject({
    level: 'fail',
    message: expect.stringMatching(
      /^1 of the 1 newest documents cannot be made and would be dead letters, first supplier .*Vendor No/,
    ),
    todo: expect.stringContaining('bridge mapping try erp'),
  });
});

/** A mirror that holds the event and one awarded lot of its only supplier, with this row of the bid sheet. */
async function awardTo(
  { database, source }: Awaited<ReturnType<typeof commandOf>>,
  event: ReturnType<typeof eventRecord>,
  values: [string, string][],
) {
  for (const [feed, record] of [
    ['sourcing-events', event],
    ['awards', lotAwardRecord(idOf(21), event['id'], [{ supplier: idOf(11), values }])],
  ] as const)
    await database.transaction((tx) =>
      storeRecords(tx, { source: source.name, feed, records: [record], now: timestampNow(systemClock) }),
    );
}

test('a flow that names columns which no bid sheet has', async () => {
  const command = await commandOf({}, [
    { name: 'erp', connector: 'memory', quantity_column: 'Volume', unit_price_column: 'Unit price' },
  ]);
  const { flow } = command;
  await awardTo(command, eventRecord(idOf(0xe1), [idOf(11)]), [
    ['Volume', '100'],
    ['Unit Price', '12.50'],
  ]);
  const missing = {
    level: 'fail',
    message: 'no line has a column "Unit price"; the sheets have: Volume, Unit Price',
    todo: expect.stringContaining('unit_price_column'),
  };
  expect(await findMapping(command, flow)).toMatchObject(missing);
  expect(await findMapping(command, { ...flow, quantity_column: 'Amount' })).toMatchObject({
    message: expect.stringMatching(/^no line has a column "Amount".*; no line has a column "Unit price"/),
  });
  expect(await findMapping(command, { ...flow, unit_price_column: 'Unit Price' })).toMatchObject({ level: 'ok' });
});

test('a Dutch auction needs no column of a unit price, as suppliers accept the price of a lot', async () => {
  const command = await commandOf({}, [
    { name: 'erp', connector: 'memory', quantity_column: 'Volume', unit_price_column: 'Unit Price' },
  ]);
  const { flow } = command;
  await awardTo(command, { ...eventRecord(idOf(0xe1), [idOf(11)]), type: 'DUTCH' }, [['Volume', '100']]);
  expect(await findMapping(command, flow)).toMatchObject({ level: 'ok' });
  expect(await findMapping(command, { ...flow, quantity_column: 'Amount' })).toMatchObject({
    message: 'no line has a column "Amount"; the sheets have: Volume',
  });
});

test('the disk is nearly full', async () => {
  const find = (bytes: number) => findDisk('/data', async () => ({ bavail: bytes / 1_000, bsize: 1_000 }));
  expect([(await find(1e11)).level, (await find(1e9)).level, (await find(1e8)).level]).toEqual(['ok', 'warn', 'fail']);
  expect((await find(1e8)).todo).toContain('PostgreSQL stops');
});

test('the certificate has expired, or soon will', async () => {
  const installation = {
    configuration: { service: {}, bridge: { public_host: 'localhost' } },
    certificates: testCertificates(),
  } as Installation;
  const inDays = async (days: number) => {
    const clock = { ...systemClock, nowMs: () => Date.now() + days * 86_400_000 };
    return (await findCertificates(installation, clock)).map(({ level }) => level);
  };
  expect([await inDays(0), await inDays(100_000)]).toEqual([['ok'], ['fail']]);
});

test('the service’s deliveries fail; two bridges have registered a webhook for one address', async () => {
  const command = await commandOf();
  const { database, settings, source } = command;
  const url = `https://${settings.public_host}:${settings.port}/webhooks/${source.name}`;
  const id = randomUUID();
  await insertIntent(database, { id, source: source.name, name: 'bridge', url }, '2030-01-01T00:00:00.000000Z');
  await storeKey(database, testSecrets, { id, uuid: 'own', signingKey: 'key' });
  const listed = (uuids: readonly string[]) =>
    uuids.map((uuid): Webhook => ({ uuid, name: uuid, url, is_active: true, triggers: '[AWARD]' }));
  const attempt = { time: '2030-01-01T00:00:00.000000Z', status: 401, error: 'answered 401' };
  const find = (uuids: readonly string[], attempts: (typeof attempt)[] = []) => {
    const client = {
      listWebhooks: async () => listed(uuids),
      listDeliveries: async () => ({ items: [{ id: 'one', attempts }] }),
    } as unknown as ReturnType<BridgeCommand['clientOf']>;
    return findWebhooks({ ...command, clientOf: () => client }, source);
  };
  expect(await find(['own'])).toMatchObject({ level: 'ok' });
  expect(await find(['own'], [attempt, attempt, attempt])).toMatchObject({
    level: 'fail',
    message: expect.stringContaining('answered 401'),
    todo: expect.stringContaining(`bridge webhooks rotate --source ${source.name}`),
  });
  expect(await find(['own', 'other'])).toMatchObject({
    level: 'warn',
    message: expect.stringMatching(/^two webhooks announce.*own of this bridge, and other of another installation/),
    todo: expect.stringContaining('public_host'),
  });
});

test('a flow takes jobs, and the webhook was registered before: it announces none of their ends', async () => {
  const command = await commandOf({}, [{ documents: ['job'] }]);
  const { database, settings, source } = command;
  const url = `https://${settings.public_host}:${settings.port}/webhooks/${source.name}`;
  const id = randomUUID();
  await insertIntent(database, { id, source: source.name, name: 'bridge', url }, '2030-01-01T00:00:00.000000Z');
  await storeKey(database, testSecrets, { id, uuid: 'own', signingKey: 'key' });
  const find = (triggers: string) => {
    const own: Webhook = { uuid: 'own', name: 'own', url, is_active: true, triggers };
    const client = {
      listWebhooks: async () => [own],
      listDeliveries: async () => ({ items: [] }),
    } as unknown as ReturnType<BridgeCommand['clientOf']>;
    return findWebhooks({ ...command, clientOf: () => client }, source);
  };
  expect(await find('[AWARD]')).toMatchObject({
    level: 'warn',
    message: expect.stringContaining('own does not announce the ends of jobs (JOB_UPDATED)'),
    todo: `Register it again: bridge webhooks register --source ${source.name}.`,
  });
  expect(await find('[AWARD, JOB_UPDATED]')).toMatchObject({ level: 'ok' });
});

test.each([
  [403, 'fail', 'The key has no scope "jobs".', /needs the scope jobs/],
  [404, 'ok', 'the API key may read jobs', /^$/],
] as const)(
  'a flow takes jobs, and the source answers %i to one that does not exist: %s',
  async (status, level, words, todo) => {
    const detail = status === 403 ? words : 'There is no such job.';
    const problem = JSON.stringify({ title: 'No', status, detail });
    const base_url = await answering(status, { 'Content-Type': 'application/problem+json' }, problem);
    const command = await commandOf({ base_url }, [{ documents: ['job'] }]);
    const found = await findJobs(command, command.source);
    expect(found).toMatchObject({ name: `source ${command.source.name}: jobs`, level });
    expect(found?.message).toContain(words);
    expect(found?.todo ?? '').toMatch(todo);
  },
);

test('no flow takes jobs: nothing is asked about them', async () => {
  const command = await commandOf({ base_url: 'http://127.0.0.1:1' }, [{ documents: ['award'] }]);
  expect(await findJobs(command, command.source)).toBeUndefined();
});

test('the clock of the database is off', async () => {
  const { database } = await commandOf();
  const off = { ...systemClock, nowMs: () => Date.now() + 7_000 };
  const lineOf = async (clock: typeof systemClock) =>
    (await findServer(database, 'embedded', clock)).find(({ name }) => name === 'database: clock');
  expect(await lineOf(off)).toMatchObject({ level: 'warn', message: expect.stringMatching(/^[67]\.\d s/) });
});

test('the clock of the source is off', async () => {
  const page = { data: [], next: null };
  const lineOf = async (offMs: number) => {
    const headers = { 'Content-Type': 'application/json', Date: new Date(Date.now() + offMs).toUTCString() };
    const command = await commandOf({ base_url: await answering(200, headers, JSON.stringify(page)) });
    return (await checkSource(command, command.source)).find(({ name }) => name.endsWith(': clock'));
  };
  expect(await lineOf(0)).toMatchObject({ level: 'ok' });
  // Some seconds less than an hour: `Date` has whole seconds, and the answer takes a moment.
  for (const offMs of [-3_590_000, 3_590_000])
    expect(await lineOf(offMs)).toMatchObject({
      level: 'warn',
      message: expect.stringMatching(/^35\d\d\.\d s from this machine/),
      todo: expect.stringContaining('NTP'),
    });
});
