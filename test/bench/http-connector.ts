/**
 * Awards of five lines through the http connector's `write`, against a bare loop over undici that stringifies the same
 * bodies and reads the same answers, with as many requests at once to the same server, in turns.
 */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { Pool } from 'undici';
import type { Operation } from '#connector/connector.ts';
import type { AwardDocument } from '#connector/documents.ts';
import { testContext } from '#connector/testing/test-context.ts';
import connector from '../../connectors/http/index.ts';
import { median, megabytes, printTable } from './figures.ts';
import { noteGoal } from './goals.ts';

const documentCount = 4_000;
const rounds = 9;
const linesEach = 5;
const token = 'token-of-the-benchmark';
const never = new AbortController().signal;

/** Prints documents per second on both sides and their ratio; memory over all rounds. */
export async function benchHttpConnector(): Promise<void> {
  const server = fork(new URL('rest-server-process.ts', import.meta.url));
  const [{ port }] = (await once(server, 'message')) as [{ port: number }];
  const url = `http://127.0.0.1:${port}`;
  const operations = Array.from({ length: documentCount }, (_, index) => operationOf(index));
  const rows = [['requests at once', 'a request', 'connector', 'bare', 'connector : bare', 'CPU each', 'CPU bare']];
  const rssBefore = process.memoryUsage.rss();
  try {
    for (const concurrency of [1, 4, 16])
      for (const way of ways) {
        const session = await connector.open(
          connector.settings.parse({ base_url: url, auth: { type: 'bearer', token }, concurrency, ...way.settings }),
          testContext().context,
        );
        const pool = new Pool(url, { connections: concurrency });
        try {
          const turns = { connector: [] as Turn[], bare: [] as Turn[] };
          for (let round = -1; round < rounds; round += 1) {
            const ours = await timed(() => writeAll(session, operations));
            const bare = await timed(() => sendAll(pool, operations, concurrency, way));
            // The first round only warms up.
            if (round < 0) continue;
            turns.connector.push(ours);
            turns.bare.push(bare);
          }
          const perSecond = (of: readonly Turn[]) =>
            `${Math.round((documentCount / median(of.map(({ ms }) => ms))) * 1_000).toLocaleString('en')}/s`;
          const cpu = (of: readonly Turn[]) => `${Math.round(median(of.map(({ cpuUs }) => cpuUs)) / documentCount)} us`;
          const ratio = median(turns.connector.map(({ ms }, round) => (turns.bare[round]?.ms ?? Number.NaN) / ms));
          const name = `push of awards through http, ${way.name}, ${concurrency} at once : bare`;
          noteGoal({ name, measured: ratio, least: 0.9 });
          rows.push([
            String(concurrency),
            way.name,
            perSecond(turns.connector),
            perSecond(turns.bare),
            ratio.toFixed(2),
            cpu(turns.connector),
            cpu(turns.bare),
          ]);
        } finally {
          await session.close();
          await pool.close();
        }
      }
  } finally {
    server.kill();
    await once(server, 'exit');
  }
  console.log(
    `Writing ${documentCount.toLocaleString('en')} awards of ${linesEach} lines over HTTP, against undici alone`,
  );
  printTable(rows);
  console.log(`  memory ${megabytes(rssBefore)} before, ${megabytes(process.memoryUsage.rss())} after\n`);
}

interface Way {
  readonly name: string;
  readonly settings: object;
  /** What a hand-written connector would send. */
  readonly request: (operation: Operation) => { method: 'PUT' | 'POST'; path: string; body: string };
}

const order = {
  external_id: '{key}',
  vendor: '{supplier.external_id}',
  currency: '{currency}',
  note: '{event.name} ({event.reference_id})',
  items: { each: 'lines', as: { lot: '{line.lot}', quantity: '{line.quantity}', price: '{line.unit_price}' } },
};

const ways: readonly Way[] = [
  {
    name: 'the document',
    settings: {},
    request: ({ document, contentHash }) => ({
      method: 'PUT',
      path: `/${document.kind}/${encodeURIComponent(document.key)}`,
      body: JSON.stringify({ content_hash: contentHash, ...document }),
    }),
  },
  {
    name: 'a template',
    settings: {
      idempotency_header: 'Idempotency-Key',
      documents: {
        award: {
          create: { method: 'POST', path: '/orders', body: { json: order } },
          amend: { method: 'PUT', path: '/orders/{reference}', body: { json: order } },
          cancel: { method: 'DELETE', path: '/orders/{reference}' },
          reference: { body: 'id' },
          lookup: { path: '/orders?external_id={key}', list: 'items', where: { external_id: '{key}' } },
        },
      },
    },
    request: ({ document }) => {
      const { key, supplier, currency, event, lines } = document as AwardDocument;
      const items = lines.map(({ lot, quantity, unit_price }) => ({ lot, quantity, price: unit_price }));
      const note = `${event.name} (${event.reference_id})`;
      const body = JSON.stringify({ external_id: key, vendor: supplier.external_id, currency, note, items });
      return { method: 'POST', path: '/orders', body };
    },
  },
];

type Session = Awaited<ReturnType<typeof connector.open>>;

async function writeAll(session: Session, operations: readonly Operation[]): Promise<void> {
  const { batchMax } = connector.capabilities;
  for (let from = 0; from < operations.length; from += batchMax) {
    const outcomes = await session.write(operations.slice(from, from + batchMax), never);
    const failed = outcomes.find(({ status }) => status !== 'created');
    if (failed) throw new Error(JSON.stringify(failed));
  }
}

async function sendAll(pool: Pool, operations: readonly Operation[], concurrency: number, way: Way): Promise<void> {
  let next = 0;
  const work = async () => {
    for (;;) {
      const operation = operations[next];
      if (!operation) return;
      next += 1;
      const { method, path, body } = way.request(operation);
      const headers = { 'content-type': 'application/json', authorization: `Bearer ${token}` };
      const response = await pool.request({ method, path, headers, body });
      const { id } = (await response.body.json()) as { id?: string };
      if (response.statusCode !== 201 || id === undefined) throw new Error(`answered ${response.statusCode}`);
    }
  };
  await Promise.all(Array.from({ length: concurrency }, work));
}

interface Turn {
  readonly ms: number;
  readonly cpuUs: number;
}

async function timed(run: () => Promise<void>): Promise<Turn> {
  const cpuBefore = process.cpuUsage();
  const began = performance.now();
  await run();
  const { user, system } = process.cpuUsage(cpuBefore);
  return { ms: performance.now() - began, cpuUs: user + system };
}

function operationOf(number: number): Operation {
  const event = `00000000-0000-4000-8000-${String(number).padStart(12, '0')}`;
  const supplier = '00000000-0000-4000-9000-000000000001';
  const document: AwardDocument = {
    kind: 'award',
    key: `${event}/${supplier}`,
    event: { id: event, name: `Chairs ${number}`, reference_id: 'R-1', type: 'RFQ', is_test: false, tags: [] },
    supplier: { id: supplier, external_id: '4711', name: 'Möbel Müller GmbH' },
    currency: 'EUR',
    exchange_rates: [],
    total_cost: '61728.35',
    lines: Array.from({ length: linesEach }, (_, line) => ({
      lot: `Lot ${line}`,
      share: '1',
      quantity: '100',
      unit_price: '123.4567',
      cost: '12345.67',
      values: Array.from({ length: 6 }, (_, column) => ({ column: `Column ${column}`, value: String(column * 7_919) })),
    })),
  };
  return {
    action: 'create',
    document,
    contentHash: String(number).padStart(64, '0'),
    idempotencyKey: event,
    reference: undefined,
  };
}
