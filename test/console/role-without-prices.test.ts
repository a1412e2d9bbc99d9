/**
 * Prices wherever the bridge has words and numbers of others, as integers, in words, in titles and in the audit log: the
 * role without prices gets none of them, by no call of the console.
 */
import { beforeAll, expect, test } from 'vitest';
import { consoleApi } from '#console/api/console-api.ts';
import { recordAction } from '#platform/audit-log.ts';
import { createTestDatabase } from '../harness/test-database.ts';
import { type ConsoleServer, operator, startConsole } from './console-server.ts';
import { eventId, seedConsole, supplierId } from './seed-console.ts';
import { seededIntake } from './seed-intake.ts';

const price = /918273|nine hundred thousand|neunhunderttausend/;
const words = 'Price 918273 is above the limit: neunhunderttausend, nine hundred thousand';
const document = { flow: 'sap', kind: 'award', key: `${eventId(0)}/${supplierId(0)}` };

let server: ConsoleServer;

beforeAll(async () => {
  const { database } = await createTestDatabase();
  await seedConsole(database, Date.now());
  const prices = `regexp_replace(body, '"((?:cost|unit_price|total_cost)":|Unit price","value":)"[0-9.]+"', '"\\1"918273"', 'g')`;
  await database.query(`update bridge.document_versions set body = ${prices}`);
  await database.query(`update bridge.mirror set body = ${prices}`);
  await database.query(`update bridge.attempts set amount = '918273', message = $1`, [words]);
  await database.query('update bridge.flow_documents set last_error = $1', [words]);
  await database.query('update bridge.checkpoints set last_error = $1, failures = 3', [words]);
  await database.query('update bridge.intake_records set last_error = $1 where dead_since is not null', [words]);
  await database.query('update bridge.flows set paused_reason = $1, paused_at = now()', [words]);
  const [run] = await database.query<{ id: number }>(
    `insert into bridge.reconciliations (flow, asked_by, started, ended, documents, as_delivered, differing)
     values ('sap', 'Ada', now(), now(), 1, 0, 1) returning id`,
  );
  await database.query(
    `insert into bridge.reconciliation_findings (run, kind, key, number, finding, field, expected, held, reason)
     values ($1, 'award', $2, 1, 'changed', 'price', '918273', '918273', $3)`,
    [run?.id, document.key, words],
  );
  await recordAction(database, 'bridge', {
    who: { kind: 'user', name: 'Ada' },
    from: null,
    what: 'documents.replay',
    object: null,
    details: { title: words },
    when: '2030-01-01T00:00:00.000000Z',
    outcome: 'allowed',
  });
  server = await startConsole(database, {
    doctor: async () => [{ name: 'flow sap', level: 'fail', message: words, todo: words }],
  });
});

const queries: Record<string, Record<string, string>> = {
  '/api/search': { q: 'RFQ' },
  '/api/document': document,
  '/api/document/version': { ...document, version: '1' },
  '/api/webhooks': { source: 'main' },
  '/api/comparisons/one': { run: '1' },
  '/api/comparisons/report': { run: '1' },
  '/api/intake': { intake: seededIntake.name },
  '/api/intake/requisitions': { intake: seededIntake.name },
  '/api/intake/requisition': { intake: seededIntake.name, key: 'K-7001' },
};

async function callsWithPrices(): Promise<string[]> {
  const reads = consoleApi({ settings: { sources: [] } } as never).filter(({ method }) => method === 'GET');
  const found: string[] = [];
  for (const { path } of [...reads, { path: '/status.json' }]) {
    const response = await fetch(`${server.url}${path}?${new URLSearchParams(queries[path]).toString()}`);
    if (price.test(await response.text())) found.push(path);
  }
  return found.toSorted((one, other) => one.localeCompare(other));
}

test('no call of the console shows a price, in whatever words', async () => {
  server.viewer = { ...operator, role: 'viewer' };
  expect(await callsWithPrices()).toEqual([
    '/api/actions',
    '/api/comparisons/one',
    '/api/comparisons/report',
    '/api/dead-letters',
    '/api/doctor',
    '/api/document',
    '/api/document/version',
    '/api/documents',
    '/api/events',
    '/api/events/export',
    '/api/feeds',
    '/api/flows',
    '/api/intake',
    '/api/intakes',
    '/api/overview',
    '/api/search',
    '/status.json',
  ]);
  server.viewer = { ...operator, role: 'viewer-without-prices' };
  expect(await callsWithPrices()).toEqual([]);
});

test('the role still sees names, references, states, times and quantities', async () => {
  server.viewer = { ...operator, role: 'viewer-without-prices' };
  const answer = (await (
    await fetch(`${server.url}/api/document?${new URLSearchParams(document).toString()}`)
  ).json()) as {
    document: object;
    now: { document: { lines: object[] } };
    timeline: { entries: object[] };
  };
  expect(answer.document).toMatchObject({
    eventName: 'Office chairs 2029',
    supplierName: 'Meyer & Söhne GmbH',
    state: 'delivered',
  });
  expect(answer.now.document.lines[0]).toEqual({ lot: 'Delivery to Hamburg', share: '1', quantity: '120' });
  expect(answer.timeline.entries[0]).toMatchObject({
    step: expect.any(String),
    text: '(not shown to a role without prices)',
  });
});
