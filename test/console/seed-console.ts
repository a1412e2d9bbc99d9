/**
 * A small company's sourcing in a database, as the bridge would have left it: events, suppliers, awards in every state,
 * attempts, versions, notifications. For the tests of the console and for its screenshots. The rows are written
 * directly, because a state such as "refused a week ago" would need a week.
 */
import { createHash, randomUUID } from 'node:crypto';
import { documentHash } from '#bridge/mirror/assemble/make-documents.ts';
import { noteSubjects } from '#bridge/mirror/subjects.ts';
import { type BridgeSettings, bridgeSettings } from '#bridge/settings/settings.ts';
import type { AwardDocument } from '#connector/documents.ts';
import { type Timestamp, timestampFromMs } from '#contract/timestamp.ts';
import type { Database } from '#platform/database/database.ts';
import { timeOrderedId } from '#platform/time-ordered-id.ts';
import { seededIntake, seedIntake } from './seed-intake.ts';

export const seededSettings: BridgeSettings = bridgeSettings.parse({
  port: 8443,
  sources: [{ name: 'main', base_url: 'https://sourcing.example.com', api_key: 'key-of-the-source' }],
  flows: [
    {
      name: 'sap',
      source: 'main',
      connector: 'memory',
      documents: ['award'],
      quantity_column: 'Quantity',
      unit_price_column: 'Unit price',
      settings: { base_url: 'https://erp.example.com', client_id: 'bridge', client_secret: 'hunter-2-secret' },
    },
    {
      name: 'archive',
      source: 'main',
      connector: 'file',
      documents: ['award'],
      settings: { directory: 'out' },
    },
  ],
  intakes: [seededIntake],
});

/** A name that is markup: wherever it is shown, it is text. */
export const hostileName = `<img src=x onerror="document.title='owned'"> & 'Söhne'`;

const minuteMs = 60_000;
const buyers = [
  'Office chairs',
  'Steel sheets 2 mm',
  'Laptops for Lyon',
  'Cleaning services',
  'Packaging, corrugated',
  'Pumps and valves',
  'Fleet leasing',
  'Lab consumables',
];
const suppliers = [
  'Meyer & Söhne GmbH',
  'Acme Industrial',
  'Nordstål AB',
  'Fontaine SARL',
  'Brightline Ltd',
  'Kowalski Sp. z o.o.',
  hostileName,
];

const idFor = (text: string) => {
  const hex = createHash('sha256').update(text).digest('hex');
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-4${hex.slice(13, 16)}-8${hex.slice(17, 20)}-${hex.slice(20, 32)}`;
};
export const eventId = (number: number) => idFor(`event ${number}`);
export const supplierId = (number: number) => idFor(`supplier ${number}`);
export const supplierName = (number: number) => suppliers[number % suppliers.length] ?? '';
export const eventName = (number: number) =>
  `${buyers[number % buyers.length]} ${2029 + Math.floor(number / buyers.length)}`;
const supplierNumber = (number: number) => `V-${100_200 + number * 17}`;

interface SeededAward {
  readonly flow: string;
  readonly event: number;
  readonly supplier: number;
  readonly state: 'delivered' | 'refused' | 'waiting';
  readonly error?: string;
  readonly versions?: number;
}

/** Writes everything; `now` is the newest moment. */
export async function seedConsole(database: Database, nowMs: number): Promise<void> {
  const at = (minutesAgo: number): Timestamp => timestampFromMs(nowMs - minutesAgo * minuteMs);
  await database.query(
    `insert into bridge.flows (name, source, kinds) values ('sap', 'main', '{award}'), ('archive', 'main', '{award}')`,
  );
  for (const [index, feed] of ['sourcing-events', 'latest-bids', 'awards', 'rfi-responses'].entries())
    await database.query(
      `insert into bridge.checkpoints (source, feed, watermark, next_pull, last_pull, answered, created)
       values ('main', $1, $2, $3, $2, 0, $2)`,
      [feed, timestampFromMs(nowMs - 4_000 - index * 700), timestampFromMs(nowMs + 40_000)],
    );
  const events = buyers.map((_, number) => number);
  await database.transaction((tx) =>
    noteSubjects(tx, 'main', [
      ...events.map((number) => ({
        kind: 'event' as const,
        id: eventId(number),
        name: eventName(number),
        reference: `RFQ-${4_711 + number}`,
      })),
      ...suppliers.map((name, number) => ({
        kind: 'supplier' as const,
        id: supplierId(number),
        name,
        reference: supplierNumber(number),
      })),
    ]),
  );
  for (const number of events)
    await mirror(database, 'sourcing-events', eventId(number), eventId(number), at(240 - number * 9), {
      id: eventId(number),
      name: eventName(number),
      reference_id: `RFQ-${4_711 + number}`,
      type: number % 3 === 1 ? 'ENGLISH' : 'RFQ',
      status: number === 6 ? 'OPEN' : 'CLOSED',
      modified: at(240 - number * 9),
      primary_currency: number === 2 ? 'SEK' : 'EUR',
      suppliers: suppliers.map((name, index) => ({ id: supplierId(index), name, external_id: supplierNumber(index) })),
    });
  const awards: SeededAward[] = [
    { flow: 'archive', event: 7, supplier: 6, state: 'delivered' },
    ...events.slice(0, 6).flatMap((event) => [
      { flow: 'sap', event, supplier: event % 6, state: 'delivered' as const, versions: event === 0 ? 2 : 1 },
      { flow: 'archive', event, supplier: event % 6, state: 'delivered' as const },
      {
        flow: 'sap',
        event,
        supplier: (event + 2) % 6,
        state: 'refused' as const,
        error:
          event < 4
            ? `Vendor ${supplierNumber((event + 2) % 6)} is blocked for purchasing (M8 413)`
            : 'Tax code A0 is not valid for company code 2100',
      },
    ]),
    { flow: 'sap', event: 6, supplier: 1, state: 'waiting', error: 'HTTP 503 Service Unavailable' },
  ];
  for (const [index, award] of awards.entries()) await seedAward(database, award, { index, at, nowMs });
  for (let number = 0; number < 12; number += 1)
    await database.query(
      `insert into bridge.inbox (source, trigger, feed, body, received) values ('main', $1, $2, $3, $4)`,
      [
        'AWARDS_FEED_UPDATED',
        'awards',
        JSON.stringify({
          trigger: 'AWARDS_FEED_UPDATED',
          sourcing_event: eventId(number % 8),
          sourcing_event_name: eventName(number % 8),
          feed_modified: at(200 - number * 15),
        }),
        at(200 - number * 15),
      ],
    );
  await database.query(
    `insert into bridge.answers (source, feed, after_id, last_id, pull, answered)
     select 'main', 'awards', 0, max(id), $1, $2 from bridge.inbox`,
    [idFor('pull'), at(34)],
  );
  await database.query(
    `update bridge.checkpoints set answered = (select max(id) from bridge.inbox) where feed = 'awards'`,
  );
  await database.query(
    `insert into bridge.refusals (source, reason, first, last, count) values ('main', 'wrong-signature', $1, $2, 3)`,
    [at(90), at(30)],
  );
  await seedIntake(database, nowMs, hostileName);
}

async function mirror(
  database: Database,
  feed: string,
  id: string,
  event: string,
  modified: Timestamp,
  body: object,
): Promise<void> {
  const text = JSON.stringify(body);
  await database.query(
    `insert into bridge.mirror (source, feed, record_id, modified, content_hash, sourcing_event, body, seen)
     values ('main', $1, $2, $3, $4, $5, $6, $3)`,
    [feed, id, modified, createHash('sha256').update(text).digest(), event, text],
  );
}

async function seedAward(
  database: Database,
  { flow, event, supplier, state, error, versions = 1 }: SeededAward,
  { index, at, nowMs }: { index: number; at: (minutesAgo: number) => Timestamp; nowMs: number },
): Promise<void> {
  const minutesAgo = 200 - index * 8;
  const key = `${eventId(event)}/${supplierId(supplier)}`;
  const documents = Array.from({ length: versions }, (_, version) => awardOf(event, supplier, version));
  const newest = documents.at(-1) ?? awardOf(event, supplier, 0);
  if (flow === 'sap')
    for (const { lot, cost, share, values } of newest.lines)
      await mirror(database, 'awards', idFor(`${key} ${lot}`), eventId(event), at(minutesAgo + 1), {
        id: idFor(`${key} ${lot}`),
        sourcing_event: eventId(event),
        lot_name: lot,
        awards: [
          {
            supplier: supplierId(supplier),
            cost,
            share_awarded: share,
            bid_sheet_values: values.map(({ column, value }) => ({ column_name: column, value })),
          },
        ],
        modified: at(minutesAgo + 1),
      });
  const delivered = state === 'delivered';
  const reference = delivered ? (flow === 'sap' ? `45000${17_301 + index}` : `award-${4_711 + event}.json`) : null;
  await database.query(
    `insert into bridge.flow_documents (flow, kind, key, sourcing_event, supplier, wanted, reconciled, due, waiting_since,
       delivered_hash, reference, delivered, attempts, error_type, last_error, dead_since, pull)
     values ($1, 'award', $2, $3, $4, 1, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)`,
    [
      flow,
      key,
      eventId(event),
      supplierId(supplier),
      delivered ? 1 : 0,
      state === 'waiting' ? timestampFromMs(nowMs + 2 * minuteMs) : null,
      delivered ? null : at(minutesAgo),
      delivered ? documentHash(newest) : null,
      reference,
      delivered ? at(minutesAgo - 1) : null,
      delivered ? 0 : 1,
      delivered ? null : state === 'refused' ? 'data' : 'transient',
      error ?? null,
      state === 'refused' ? at(minutesAgo) : null,
      idFor('pull'),
    ],
  );
  for (const [version, document] of documents.entries()) {
    const startedMs = nowMs - (minutesAgo + (versions - version - 1) * 45) * minuteMs;
    await database.query(
      `insert into bridge.document_versions (flow, kind, key, content_hash, body, made_of, sent)
       values ($1, 'award', $2, $3, $4, $5, $6)`,
      [
        flow,
        key,
        documentHash(document),
        JSON.stringify(document),
        JSON.stringify([
          { feed: 'awards', id: idFor(`${key} ${document.lines[0]?.lot}`), modified: at(minutesAgo + 1) },
        ]),
        timestampFromMs(startedMs),
      ],
    );
    await database.query(
      `insert into bridge.attempts (id, flow, kind, key, sourcing_event, event_name, event_reference, supplier, supplier_name,
         supplier_external_id, amount, currency, action, step, outcome, number, started, ended, next_try, error_type, message,
         reference, content_hash, request_id, pull)
       values ($1, $2, 'award', $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, 'write', $13, 1, $14, $15, $16, $17, $18, $19, $20,
         $21, $22)`,
      [
        timeOrderedId(startedMs),
        flow,
        key,
        eventId(event),
        eventName(event),
        `RFQ-${4_711 + event}`,
        supplierId(supplier),
        supplierName(supplier),
        supplierNumber(supplier),
        document.total_cost,
        document.currency,
        version === 0 ? 'create' : 'amend',
        delivered ? (version === 0 ? 'created' : 'updated') : state === 'refused' ? 'rejected' : 'retry',
        timestampFromMs(startedMs),
        timestampFromMs(startedMs + 820),
        state === 'waiting' ? timestampFromMs(nowMs + 2 * minuteMs) : null,
        delivered ? null : state === 'refused' ? 'data' : 'transient',
        error ?? null,
        reference,
        documentHash(document),
        randomUUID(),
        idFor('pull'),
      ],
    );
  }
}

/** Two lots; a later version has another price. */
function awardOf(event: number, supplier: number, version: number): AwardDocument {
  const currency = event === 2 ? 'SEK' : 'EUR';
  const prices = [`${118 + event * 7 + version * 3}.40`, `${64 + supplier * 5}.95`];
  const quantities = [`${120 + event * 10}`, '40'];
  const costs = [costOf(prices[0] ?? '', Number(quantities[0])), costOf(prices[1] ?? '', 40)];
  return {
    kind: 'award',
    key: `${eventId(event)}/${supplierId(supplier)}`,
    event: {
      id: eventId(event),
      name: eventName(event),
      reference_id: `RFQ-${4_711 + event}`,
      type: event % 3 === 1 ? 'ENGLISH' : 'RFQ',
      is_test: false,
      tags: [],
    },
    supplier: { id: supplierId(supplier), external_id: supplierNumber(supplier), name: supplierName(supplier) },
    currency,
    exchange_rates: [],
    total_cost: sumOf(costs),
    lines: ['Delivery to Hamburg', 'Delivery to Lyon'].map((lot, line) => ({
      lot,
      share: line === 0 ? '1' : '0.6',
      quantity: quantities[line] ?? '1',
      unit_price: prices[line] ?? '1',
      cost: costs[line] ?? '1',
      values: [
        { column: 'Quantity', value: quantities[line] ?? '1' },
        { column: 'Unit price', value: prices[line] ?? '1', currency },
      ],
    })),
  };
}

/** In cents, so that the decimals are exact. */
function costOf(price: string, quantity: number): string {
  return decimalOf(BigInt(price.replace('.', '')) * BigInt(quantity));
}

function sumOf(costs: readonly string[]): string {
  return decimalOf(costs.reduce((sum, cost) => sum + BigInt(cost.replace('.', '')), 0n));
}

function decimalOf(cents: bigint): string {
  const text = cents.toString().padStart(3, '0');
  return `${text.slice(0, -2)}.${text.slice(-2)}`;
}
