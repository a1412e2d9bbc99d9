/**
 * The transcript of docs/operations.md: the commands are run on what an ERP left that refused, hung and came back, and the
 * page must show what they print. Times and ids differ; `…` stands for what the page leaves out. The ERP is an HTTP
 * server, asked by the pusher and the `http` connector as they are; the clock is the test's.
 */
import { readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { openFlows } from '#bridge/connectors/open-flows.ts';
import { registerFlows } from '#bridge/ledger/flows/register-flows.ts';
import { createLeases } from '#bridge/ledger/leases/lease.ts';
import { startLiveness } from '#bridge/ledger/leases/liveness.ts';
import { storeRecords } from '#bridge/mirror/store-records.ts';
import { createFlowPush } from '#bridge/push/push-flow.ts';
import { bridgeSettings } from '#bridge/settings/settings.ts';
import type { FeedName } from '#contract/feed.ts';
import { timestampNow } from '#platform/clock.ts';
import { readBody } from '#platform/http/body.ts';
import { createLogger, silentLogger } from '#platform/log.ts';
import { Counter, Registry } from '#platform/metrics.ts';
import { eventRecord, idOf, lotAwardRecord, type TestRecord, testClock } from '../bridge/parts.ts';
import { closeAtEnd } from '../harness/close-at-end.ts';
import { scratchFolder } from '../harness/scratch-folder.ts';
import { createTestDatabase, type TestDatabase } from '../harness/test-database.ts';
import { runHere } from './command-line.ts';

let db: TestDatabase;
let folder: string;
const clock = testClock();
const lines: string[] = [];
const shown: Record<string, string> = {};
const [event, meyer, pull] = [idOf(1), idOf(101), idOf(77)];

/** An ERP with numbered orders. It finds them by the key that they were sent with. */
let mode: 'closed' | 'hangs' | 'works' = 'closed';
const orders = new Map<string, { key: string; reference: string; hash: string }>();

async function answerOfErp(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const body = (await readBody(request, 100_000)).toString();
  const say = (status: number, value: unknown) => void response.writeHead(status).end(JSON.stringify(value));
  if (mode === 'closed') return say(503, { error: 'the order system is closed until 12:00' });
  const key = new URL(request.url ?? '', 'http://erp').searchParams.get('key');
  if (request.method === 'GET') return say(200, { result: [orders.get(key ?? '')].filter(Boolean) });
  const sent = JSON.parse(body) as { key: string; hash: string };
  const reference = orders.get(sent.key)?.reference ?? `AWA-${String(orders.size + 1).padStart(6, '0')}`;
  orders.set(sent.key, { key: sent.key, reference, hash: sent.hash });
  if (mode === 'works') say(200, { reference });
}

beforeAll(async () => {
  db = await createTestDatabase();
  folder = await scratchFolder();
  const server = createServer((request, response) => void answerOfErp(request, response));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  closeAtEnd(async () => {
    server.closeAllConnections();
    server.close();
  });
  await tellStory(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
});
afterAll(() => db.drop());

async function tellStory(erpUrl: string): Promise<void> {
  const { database } = db;
  const order = { json: { key: '{key}', hash: '{content_hash}' } };
  const bridge = {
    sources: [{ name: 'local', base_url: 'http://127.0.0.1:1', api_key: 'key' }],
    flows: [
      {
        name: 'sap',
        source: 'local',
        connector: 'http',
        documents: ['award'],
        settings: {
          base_url: erpUrl,
          timeout_seconds: 1,
          object_url: `${erpUrl}/orders/{reference}`,
          documents: {
            award: {
              create: { method: 'POST', path: '/objects/award', body: order },
              amend: { method: 'PUT', path: '/objects/award/{reference}', body: order },
              cancel: { method: 'DELETE', path: '/objects/award/{reference}' },
              reference: { body: 'reference' },
              lookup: {
                path: '/objects/award?key={key}',
                list: 'result',
                where: { key: '{key}' },
                reference: 'reference',
                content_hash: { body: 'hash' },
              },
            },
          },
        },
      },
    ],
  };
  await writeFile(join(folder, 'bridge.yaml'), JSON.stringify({ bridge }));
  const settings = bridgeSettings.parse(bridge);
  await using opened = new AsyncDisposableStack();
  const [openFlow] = await openFlows({ settings, dataDir: folder, log: silentLogger, clock }, opened);
  if (!openFlow) throw new Error('no flow');
  await registerFlows(database, settings.flows, timestampNow(clock));
  const liveness = await startLiveness({ database, log: silentLogger });
  opened.defer(() => liveness.close());
  const push = createFlowPush({
    ...openFlow,
    database,
    acquireLease: createLeases({ database, liveness }),
    clock,
    processIdentity: { own: 'this process', isOver: () => true },
    log: createLogger({
      level: 'info',
      name: 'sourcing-bridge',
      destination: { write: (line) => void lines.push(line) },
    }).child({ program: 'bridge' }),
    outcomes: new Counter({ name: 'o', help: 'o', labelNames: ['flow', 'status'], registers: [new Registry()] }),
  });
  const pushAfter = async (ms: number) => {
    clock.advance(ms);
    await push(new AbortController().signal);
  };
  const store = (feed: FeedName, record: TestRecord) => {
    const page = { source: 'local', feed, records: [record], now: timestampNow(clock), pull };
    return database.transaction((tx) => storeRecords(tx, page));
  };
  const lot = (id: string, name: string, scenario: string) => ({
    ...lotAwardRecord(id, event, [{ supplier: meyer, cost: '1250' }]),
    lot_name: name,
    scenario_name: scenario,
  });
  await database.query(
    `with came as (
       insert into bridge.inbox (source, trigger, feed, body, received)
       values ('local', 'AWARDS_FEED_UPDATED', 'awards', '{}', $2) returning id)
     insert into bridge.answers (source, feed, after_id, last_id, pull, answered)
     select 'local', 'awards', id - 1, id, $1, $2 from came`,
    [pull, timestampNow(clock)],
  );
  const suppliers = [{ id: meyer, name: 'Meyer & Söhne KG', external_id: 'V-17' }];
  const named = { name: 'RFQ 4711: Forged flanges for Rotterdam', reference_id: 'REQ-93787', suppliers };
  await store('sourcing-events', eventRecord(event, [], named));
  await store('awards', lot(idOf(500), 'Flange DN 50', 'first'));
  await pushAfter(800);
  shown['while it is refused'] = await printed('find', '4711', 'meyer');
  mode = 'hangs';
  await pushAfter(5_000);
  await pushAfter(30_000);
  mode = 'works';
  await pushAfter(60_000);
  shown['when the ERP works again'] = await printed('find', '4711', 'meyer');
  shown['its history'] = await printed('history', '4711', 'meyer');
  await store('awards', lot(idOf(501), 'Flange DN 80', 'second'));
  await pushAfter(60_000);
  shown['what changed'] = await printed('show', '4711', 'meyer', '--sent', '2', '--against', '1');
}

/** What a command prints in a shell, as the page shows it. */
async function printed(...args: readonly string[]): Promise<string> {
  const own = ['--config', join(folder, 'bridge.yaml'), '--data', folder];
  const { stdout, stderr } = await runHere(['bridge', ...args, ...own], { DATABASE_URL: db.url });
  return `$ bridge ${args.join(' ')}\n${stdout}${stderr}`.trimEnd();
}

/** The blocks of the page that begin with a command, in their order. */
const page = readFileSync(join(import.meta.dirname, '../../docs/operations.md'), 'utf8');
const blocks = [...page.matchAll(/^```\n(\$ bridge [^]*?)\n```$/gm)].map(([, block = '']) => block);

/** A text without what differs from run to run: times, ids, ports, and the widths of columns. */
const comparable = (text: string) =>
  text
    .replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, '<time>')
    .replaceAll(/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, '<id>')
    .replaceAll(/(127\.0\.0\.1):\d+/g, '$1:<port>')
    .replaceAll(/(?<=\S) {2,}/g, '  ');

test.each([
  [0, 'while it is refused'],
  [1, 'when the ERP works again'],
  [2, 'its history'],
  [3, 'what changed'],
])('block %i of the page is what the command prints: %s', (index, name) => {
  const given = comparable(shown[name] ?? '').split('\n');
  // Each part between two lines of `…` stands in the output as it is, one after the other.
  let from = 0;
  for (const [place, part] of comparable(blocks[index] ?? 'no block')
    .split(/\n?^…$\n?/m)
    .entries()) {
    const wanted = part.split('\n').filter((line, at, all) => line !== '' || (at > 0 && at < all.length - 1));
    const [first] = [...given.keys()].filter((at) => at >= from && wanted.every((line, n) => given[at + n] === line));
    const start = place === 0 && first !== 0 ? undefined : first;
    expect({ missing: start === undefined ? part : undefined, given: start === undefined ? given : [] }).toEqual({
      missing: undefined,
      given: [],
    });
    from = (start ?? 0) + wanted.length;
  }
});

test('the page has no other transcript', () => {
  expect(blocks).toHaveLength(4);
});

test('the line of the log on the page is the first that the story has written', () => {
  const [, onPage = ''] = /^```\n(\{"level".*)\n```$/m.exec(page) ?? [];
  const known = (line: string) => {
    const { pid, hostname, durationMs, ...rest } = JSON.parse(comparable(line)) as Record<string, unknown>;
    return { ...rest, pid: typeof pid, hostname: typeof hostname, durationMs: typeof durationMs };
  };
  expect(known(onPage)).toEqual(known(lines[0] ?? '{}'));
});

test('what the story says of the log lines that join it: the same idempotency key until the outcome is known', () => {
  const told = lines.map((line) => JSON.parse(line) as Record<string, unknown>);
  expect(told.map(({ step, outcome }) => `${String(step)}: ${String(outcome)}`)).toEqual([
    'write: unknown',
    'write: unknown',
    'look up: unchanged',
    'write: updated',
  ]);
  expect(new Set(told.slice(0, 3).map(({ idempotencyKey }) => idempotencyKey)).size).toBe(1);
});
