/** The contents of the simulator's events: lots and bid sheets, and the offers of its suppliers. */
import type { Random } from './random.ts';

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
export const deliveryPlaces = ['Rotterdam', 'Kraków', 'München', 'Torino', 'Göteborg', '東京'];

/** A name for an event that is unique by its number. */
export function eventName(random: Random, what: string, number: number): string {
  return `${what} ${number}: ${random.pick(goods)} for ${random.pick(deliveryPlaces)}`;
}

export function lotNames(count: number): string[] {
  return Array.from({ length: count }, (_, index) => `Lot ${index + 1}`);
}

const buyer = { column_type: 'INPUT', input_by: 'BUYER_INPUT' };
const supplier = { column_type: 'INPUT', input_by: 'SUPPLIER_INPUT' };

/** In percent; below 0 for a price that fell. */
export const priceChange = 'Change to Last Year';

/** The members of a create payload that make up the bid sheet: cost = volume x price. */
export function sheetPayload(random: Random, lots: readonly string[]) {
  return {
    tags: [{ name: 'Region', value: random.pick(['EMEA', 'APAC', 'AMER']) }],
    primary_cost_calculation: '[Annual Volume] * [Unit Price]',
    bid_sheet: {
      column_roles: { lot_identifier: 'Item', volume: 'Annual Volume', historic_cost: 'Historic Cost' },
      columns: [
        { name: 'Item', ...buyer, input_type: 'TEXT' },
        { name: 'Annual Volume', ...buyer, input_type: 'NUMBER', precision: 0 },
        { name: 'Historic Cost', ...buyer, input_type: 'CURRENCY', precision: 2 },
        { name: 'Unit Price', ...supplier, input_type: 'CURRENCY', precision: 2 },
        { name: priceChange, ...supplier, input_type: 'NUMBER', precision: 1, allow_negative: true },
        { name: 'Remark', ...supplier, input_type: 'TEXT' },
        { name: 'Payment Terms', ...supplier, input_type: 'TEXT', scope: 'EVENT' },
      ],
      lots: lots.map((lot) => {
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
  };
}

/** The unit prices of one supplier, in cents, by lot. */
export interface SimulatedOffer {
  readonly supplier: string;
  readonly cents: Map<string, number>;
}

/** An offer for about four lots in five, but at least for one. */
export function makeOffer(random: Random, supplierId: string, lots: readonly string[]): SimulatedOffer {
  const chosen = lots.filter(() => random.next() < 0.8);
  const cents = new Map((chosen.length > 0 ? chosen : lots).map((lot) => [lot, random.whole(400, 19_000)]));
  return { supplier: supplierId, cents };
}

/** Awards each lot to the cheapest supplier; one lot in four is split with the second cheapest. */
export function bestAwards(random: Random, lots: readonly string[], offers: readonly SimulatedOffer[]) {
  return lots.flatMap((lot) => {
    const [best, second] = offers
      .flatMap(({ supplier: id, cents }) => (cents.has(lot) ? [{ id, cents: cents.get(lot) ?? 0 }] : []))
      .sort((a, b) => a.cents - b.cents);
    if (!best) return [];
    if (!second || random.next() < 0.75) return [{ lot, supplier: best.id, share_awarded: '1' }];
    return [
      { lot, supplier: best.id, share_awarded: '0.6' },
      { lot, supplier: second.id, share_awarded: '0.4' },
    ];
  });
}

/** Cents as a decimal text. */
export function asMoney(cents: number): string {
  return `${Math.trunc(cents / 100)}.${String(cents % 100).padStart(2, '0')}`;
}

/** Tenths as a decimal text, also below 0. */
export function asTenths(tenths: number): string {
  return (tenths / 10).toFixed(1);
}
