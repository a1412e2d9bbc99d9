/**
 * One submission of 1,000 lots over HTTP, from the request to the answer after the commit, against a transaction that
 * inserts bids and feed records of the same content with `pg` alone, in two statements whose values lie ready.
 */
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from 'pg';
import { z } from 'zod';
import { type Installation, startInstalledService } from '#cli/installation.ts';
import { median, megabytes, printTable } from './figures.ts';
import { noteGoal } from './goals.ts';
import { startLoad } from './load.ts';
import { call, createOrganisation } from './set-up.ts';

const lotCount = 1_000;
const warmUps = 3;
const rounds = 15;

const column = (name: string, inputBy: string, inputType: string, precision?: number) => ({
  name,
  column_type: 'INPUT',
  input_by: inputBy,
  input_type: inputType,
  ...(precision === undefined ? {} : { precision }),
});
const columns = [
  column('Item', 'BUYER_INPUT', 'TEXT'),
  column('Annual Volume', 'BUYER_INPUT', 'NUMBER', 0),
  column('Unit Price', 'SUPPLIER_INPUT', 'CURRENCY', 4),
  column('Lead Time', 'SUPPLIER_INPUT', 'NUMBER', 0),
  column('Freight', 'SUPPLIER_INPUT', 'CURRENCY', 2),
  { name: 'Net', column_type: 'FORMULA', formula: '[Unit Price] * [Annual Volume]' },
];

/** Runs it; prints records a second of both, and their ratio. Every round is a supplier's first bid. */
export async function benchBidSubmission(installation: Installation): Promise<void> {
  const service = await startInstalledService(installation, { port: 0 });
  const load = startLoad();
  const client = new Client({ connectionString: installation.open.url });
  await client.connect();
  try {
    const { key, event, supplierIds, idleOrganisation } = await openEvent(service.url, await installation.adminToken());
    const port = Number(new URL(service.url).port);
    const lotIds = await column0(client, 'select id from service.lots where event_id = $1 order by position', [event]);
    const rssBefore = process.memoryUsage.rss();
    const overHttp: number[] = [];
    const withPg: number[] = [];
    for (let round = -warmUps; round < rounds; round += 1) {
      const number = (round + warmUps) * 2;
      const body = submission(`S${number}`, number);
      const request =
        `POST /desk/events/${event}/bids HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nAuthorization: Bearer ${key}\r\n` +
        `Content-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;
      const { latenciesMs } = await load.run({ port, connections: 1, requests: [request] });
      const bids = await client.query<BidRow>(
        `select id, lot_id, values::text as values, cost from service.bids where event_id = $1 and supplier_id = $2`,
        [event, supplierIds.get(`S${number}`)],
      );
      const records = await client.query<RecordRow>(
        `select encode(content_hash, 'hex') as hash, body from service.feed_records where id = any($1::text[])`,
        [bids.rows.map(({ id }) => id)],
      );
      if (records.rows.length !== lotCount || lotIds.length !== lotCount)
        throw new Error(`The submission made ${records.rows.length} records.`);
      const twin = { organisation: idleOrganisation, event, supplier: supplierIds.get(`S${number + 1}`), number };
      const pgMs = await insertAlike(client, twin, bids.rows, records.rows);
      if (round < 0) continue;
      overHttp.push(latenciesMs[0] ?? Number.NaN);
      withPg.push(pgMs);
    }
    const perSecond = (times: readonly number[]) => `${Math.round((lotCount / median(times)) * 1000)} records/s`;
    const ratio = median(overHttp.map((each, round) => each / (withPg[round] ?? Number.NaN)));
    noteGoal({ name: `time of a submission of ${lotCount} lots : bare inserts`, measured: ratio, most: 1.8 });
    console.log(`A supplier's submission of ${lotCount} lots over HTTP against inserting its rows with pg alone`);
    printTable([
      ['', 'over HTTP', 'pg alone', 'HTTP : pg'],
      ['median', `${median(overHttp).toFixed(0)} ms`, `${median(withPg).toFixed(0)} ms`, ratio.toFixed(2)],
      ['throughput', perSecond(overHttp), perSecond(withPg), ''],
    ]);
    console.log(`  memory ${megabytes(rssBefore)} before, ${megabytes(process.memoryUsage.rss())} after\n`);
  } finally {
    await load.close();
    await client.end();
    await service.close(0);
  }
}

interface BidRow {
  id: string;
  lot_id: string;
  values: string;
  cost: string;
}

interface RecordRow {
  hash: string;
  body: string;
}

/** The rows again, as those of another supplier, in the feed of another organisation; gives the time. */
async function insertAlike(
  client: Client,
  {
    organisation,
    event,
    supplier,
    number,
  }: { organisation: string; event: string; supplier: string | undefined; number: number },
  bids: readonly BidRow[],
  records: readonly RecordRow[],
): Promise<number> {
  const ids = bids.map(() => randomUUID());
  const first = Date.UTC(2026, 0, 1) + number * lotCount;
  const bidParams = [
    event,
    supplier,
    new Date(first).toISOString(),
    ids,
    bids.map((bid) => bid.lot_id),
    bids.map((bid) => bid.values),
    bids.map((bid) => bid.cost),
  ];
  const recordParams = [
    organisation,
    event,
    ids,
    ids.map((_id, index) => new Date(first + index).toISOString()),
    records.map(({ hash }) => Buffer.from(hash, 'hex')),
    records.map(({ body }) => body),
  ];
  const began = performance.now();
  await client.query('begin');
  await client.query(
    `insert into service.bids (event_id, supplier_id, modified, id, lot_id, values, cost)
     select $1, $2, $3, * from unnest($4::uuid[], $5::uuid[], $6::jsonb[], $7::text[])`,
    bidParams,
  );
  await client.query(
    `insert into service.feed_records
       (organisation_id, feed, sourcing_event, visible, id, modified, content_hash, body)
     select $1, 'latest-bids', $2, true, * from unnest($3::text[], $4::timestamptz[], $5::bytea[], $6::text[])`,
    recordParams,
  );
  await client.query('commit');
  return performance.now() - began;
}

async function column0(client: Client, statement: string, params: readonly unknown[]): Promise<unknown[]> {
  return (await client.query({ text: statement, values: [...params], rowMode: 'array' })).rows.map((row) => row[0]);
}

/** Every value differs from lot to lot and from round to round. */
function submission(supplier: string, number: number): string {
  return JSON.stringify({
    supplier,
    lots: Array.from({ length: lotCount }, (_, index) => ({
      lot: `Lot ${index + 1}`,
      values: {
        'Unit Price': `${index + 1}.${String(number).padStart(4, '0')}`,
        'Lead Time': String(10 + (index % 50)),
        Freight: { value: `${(index % 90) + 10}.50`, currency: 'USD' },
      },
    })),
  });
}

async function openEvent(url: string, adminToken: string) {
  const { key } = await createOrganisation(url, adminToken, ['manage', 'jobs', 'desk', 'webhooks']);
  const { organisation: idleOrganisation } = await createOrganisation(url, adminToken, ['feeds']);
  const send = (method: string, path: string, body?: object) => call(url + path, key, method, body);
  const externalIds = Array.from({ length: (warmUps + rounds) * 2 }, (_, index) => `S${index}`);
  await send('POST', '/api/manage/supplier_changes', {
    change_data: { suppliers: externalIds.map((id) => ({ external_id: id, name: id })) },
  });
  const payload = {
    name: 'A thousand lots',
    primary_cost_calculation: 'Net + Freight',
    secondary_currencies: [{ code: 'USD', exchange_rate: '0.92' }],
    suppliers: externalIds.map((id) => ({ external_id: id })),
    bid_sheet: {
      columns,
      lots: Array.from({ length: lotCount }, (_, index) => ({
        name: `Lot ${index + 1}`,
        values: [
          { column: 'Item', value: `Bolt M${(index % 30) + 4}, galvanised` },
          { column: 'Annual Volume', value: String(100 + index) },
        ],
      })),
    },
  };
  const event = await createdEvent(send, payload);
  await send('POST', `/desk/events/${event}/publish`, {});
  const { suppliers } = z
    .looseObject({ suppliers: z.array(z.looseObject({ id: z.string(), external_id: z.string() })) })
    .parse(await send('GET', `/desk/events/${event}`));
  return { key, event, idleOrganisation, supplierIds: new Map(suppliers.map((one) => [one.external_id, one.id])) };
}

const made = z.looseObject({ id: z.string() });
const ended = z.looseObject({ status: z.string(), created_entity: z.string().optional() });

/** It is refused until the suppliers have been processed. */
async function createdEvent(
  send: (method: string, path: string, body?: object) => Promise<unknown>,
  payload: object,
): Promise<string> {
  for (;;) {
    const { id } = made.parse(await send('POST', '/api/jobs/create-sourcing-events', payload));
    for (;;) {
      const job = ended.parse(await send('GET', `/api/jobs/${id}`));
      if (job.created_entity !== undefined) return job.created_entity;
      if (job.status === 'FAILED') break;
      await sleep(20);
    }
  }
}
