/**
 * An ERP and a source that repeat the secrets that they were sent, in every spelling, in whatever they answer. No command
 * prints one of them, no log line has one, and none is stored: so what shows stored words, like the console, has none.
 */
import { writeFile } from 'node:fs/promises';
import { createServer, type IncomingMessage } from 'node:http';
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
import { runCommandLine, runHere } from './command-line.ts';

const password = 'p4ss/"w0rd"&<17>';
const apiKey = 'key+of=the/source-9f8e7d';
const hook = 'T0000hook9f8e7d6c';

/** What no output may hold, whatever the output is escaped by: the middle of each secret, in each of its spellings. */
const forms = [password, apiKey, hook].flatMap((secret) => [
  secret,
  encodeURIComponent(secret),
  JSON.stringify(secret).slice(1, -1),
  Buffer.from(secret).toString('hex'),
  Buffer.from(`bridge:${secret}`).toString('base64').slice(10, -4),
  Buffer.from(secret).toString('base64').slice(0, -4),
]);
const leaksIn = (text: string) => forms.filter((form) => text.includes(form) || JSON.stringify(text).includes(form));

function echo(secret: string): string {
  const html = secret.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('"', '&quot;');
  return (
    `refused ${secret} ${encodeURIComponent(secret)} ${JSON.stringify({ secret })} <b>${html}</b> ` +
    `Basic ${Buffer.from(`bridge:${secret}`).toString('base64')} ${Buffer.from(secret).toString('base64url')}; ` +
    `user=${Buffer.from(`bridge:${secret}`).toString('base64')}, ${Buffer.from(secret).toString('hex')}`
  );
}

/** A server that answers so; returns its URL. */
async function serve(answer: (request: IncomingMessage) => [status: number, body: string]): Promise<string> {
  const server = createServer((request, response) => {
    const [status, body] = answer(request);
    request.resume().on('end', () => response.writeHead(status, { 'Content-Type': 'application/json' }).end(body));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  closeAtEnd(async () => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

let db: TestDatabase;
let folder: string;
const event = idOf(1);
const supplier = (n: number) => idOf(100 + n);
/** What the ERP was asked, and whether it refuses the login by now. */
const asked: string[] = [];
let refusesLogin = false;

/** The ERP refuses the first document, fails with the second, and calls the third by the password. */
function answerOfErp({ method = '', url = '' }: IncomingMessage): [number, string] {
  asked.push(method);
  const words = JSON.stringify({ error: echo(password) });
  if (refusesLogin) return [401, words];
  if (url.includes(supplier(1))) return [422, words];
  if (url.includes(supplier(2))) return [503, words];
  return [200, JSON.stringify({ id: `order-${password}` })];
}

beforeAll(async () => {
  db = await createTestDatabase();
  folder = await scratchFolder();
  const erp = await serve(answerOfErp);
  const source = await serve(() => [403, JSON.stringify({ title: 'no', status: 403, detail: echo(apiKey) })]);
  const channel = await serve(() => [404, `no channel ${echo(hook)}`]);
  const call = (method: string) => ({ method, path: '/orders/{key}' });
  const bridge = {
    sources: [{ name: 'main', base_url: source, api_key: apiKey, quotas: { enabled: false } }],
    alerts: { webhook: { url: `${channel}/services/${hook}` } },
    flows: [
      {
        name: 'erp',
        source: 'main',
        connector: 'http',
        documents: ['award'],
        settings: {
          base_url: erp,
          auth: { type: 'basic', user: 'bridge', password },
          documents: {
            award: {
              create: call('PUT'),
              amend: call('PUT'),
              cancel: call('DELETE'),
              reference: { body: 'id' },
              lookup: { path: '/orders/{key}', reference: 'id' },
            },
          },
        },
      },
    ],
  };
  await writeFile(join(folder, 'bridge.yaml'), JSON.stringify({ bridge }));
  await registerFlows(db.database, bridgeSettings.parse(bridge).flows, timestampNow(systemClock));
  const store = (feed: FeedName, ...records: TestRecord[]) =>
    db.database.transaction((tx) =>
      storeRecords(tx, { source: 'main', feed, records, now: timestampNow(systemClock) }),
    );
  const suppliers = [1, 2, 3].map((n) => ({ id: supplier(n), name: `Supplier ${n}`, external_id: `V-${n}` }));
  await store('sourcing-events', eventRecord(event, [], { suppliers, name: 'RFQ 4711', reference_id: 'REQ-93' }));
  await store(
    'awards',
    lotAwardRecord(
      idOf(500),
      event,
      [1, 2, 3].map((n) => ({ supplier: supplier(n), cost: '10' })),
    ),
  );
}, 60_000);
afterAll(() => db.drop());

const own = () => ['--config', join(folder, 'bridge.yaml'), '--data', folder];

/** `bridge run`: what it prints, and all that it logs. */
async function runBridge(): Promise<string> {
  const args = ['bridge', 'run', '--patience', '1', ...own()];
  const { stdout, stderr } = await runCommandLine(args, { DATABASE_URL: db.url, LOG_LEVEL: 'debug' });
  return stdout + stderr;
}

/** What a command prints, for people and as JSON. */
async function shownBy(...args: readonly string[]): Promise<string[]> {
  const shown: string[] = [];
  for (const form of [[], ['--json']]) {
    const { stdout, stderr } = await runHere([...args, ...form, ...own()], { DATABASE_URL: db.url });
    shown.push(stdout + stderr);
  }
  return shown;
}

// The tests below look at what this one has left.
test('a run prints and logs no secret, also with LOG_LEVEL=debug', async () => {
  const runs = [await runBridge()];
  await shownBy('bridge', 'replay', '--flow', 'erp', '--dead', '--yes');
  refusesLogin = true;
  runs.push(await runBridge());
  for (const run of runs) expect(run).toContain('[secret]');
  expect(runs.flatMap(leaksIn)).toEqual([]);
  expect(asked).toEqual(expect.arrayContaining(['PUT', 'GET']));
}, 60_000);

test('nothing of the database has a secret: not a word of the ERP, of the source, or of a receiver of alerts', async () => {
  const tables = await db.database.query<{ name: string }>(
    `select quote_ident(schemaname) || '.' || quote_ident(tablename) as name from pg_tables
     where schemaname not in ('pg_catalog', 'information_schema')`,
  );
  const texts = new Map<string, string>();
  for (const { name } of tables) {
    const [row] = await db.database.query<{ text: string | null }>(
      `select string_agg(t::text, ' ') as text from ${name} t`,
    );
    texts.set(name, row?.text ?? '');
  }
  // What this proves depends on the words having arrived there.
  for (const place of ['attempts', 'flow_documents', 'flows', 'checkpoints', 'alerts'])
    expect({ place, text: texts.get(`bridge.${place}`) }).toMatchObject({ text: expect.stringContaining('[secret]') });
  expect([...texts].filter(([, text]) => leaksIn(text).length > 0).map(([name]) => name)).toEqual([]);
});

test.each([
  [['bridge', 'find', '4711']],
  [['bridge', 'history']],
  [['bridge', 'history', '4711', 'V-1']],
  [['bridge', 'show', '4711', 'V-3']],
  [['bridge', 'status']],
  [['bridge', 'doctor']],
  [['bridge', 'plan']],
  [['bridge', 'alerts', 'test']],
  [['bridge', 'webhooks', 'list', '--source', 'main']],
  [['connector', 'verify', 'http']],
])('shows the words without the secrets: %s', async (args) => {
  if (args.includes('plan')) await endCalls();
  const shown = await shownBy(...args);
  for (const text of shown) expect(text).toContain('[secret]');
  expect(shown.flatMap(leaksIn)).toEqual([]);
});

/** Plan asks the ERP what it holds of calls that can no longer take effect. */
async function endCalls(): Promise<void> {
  await db.database.query(
    `update bridge.flow_documents set due = now(), intent_at = intent_at - interval '1 hour',
       call_ended = call_ended - interval '1 hour' where intent_at is not null`,
  );
}

test.each([[['show', '4711', 'V-1']], [['mapping', 'try', 'erp']], [['backfill', 'list']], [['audit']]])(
  'shows no secret: bridge %s',
  async (args) => {
    expect((await shownBy('bridge', ...args)).flatMap(leaksIn)).toEqual([]);
  },
);

test('a reference with a secret in it is no reference', async () => {
  const key = `${event}/${supplier(3)}`;
  const [row] = await db.database.query('select reference, delivered from bridge.flow_documents where key = $1', [key]);
  expect(row).toEqual({ reference: null, delivered: null });
  expect((await shownBy('bridge', 'history', key))[0]).toContain('holds a secret of the settings');
});
