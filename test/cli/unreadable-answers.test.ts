/** An ERP whose answers cannot be read: what an operator reads of each, in the list, in the history and from the doctor. */
import { writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { registerFlows } from '#bridge/ledger/flows/register-flows.ts';
import { storeRecords } from '#bridge/mirror/store-records.ts';
import { bridgeSettings } from '#bridge/settings/settings.ts';
import type { FeedName } from '#contract/feed.ts';
import { systemClock, timestampNow } from '#platform/clock.ts';
import { eventRecord, idOf, lotAwardRecord, type TestRecord } from '../bridge/parts.ts';
import { closeAtEnd } from '../harness/close-at-end.ts';
import { scratchFolder } from '../harness/scratch-folder.ts';
import { createTestDatabase, type TestDatabase } from '../harness/test-database.ts';
import { runHere } from './command-line.ts';

const page = '<!doctype html>\n<title>Sign in</title>\n<p>Your session has ended.</p>';

/** For each supplier: what the ERP answers to its order, and what is said of that. */
const answers: readonly {
  status: number;
  headers: Record<string, string>;
  body: string;
  state: 'waiting' | 'dead letter';
  words: RegExp;
}[] = [
  {
    status: 200,
    headers: { 'Content-Type': 'text/html' },
    body: page,
    state: 'waiting',
    words: /answered 200 with a body that is not JSON to PUT \/orders\/.*<title>Sign in<\/title>/,
  },
  {
    status: 200,
    headers: { 'Content-Type': 'application/json' },
    body: '{"number": "47',
    state: 'waiting',
    words: /answered 200 with a body that is not JSON.*\{"number": "47/,
  },
  {
    status: 200,
    headers: { 'Content-Type': 'application/json' },
    body: '{}',
    state: 'waiting',
    words: /answered 200 without the object's reference/,
  },
  {
    status: 422,
    headers: { 'Content-Type': 'text/html' },
    body: '<h1>Vendor is blocked</h1>',
    state: 'dead letter',
    words: /answered 422 to PUT \/orders\/.*<h1>Vendor is blocked<\/h1>/,
  },
];

let db: TestDatabase;
let folder: string;
const event = idOf(1);
const supplier = (n: number) => idOf(100 + n);
const key = (n: number) => `${event}/${supplier(n)}`;

beforeAll(async () => {
  db = await createTestDatabase();
  folder = await scratchFolder();
  const server = createServer((request, response) => {
    const answer = answers.find((_answer, n) => request.url?.includes(supplier(n))) ?? answers[0];
    request.resume().on('end', () => response.writeHead(answer?.status ?? 500, answer?.headers).end(answer?.body));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  closeAtEnd(async () => {
    server.closeAllConnections();
    server.close();
  });
  const call = (method: string) => ({ method, path: '/orders/{key}' });
  const award = {
    create: call('PUT'),
    amend: call('PUT'),
    cancel: call('DELETE'),
    reference: { body: 'number' },
    lookup: { path: '/orders/{key}', reference: 'number' },
  };
  const base_url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const bridge = {
    sources: [{ name: 'main', base_url: 'http://127.0.0.1:1', api_key: 'key' }],
    flows: [
      {
        name: 'erp',
        source: 'main',
        connector: 'http',
        documents: ['award'],
        settings: { base_url, documents: { award } },
      },
    ],
  };
  await writeFile(join(folder, 'bridge.yaml'), JSON.stringify({ bridge }));
  await registerFlows(db.database, bridgeSettings.parse(bridge).flows, timestampNow(systemClock));
  const store = (feed: FeedName, record: TestRecord) => {
    const page = { source: 'main', feed, records: [record], now: timestampNow(systemClock) };
    return db.database.transaction((tx) => storeRecords(tx, page));
  };
  const suppliers = answers.map((_answer, n) => ({ id: supplier(n), name: `Supplier ${n}`, external_id: `V-${n}` }));
  await store('sourcing-events', eventRecord(event, [], { suppliers, name: 'RFQ 4711' }));
  await store(
    'awards',
    lotAwardRecord(
      idOf(500),
      event,
      suppliers.map(({ id }) => ({ supplier: id, cost: '10' })),
    ),
  );
  await bridgeCommand('run', '--patience', '1');
}, 60_000);
afterAll(() => db.drop());

async function bridgeCommand(...args: readonly string[]): Promise<Record<string, unknown>> {
  const own = ['--json', '--config', join(folder, 'bridge.yaml'), '--data', folder];
  const { stdout } = await runHere(['bridge', ...args, ...own], { DATABASE_URL: db.url });
  return JSON.parse(stdout) as Record<string, unknown>;
}

test.each(answers.map(({ body, state, words }, n) => [body, state, words, n] as const))(
  '%j is told with its status and its text: the document is %s',
  async (_body, state, words, n) => {
    expect((await bridgeCommand('find', key(n)))['documents']).toMatchObject([
      { state, why: expect.stringMatching(words) },
    ]);
    const { attempts } = await bridgeCommand('history', key(n));
    expect(attempts).toMatchObject([{ message: expect.stringMatching(words) }]);
    const dead = (await bridgeCommand('dead-letters'))['deadLetters'] as { key: string }[];
    expect(dead.some((letter) => letter.key === key(n))).toBe(state === 'dead letter');
  },
);

test('the doctor shows the page that it got, and what to do', async () => {
  const findings = (await bridgeCommand('doctor'))['findings'] as { name: string }[];
  expect(findings.find(({ name }) => name === 'flow erp: ERP')).toMatchObject({
    level: 'fail',
    message: expect.stringMatching(/answered 200 with a body that is not JSON.*Sign in/),
    todo: expect.stringContaining('Correct what the line names'),
  });
});
