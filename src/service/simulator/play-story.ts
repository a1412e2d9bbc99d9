/**
 * The simulator: plays buyers and suppliers through `/api` and `/desk` over HTTP, as an organisation would that knows
 * nothing of the inside. The same seed gives the same story.
 */
import { randomUUID } from 'node:crypto';
import { z } from 'zod';
import type { SourceClient } from '#client/source-client.ts';
import { job } from '#contract/job.ts';
import { supplierSubmission } from '#contract/supplier.ts';
import type { Clock } from '#platform/clock.ts';
import { AppError } from '#platform/errors.ts';
import { createRandom, type Random } from './random.ts';

export interface StoryOptions {
  client: SourceClient;
  clock: Clock;
  seed: number;
  events: number;
  /** The number of the first event, for a story that is told in parts. Default 1. */
  firstEvent?: number;
  suppliers: number;
  lots: number;
  /** Between two steps of an event. */
  pauseMs: number;
  /** One line for each thing that happens, for people. */
  tell: (line: string) => void;
  signal?: AbortSignal;
}

interface Offer {
  supplier: string;
  cost: Map<string, number>;
}

const goods = [
  'Office chairs',
  'Steel sheets',
  'Packaging',
  'Lubricants',
  'Laptops',
  'Work gloves',
  'Pallets',
  'Cabling',
];
const places = ['Rotterdam', 'Kraków', 'München', 'Torino', 'Göteborg', '東京'];

/** Plays the story to its end; rejects when the service refuses a step, and ends early when the signal aborts. */
export async function playStory(options: StoryOptions): Promise<void> {
  const { tell, signal } = options;
  const random = createRandom(options.seed);
  const suppliers = Array.from(
    { length: options.suppliers },
    (_, index) => `SUP-${String(index + 1).padStart(3, '0')}`,
  );
  await createSuppliers(options, suppliers);
  const first = options.firstEvent ?? 1;
  if (first === 1) tell(`${suppliers.length} suppliers are known to the service`);
  for (let number = first; number < first + options.events; number += 1) {
    if (signal?.aborted) return;
    await playEvent(options, random, suppliers, number);
  }
}

async function createSuppliers({ client, clock, signal }: StoryOptions, externalIds: readonly string[]): Promise<void> {
  const { result } = await client.call(
    {
      method: 'POST',
      idempotencyKey: randomUUID(),
      path: '/api/manage/supplier_changes',
      body: {
        change_data: {
          suppliers: externalIds.map((externalId, index) => ({
            external_id: externalId,
            name: `Supplier ${index + 1} (${places[index % places.length]})`,
            contacts: [{ name: 'Sales', email: `sales@${externalId.toLowerCase()}.example` }],
          })),
        },
      },
    },
    z.looseObject({ result: z.looseObject({ uuid: z.string() }) }),
  );
  await until(clock, signal, async () => {
    const read = await client.call(
      { method: 'GET', path: `/api/manage/supplier_changes/${result.uuid}` },
      z.looseObject({ result: supplierSubmission }),
    );
    return read.result.current_state === 'PROCESSED' ? read : undefined;
  });
}

async function playEvent(options: StoryOptions, random: Random, suppliers: readonly string[], number: number) {
  const { client, clock, tell, signal } = options;
  const pause = () => (options.pauseMs === 0 ? undefined : clock.sleep(options.pauseMs, signal).catch(() => undefined));
  const name = `RFQ ${number}: ${random.pick(goods)} for ${random.pick(places)}`;
  const lots = Array.from({ length: options.lots }, (_, index) => `Lot ${index + 1}`);
  const invited = suppliers.filter(() => random.next() < 0.7);
  if (invited.length === 0) invited.push(random.pick(suppliers));
  const event = await createEvent(options, random, { name, lots, invited });
  tell(`"${name}" drafted: ${lots.length} lots, ${invited.length} suppliers invited`);
  await pause();
  const desk = (method: string, path: string, body: object) =>
    client.call(
      {
        method,
        path: `/desk/events/${event}${path}`,
        body,
        ...(method === 'POST' ? { idempotencyKey: randomUUID() } : {}),
      },
      z.unknown(),
    );
  await desk('POST', '/publish', {});
  tell(`"${name}" published`);
  const offers: Offer[] = [];
  for (const supplier of invited) {
    if (signal?.aborted) return;
    await pause();
    const offer = makeOffer(random, supplier, lots);
    if (offer.cost.size === 0) continue;
    await desk('POST', '/bids', {
      supplier,
      lots: [...offer.cost].map(([lot, cents]) => ({
        lot,
        values: { 'Unit Price': asMoney(cents), Remark: 'DDP, 30 days net' },
      })),
    });
    offers.push(offer);
    tell(`"${name}": ${supplier} bids on ${offer.cost.size} lots`);
  }
  await pause();
  const awards = lots.flatMap((lot) => awardLot(random, lot, offers));
  await desk('PUT', `/scenarios/${encodeURIComponent('Best price')}`, { awards });
  await desk('POST', '/award', { scenario: 'Best price' });
  await desk('POST', '/close', {});
  tell(
    `"${name}" closed: ${new Set(awards.map(({ lot }) => lot)).size} lots awarded to ${new Set(awards.map(({ supplier }) => supplier)).size} suppliers`,
  );
  await pause();
}

async function createEvent(
  { client, clock, signal }: StoryOptions,
  random: Random,
  event: { name: string; lots: readonly string[]; invited: readonly string[] },
): Promise<string> {
  const submitted = await client.call(
    {
      method: 'POST',
      idempotencyKey: randomUUID(),
      path: '/api/jobs/create-sourcing-events',
      body: {
        name: event.name,
        reference_id: `REQ-${random.whole(10_000, 99_999)}`,
        suppliers: event.invited.map((externalId) => ({ external_id: externalId })),
        tags: [{ name: 'Region', value: random.pick(['EMEA', 'APAC', 'AMER']) }],
        primary_cost_calculation: '[Annual Volume] * [Unit Price]',
        bid_sheet: {
          column_roles: { lot_identifier: 'Item', volume: 'Annual Volume', historic_cost: 'Historic Cost' },
          columns: [
            { name: 'Item', column_type: 'INPUT', input_by: 'BUYER_INPUT', input_type: 'TEXT' },
            {
              name: 'Annual Volume',
              column_type: 'INPUT',
              input_by: 'BUYER_INPUT',
              input_type: 'NUMBER',
              precision: 0,
            },
            {
              name: 'Historic Cost',
              column_type: 'INPUT',
              input_by: 'BUYER_INPUT',
              input_type: 'CURRENCY',
              precision: 2,
            },
            {
              name: 'Unit Price',
              column_type: 'INPUT',
              input_by: 'SUPPLIER_INPUT',
              input_type: 'CURRENCY',
              precision: 2,
            },
            { name: 'Remark', column_type: 'INPUT', input_by: 'SUPPLIER_INPUT', input_type: 'TEXT' },
          ],
          lots: event.lots.map((lot) => {
            const volume = random.whole(10, 5_000);
            return {
              name: lot,
              values: [
                { column: 'Item', value: `ITEM-${random.whole(1_000, 9_999)}` },
                { column: 'Annual Volume', value: String(volume) },
                { column: 'Historic Cost', value: asMoney(volume * random.whole(500, 20_000)) },
              ],
            };
          }),
        },
      },
    },
    job,
  );
  const done = await until(clock, signal, async () => {
    const read = await client.call({ method: 'GET', path: `/api/jobs/${submitted.id}` }, job);
    return read.status === 'PENDING' ? undefined : read;
  });
  if (done.created_entity !== undefined) return done.created_entity;
  throw new AppError('internal', `The job for "${event.name}" failed: ${JSON.stringify(done.errors)}`);
}

/** Not everybody bids on everything. */
function makeOffer(random: Random, supplier: string, lots: readonly string[]): Offer {
  const cost = new Map<string, number>();
  for (const lot of lots) if (random.next() < 0.8) cost.set(lot, random.whole(400, 19_000));
  return { supplier, cost };
}

/** To the cheapest; one lot in four is split with the second. */
function awardLot(random: Random, lot: string, offers: readonly Offer[]) {
  const [best, second] = offers
    .flatMap(({ supplier, cost }) => {
      const cents = cost.get(lot);
      return cents === undefined ? [] : [{ supplier, cents }];
    })
    .sort((a, b) => a.cents - b.cents);
  if (!best) return [];
  if (!second || random.next() < 0.75) return [{ lot, supplier: best.supplier, share_awarded: '1' }];
  return [
    { lot, supplier: best.supplier, share_awarded: '0.6' },
    { lot, supplier: second.supplier, share_awarded: '0.4' },
  ];
}

function asMoney(cents: number): string {
  return `${Math.trunc(cents / 100)}.${String(cents % 100).padStart(2, '0')}`;
}

const pollMs = 25;
const patienceMs = 60_000;

async function until<T>(clock: Clock, signal: AbortSignal | undefined, look: () => Promise<T | undefined>): Promise<T> {
  const giveUpMs = clock.nowMs() + patienceMs;
  for (;;) {
    const found = await look();
    if (found !== undefined) return found;
    if (clock.nowMs() > giveUpMs)
      throw new AppError('unavailable', `The service did not finish within ${patienceMs / 1000} s.`);
    await clock.sleep(pollMs, signal);
  }
}
