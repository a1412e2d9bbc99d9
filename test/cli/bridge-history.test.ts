/**
 * The commands that follow a document: find, history, show, and names for replay, plan and dead-letters. The deliveries
 * are made by the pusher of the push tests with an ERP that refuses, hangs and comes back; their clock stands in 2030.
 */
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { createSecretRedactor } from '#bridge/connectors/secret-redactor.ts';
import { pauseFlow, resumeFlow } from '#bridge/ledger/flows/control-flows.ts';
import { registerFlows } from '#bridge/ledger/flows/register-flows.ts';
import { createLeases } from '#bridge/ledger/leases/lease.ts';
import { startLiveness } from '#bridge/ledger/leases/liveness.ts';
import { storeRecords } from '#bridge/mirror/store-records.ts';
import { createFlowPush } from '#bridge/push/push-flow.ts';
import type { FeedName } from '#contract/feed.ts';
import { timestampNow } from '#platform/clock.ts';
import { silentLogger } from '#platform/log.ts';
import { Counter, Registry } from '#platform/metrics.ts';
import { eventRecord, flowOf, idOf, lotAwardRecord, type TestRecord, testClock } from '../bridge/parts.ts';
import { createFakeErp } from '../bridge/push/fake-erp.ts';
import { scratchFolder } from '../harness/scratch-folder.ts';
import { createTestDatabase, type TestDatabase } from '../harness/test-database.ts';
import { runHere } from './command-line.ts';

const steel = idOf(1);
const sheets = idOf(2);
const [meyer, mueller] = [idOf(101), idOf(102)];
const key = (event: string, supplier: string) => `${event}/${supplier}`;
const orderUrl = 'https://erp.example.com/#acme/model/purchase.purchase/17';

let db: TestDatabase;
let folder: string;
let config: string;
const clock = testClock();
const erp = createFakeErp({ lateEffectMs: 30_000 });
const flow = flowOf({ name: 'sap' });
/** The idempotency key of the create that the ERP refused. */
let requestId = '';

async function store(feed: FeedName, ...records: TestRecord[]): Promise<void> {
  await db.database.transaction((tx) =>
    storeRecords(tx, { source: 'main', feed, records, now: timestampNow(clock), pull: idOf(77) }),
  );
}

beforeAll(async () => {
  db = await createTestDatabase();
  folder = await scratchFolder();
  config = join(folder, 'bridge.yaml');
  await writeFile(config, JSON.stringify(configuration));
  await tellStory();
});
afterAll(() => db.drop());

const configuration = {
  bridge: {
    sources: [{ name: 'main', base_url: 'http://127.0.0.1:1', api_key: '${SOURCE_KEY_THAT_IS_NOT_SET}' }],
    flows: [
      {
        name: 'sap',
        source: 'main',
        connector: 'tryton',
        settings: {
          url: 'https://erp.example.com',
          database: 'acme',
          user: 'bridge',
          password: '${ERP_PASSWORD_THAT_IS_NOT_SET}',
        },
      },
    ],
  },
};

/** RFQ 4711 goes to Meyer: the ERP refuses, hangs, and then has it as 17. It is changed. RFQ 4712 was never sent. */
async function tellStory(): Promise<void> {
  const { database } = db;
  const liveness = await startLiveness({ database, log: silentLogger });
  const push = createFlowPush({
    flow,
    connector: erp.connector,
    session: erp.session,
    secrets: createSecretRedactor({}),
    database,
    acquireLease: createLeases({ database, liveness }),
    clock,
    processIdentity: { own: 'this process', isOver: () => true },
    log: silentLogger,
    outcomes: new Counter({ name: 'o', help: 'o', labelNames: ['flow', 'status'], registers: [new Registry()] }),
  });
  const pushAfter = async (ms: number) => {
    clock.advance(ms);
    await push(new AbortController().signal);
  };
  await registerFlows(database, [flow], timestampNow(clock));
  const suppliers = [
    { id: meyer, name: 'Meyer & Söhne', external_id: 'V-17' },
    { id: mueller, name: 'Müller GmbH', external_id: 'V-18' },
  ];
  const named = { suppliers };
  await store(
    'sourcing-events',
    eventRecord(steel, [], { ...named, name: 'RFQ 4711: Flanges', reference_id: 'REQ-93' }),
  );
  await database.query(
    `with came as (
       insert into bridge.inbox (source, trigger, feed, body, received)
       values ('main', 'AWARDS_FEED_UPDATED', 'awards', '{}', '2030-01-01T00:00:00Z') returning id)
     insert into bridge.answers (source, feed, after_id, last_id, pull, answered)
     select 'main', 'awards', id - 1, id, $1, '2030-01-01T00:00:01Z' from came`,
    [idOf(77)],
  );
  await store('awards', lotAwardRecord(idOf(500), steel, [{ supplier: meyer, cost: '10' }, { supplier: mueller }]));
  const plain = erp.onWrite;
  erp.onWrite = async (operations, apply) =>
    operations.map((one) =>
      one.document.key === key(steel, meyer)
        ? { status: 'retry', error: { type: 'transient', message: 'HTTP 503: closed for lunch' } }
        : apply(one),
    );
  await pushAfter(0);
  requestId = erp.operations.find(({ document }) => document.key === key(steel, meyer))?.idempotencyKey ?? '';
  erp.onWrite = async () => [{ status: 'unknown', message: 'no answer within 30 s' }];
  await pushAfter(5_000);
  erp.onWrite = async () => [{ status: 'created', reference: 'purchase.purchase,17' }];
  await pushAfter(60_000);
  await store('awards', lotAwardRecord(idOf(500), steel, [{ supplier: meyer, cost: '12.50' }, { supplier: mueller }]));
  erp.onWrite = async () => [{ status: 'updated', reference: 'purchase.purchase,17' }];
  await pushAfter(60_000);
  erp.onWrite = plain;
  await pauseFlow(database, 'sap', 'month end', timestampNow(clock));
  await store('sourcing-events', eventRecord(sheets, [], { ...named, name: 'RFQ 4712: Sheets' }));
  await store('awards', lotAwardRecord(idOf(501), sheets, [{ supplier: meyer, cost: '99' }]));
  await liveness.close();
}

/** Runs a command in a shell that has no secret of the ERP or of the source. */
const bridge = (...args: readonly string[]) =>
  runHere(['bridge', ...args, '--config', config, '--data', folder], { DATABASE_URL: db.url });

async function json(...args: readonly string[]) {
  const { code, stdout, stderr } = await bridge(...args, '--json');
  expect(stderr).toBe('');
  return { code, value: JSON.parse(stdout) as Record<string, unknown> };
}

const withoutLineEnds = (text: string) => text.replaceAll('\n', '');

const keysOf = ({ value }: Awaited<ReturnType<typeof json>>) =>
  (value['documents'] as { key: string }[]).map((document) => document.key);

describe('find', () => {
  test.each([
    ['words of two names, in any order and case', ['MEYER', '4711'], [key(steel, meyer)]],
    ['phrases in quotation marks', ['RFQ 4711: flanges', 'Meyer & söhne'], [key(steel, meyer)]],
    ['the reference of the event', ['REQ-93', 'müller'], [key(steel, mueller)]],
    ['the external id of the supplier', ['v-18'], [key(steel, mueller)]],
    ["the ERP's reference", ['purchase.purchase,17'], [key(steel, meyer)]],
    ['the end of the reference, with the kind', ['award', ',17'], [key(steel, meyer)]],
    ['the id of the event', [sheets], [key(sheets, meyer)]],
    ['the id of a feed record', [idOf(501)], [key(sheets, meyer)]],
    ['the key', [key(steel, mueller)], [key(steel, mueller)]],
  ])('finds a document by %s', async (_what, words, keys) => {
    expect(keysOf(await json('find', ...words))).toEqual(keys);
  });

  test('takes an argument with a space as one phrase: its words may not stand apart', async () => {
    expect(keysOf(await json('find', '4711', 'söhne'))).toEqual([key(steel, meyer)]);
    expect((await bridge('find', '4711 söhne')).code).toBe(1);
    expect((await bridge('history', 'RFQ 4711:  Flanges', 'Müller')).stdout).toContain(key(steel, mueller));
  });

  test('finds a document by the idempotency key of an earlier call', async () => {
    expect(keysOf(await json('find', requestId))).toEqual([key(steel, meyer)]);
  });

  test('says why a document is not in the ERP that was never tried, and where one is that was', async () => {
    const { code, value } = await json('find', 'meyer');
    expect(code).toBe(0);
    expect(value['documents']).toMatchObject([
      { key: key(sheets, meyer), state: 'waiting', why: 'its flow is paused: month end', reference: null, url: null },
      { key: key(steel, meyer), state: 'delivered', reference: 'purchase.purchase,17', url: orderUrl },
    ]);
    const text = await bridge('find', '4712', 'Meyer');
    expect(text.stdout).toMatch(/RFQ 4712: Sheets +Meyer & Söhne \(V-17\) +waiting .*its flow is paused: month end/);
  });

  test('says that there are more than the limit', async () => {
    const first = await json('find', 'rfq', '--limit', '2');
    expect([keysOf(first).length, first.value['hasMore']]).toEqual([2, true]);
    const all = await json('find', 'rfq', '--limit', '3');
    expect(all.value['hasMore']).toBe(false);
    expect(keysOf(all).sort()).toEqual([key(steel, meyer), key(steel, mueller), key(sheets, meyer)].sort());
  });

  test('exits with 1 when nothing fits, and names what the words fit when no document is about all of them', async () => {
    expect(await bridge('find', '4712', 'müller')).toMatchObject({
      code: 1,
      stdout: expect.stringMatching(/RFQ 4712: Sheets[^]*Müller GmbH \(V-18\)/),
    });
    expect(await bridge('find', '100%_sure')).toMatchObject({
      code: 1,
      stdout: expect.stringContaining('Nothing fits'),
    });
  });
});

describe('history', () => {
  test('tells the way of one document from the change to the ERP, in order, with the ids that join it', async () => {
    const { code, value } = await json('history', '4711', 'meyer');
    expect(code).toBe(0);
    const entries = value['entries'] as { step: string; text: string; ids: Record<string, string> }[];
    const later = entries.filter(({ step }) => !['changed', 'read'].includes(step));
    expect(later.map(({ step, text }) => `${step}: ${text}`)).toEqual([
      'announced: AWARDS_FEED_UPDATED came in',
      `sent: create, 10 EUR, idempotency key ${requestId}`,
      expect.stringMatching(/^answered: retry: HTTP 503: closed for lunch; next at 2030-01-01T00:00:01Z$/),
      expect.stringMatching(/^sent: create, 10 EUR, idempotency key /),
      expect.stringMatching(/^answered: unknown: no answer within 30 s; next at 2030-01-01T00:00:35Z$/),
      expect.stringMatching(/^sent: create, 10 EUR, idempotency key /),
      'answered: created: purchase.purchase,17',
      expect.stringMatching(/^sent: amend, 12.5 EUR, idempotency key /),
      'answered: updated: purchase.purchase,17',
    ]);
    expect(entries.filter(({ step }) => step === 'changed').map(({ text }) => text)).toEqual([
      `sourcing-events ${steel} changed at the service`,
      `awards ${idOf(500)} changed at the service`,
      `awards ${idOf(500)} changed at the service`,
    ]);
    expect(entries.find(({ step }) => step === 'announced')?.ids['pull']).toBe(idOf(77));
  });

  test('shows the latest attempts up to the limit', async () => {
    const last = await json('history', key(steel, meyer), '--limit', '1');
    expect(last.value['attempts']).toMatchObject([{ outcome: 'updated', amount: '12.5' }]);
    const more = await json('history', key(steel, meyer), '--limit', '2');
    expect(more.value['attempts']).toMatchObject([
      { outcome: 'created', amount: '10' },
      { outcome: 'updated', amount: '12.5' },
    ]);
  });

  test('says by which option older attempts are shown', async () => {
    expect((await bridge('history', key(steel, meyer), '--limit', '1')).stdout).toMatch(/--limit shows it\.\n$/);
    expect((await bridge('history', key(steel, meyer))).stdout).not.toContain('--');
  });

  test('without words shows the latest attempts of all documents', async () => {
    const { value } = await json('history', '--limit', '2');
    expect(value['attempts']).toMatchObject([
      { outcome: 'updated', supplierName: 'Meyer & Söhne', url: orderUrl },
      { outcome: 'created', supplierName: 'Meyer & Söhne' },
    ]);
    expect(value['hasMore']).toBe(true);
    const rest = await json('history', '--to', '2030-01-01T00:00:01Z');
    expect((rest.value['attempts'] as { outcome: string }[]).map(({ outcome }) => outcome).sort()).toEqual([
      'created',
      'retry',
    ]);
  });

  test('exits with 1 while a document waits, and says in its head why', async () => {
    const { code, stdout } = await bridge('history', '4712', 'meyer');
    expect(code).toBe(1);
    expect(stdout).toMatch(/^ {2}why +its flow is paused: month end$/m);
  });

  test('asks for more words when several documents fit', async () => {
    const { code, stderr } = await bridge('history', 'meyer');
    expect(code).toBe(2);
    expect(stderr).toContain('fits several documents');
    expect(stderr).toContain(key(sheets, meyer));
  });
});

describe('show', () => {
  test('says what changed between two versions that were sent', async () => {
    const { value } = await json('show', '4711', 'meyer', '--sent', '2', '--against', '1');
    expect(value['differences']).toEqual(['~ total_cost: "10" -> "12.5"', '~ lines[0].cost: "10" -> "12.50"']);
    expect(value['versions']).toMatchObject([
      { number: 1, outcome: 'created', reference: 'purchase.purchase,17', isDelivered: false },
      { number: 2, outcome: 'updated', isDelivered: true },
    ]);
  });

  test('shows the document as it is now, and that it does not differ from what the ERP has', async () => {
    const { code, stdout } = await bridge('show', '4711', 'meyer');
    expect(code).toBe(0);
    expect(stdout).toContain('"total_cost": "12.5"');
    expect(stdout).toContain('It does not differ from version 2, which the ERP has.');
    expect(stdout).toContain(orderUrl);
  });
});

describe('words of an ERP', () => {
  /** Clears the screen, sets the title of the window, begins a line, and turns the direction of what follows. */
  const hostile = '\u001b[2J\u001b]0;owned\u0007\u009b31m no such vendor\r\n  state       delivered\u202e';
  test.each([
    ['find', ['find', key(sheets, meyer)]],
    ['history', ['history', key(sheets, meyer)]],
    ['show', ['show', key(sheets, meyer)]],
    ['dead-letters', ['dead-letters']],
    ['status', ['status']],
  ])('cannot control the terminal, nor forge a line: %s', async (_what, command) => {
    await db.database.query(
      'update bridge.flow_documents set dead_since = now(), due = null, last_error = $2 where key = $1',
      [key(sheets, meyer), hostile],
    );
    const { stdout } = await bridge(...command);
    expect(stdout).toContain('no such vendor');
    expect(withoutLineEnds(stdout)).not.toMatch(/[\p{Cc}\p{Cf}]/u);
    expect(stdout).not.toMatch(/^ {2}state +delivered/m);
  });
});

test('words of a source that a command ends with cannot control the terminal', async () => {
  const source = createServer((_request, response) => {
    response.writeHead(400, { 'Content-Type': 'application/problem+json' });
    response.end(JSON.stringify({ title: 'Bad request', status: 400, detail: '\u001b[2Jno such host\u009b31m' }));
  });
  source.listen(0, '127.0.0.1');
  await once(source, 'listening');
  onTestFinished(() => void source.close());
  const { port } = source.address() as AddressInfo;
  const file = join(folder, 'hostile.yaml');
  const [main] = configuration.bridge.sources;
  const own = { ...main, base_url: `http://127.0.0.1:${port}`, api_key: 'key' };
  await writeFile(file, JSON.stringify({ bridge: { sources: [own] } }));
  const command = ['bridge', 'webhooks', 'register', '--source', 'main', '--config', file, '--data', folder];
  const { stderr } = await runHere(command, { DATABASE_URL: db.url });
  expect(stderr).toContain('no such host');
  expect(withoutLineEnds(stderr)).not.toMatch(/\p{Cc}/u);
});

describe('names', () => {
  test('choose what dead-letters shows and replay writes again; a name that fits several is refused', async () => {
    await db.database.query(
      `update bridge.flow_documents set dead_since = now(), due = null, last_error = 'no such vendor' where key = $1`,
      [key(sheets, meyer)],
    );
    const dead = await json('dead-letters', '--supplier', 'Meyer', '--event', '4712');
    expect(dead.value['deadLetters']).toMatchObject([
      { key: key(sheets, meyer), eventName: 'RFQ 4712: Sheets', supplierName: 'Meyer & Söhne' },
    ]);
    expect((await json('dead-letters', '--supplier', 'V-18')).value['deadLetters']).toEqual([]);
    const several = await bridge('replay', '--flow', 'sap', '--event', 'RFQ', '--yes');
    expect([several.code, several.stderr]).toEqual([
      2,
      expect.stringContaining(`${steel}  RFQ 4711: Flanges (REQ-93)`),
    ]);
    const one = await json('replay', '--flow', 'sap', '--event', '4712', '--supplier', 'V-17', '--yes');
    expect(one.value).toEqual({ flow: 'sap', replayed: 1 });
    await resumeFlow(db.database, 'sap', { agreeToWithdrawals: false }, timestampNow(clock));
  });
});

test('a command that calls the ERP still names the variable that is not set', async () => {
  const { code, stderr } = await bridge('plan', 'sap');
  expect(code).toBe(2);
  expect(stderr).toContain('ERP_PASSWORD_THAT_IS_NOT_SET');
  expect((await bridge('status')).stderr).toBe('');
});
