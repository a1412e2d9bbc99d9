/**
 * A story of buying at a service that speaks as public pages say: an ERP raises four requisitions, events are made of
 * them from a template, suppliers bid, and awards become orders in the ERP. One award changes, one is taken back, and one
 * event has 450 lots. Each step ends when what it does has arrived on the other side.
 *
 * All amounts are worked out by hand; V-1 to V-5 are suppliers:
 *
 * | Requisition | Bought                | Unit prices                                    | Awarded                                          |
 * |-------------|-----------------------|------------------------------------------------|--------------------------------------------------|
 * | PR-1        | 100 Bolt              | V-1 0.035, V-2 0.036                           | 0.4 to V-1: 1.4; 0.6 to V-2: 2.16                |
 * |             | 200 Nut               | V-1 0.0125, V-2 0.012                          | V-1: 2.5; then V-2: 2.4                          |
 * |             | 50 Washer             | V-1 0.2, then 0.185, V-2 0.19                  | V-1: 9.25                                        |
 * | PR-2        | 7 Pipe, 3 Valve       | V-3 19.99 and 1234.56, V-4 20 and 1300         | V-3: 139.93 and 3703.68; then nobody             |
 * | PR-3        | 3 each of Lot 001-450 | of lot n: n.000001, by one of three            | n = 1, 4, …: V-1; 2, 5, …: V-2; 3, 6, …: V-4     |
 * | PR-4        | 10, then 12 Paint     | V-5 8.333333333                                | V-5: 99.999999996                                |
 */
import { expect } from 'vitest';
import type { TestOrganisation } from '../harness/test-organisation.ts';
import type { BuyingErp, Item, OrderCall } from './buying-erp.ts';
import { until } from './program-process.ts';

export interface Stage {
  readonly erp: BuyingErp;
  /** Of the buyer and the suppliers. */
  readonly organisation: TestOrganisation;
  /** Says that an operator agrees to the first run of the intake. */
  agreeToFirstRun(): Promise<void>;
  /** Why the story cannot go on; undefined while it can. */
  failure(): string | undefined;
}

export interface Step {
  readonly name: string;
  play(stage: Stage): Promise<void>;
}

const crowdBidders = ['V-4', 'V-1', 'V-2'] as const;
const waitMs = 90_000;

export const vendors = [
  { number: 'V-1', name: 'Acme Fasteners' },
  { number: 'V-2', name: 'Bolts & Nuts Ltd' },
  { number: 'V-3', name: 'Rohre Söhne GmbH' },
  { number: 'V-4', name: 'Quick Supply' },
  { number: 'V-5', name: 'Farben 東京' },
] as const;
export const renamedVendor = { number: 'V-3', name: 'Rohre Söhne AG' } as const;

export const files: Readonly<Record<string, Readonly<Record<string, Buffer>>>> = {
  'PR-1': {
    'drawing.txt': Buffer.from('a drawing'),
    'scan.bin': Buffer.from(Array.from({ length: 1_024 }, (_, n) => n)),
  },
  'PR-2': { 'note é.txt': Buffer.from('by hand: 東') },
};

export const titles: Readonly<Record<string, string>> = {
  'PR-1': 'Fasteners',
  'PR-2': 'Pipes',
  'PR-3': 'A whole catalogue',
  'PR-4': 'Paint for Göteborg',
};

export const templateColumns = ['Quantity', 'Unit', 'Unit Price'];
export const templateQuestion = { identifier: '1', question_text: 'Which terms of delivery?' };

/** A buyer's event in the words of the public pages; every other event is made from it. */
export const template = {
  name: 'Buying anything',
  created_by: 'buyer@example.com',
  business_contact: { name: 'Ann', email: 'ann@example.com' },
  event_type: 'rfq',
  timezone: 'Europe/Berlin',
  primary_cost_calculation: 'Unit Price * Quantity',
  questions: [{ ...templateQuestion, question_type: 'OPTIONAL', input_type: 'TEXT' }],
  bid_sheet: {
    columns: [
      { name: 'Quantity', column_type: 'INPUT', input_by: 'BUYER_INPUT', input_type: 'NUMBER' },
      { name: 'Unit', column_type: 'INPUT', input_by: 'BUYER_INPUT', input_type: 'TEXT' },
      { name: 'Unit Price', column_type: 'INPUT', input_by: 'SUPPLIER_INPUT', input_type: 'CURRENCY', precision: 9 },
    ],
    lots: [{ name: 'An example', values: [{ column: 'Quantity', value: '1' }] }],
  },
};

const itemsOf = (unit: string, ...wanted: readonly (readonly [string, string])[]): Item[] =>
  wanted.map(([name, quantity], index) => ({ line: String((index + 1) * 10), name, quantity, unit }));

const crowd = Array.from({ length: 450 }, (_, index) => {
  const number = index + 1;
  const bidder = crowdBidders[number % 3] ?? 'V-4';
  return { line: String(number * 10), name: `Lot ${String(number).padStart(3, '0')}`, number, bidder };
});

const items: Readonly<Record<string, readonly Item[]>> = {
  'PR-1': itemsOf('pc', ['Bolt', '100'], ['Nut', '200'], ['Washer', '50']),
  'PR-2': itemsOf('m', ['Pipe', '7'], ['Valve', '3']),
  'PR-3': crowd.map(({ line, name }) => ({ line, name, quantity: '3', unit: 'pc' })),
  'PR-4': itemsOf('l', ['Paint', '10']),
};
const morePaint = itemsOf('l', ['Paint', '12']);

const lines = {
  boltOfV1: 'Bolt 0.4 40 0.035 1.4 of PR-1/10',
  boltOfV2: 'Bolt 0.6 60 0.036 2.16 of PR-1/10',
  nutOfV1: 'Nut 1 200 0.0125 2.5 of PR-1/20',
  nutOfV2: 'Nut 1 200 0.012 2.4 of PR-1/20',
  washer: 'Washer 1 50 0.185 9.25 of PR-1/30',
  pipe: 'Pipe 1 7 19.99 139.93 of PR-2/10',
  valve: 'Valve 1 3 1234.56 3703.68 of PR-2/20',
  paint: 'Paint 1 12 8.333333333 99.999999996 of PR-4/10',
};

const crowdOrder = (bidder: string, total: string): Order => ({
  order: `PR-3/${bidder}`,
  total,
  lines: crowd
    .filter((each) => each.bidder === bidder)
    .map(({ line, name, number }) => `${name} 1 3 ${number}.000001 ${number * 3}.000003 of PR-3/${line}`),
});

type Order = Omit<OrderCall, 'action'>;

const firstOrders: readonly Order[] = [
  { order: 'PR-1/V-1', total: '13.15', lines: [lines.boltOfV1, lines.nutOfV1, lines.washer] },
  { order: 'PR-1/V-2', total: '2.16', lines: [lines.boltOfV2] },
];
const changedOrders: readonly Order[] = [
  { order: 'PR-1/V-1', total: '10.65', lines: [lines.boltOfV1, lines.washer] },
  { order: 'PR-1/V-2', total: '4.56', lines: [lines.boltOfV2, lines.nutOfV2] },
];
const pipeOrder: Order = { order: 'PR-2/V-3', total: '3843.61', lines: [lines.pipe, lines.valve] };
const paintOrder: Order = { order: 'PR-4/V-5', total: '99.999999996', lines: [lines.paint] };

/** Three times the sum of 150 lots, for example (1 + 4 + … + 448) = 33675, and 150 times 0.000003. */
export const crowdOrders: readonly Order[] = [
  crowdOrder('V-1', '101025.00045'),
  crowdOrder('V-2', '101475.00045'),
  crowdOrder('V-4', '101925.00045'),
];

/** Every call that the ERP must have had at the end, by order, without those of the crowd. */
export const expectedCalls: Readonly<Record<string, readonly OrderCall[]>> = Object.fromEntries([
  ...firstOrders.map((first, index) => [
    first.order,
    [
      { action: 'create', ...first },
      { action: 'amend', ...changedOrders[index] },
    ],
  ]),
  [
    pipeOrder.order,
    [
      { action: 'create', ...pipeOrder },
      { action: 'cancel', order: pipeOrder.order, total: '0', lines: [] },
    ],
  ],
  [paintOrder.order, [{ action: 'create', ...paintOrder }]],
]);

/** What the ERP has before the bridge reads it for the first time. */
export async function beginErp(erp: BuyingErp): Promise<void> {
  for (const vendor of vendors) await erp.saveVendor({ ...vendor, status: 'active' });
  await erp.saveVendor({ number: 'V-6', name: 'Blocked before anybody knew them', status: 'blocked' });
  for (const number of ['PR-1', 'PR-2']) await raise(erp, number);
}

function raise(erp: BuyingErp, number: string): Promise<void> {
  return erp.saveRequisition({
    number,
    title: titles[number] ?? '',
    items: items[number] ?? [],
    files: files[number] ?? {},
  });
}

/** The last bid of each supplier for each lot, by order and lot. */
export const expectedQuotations = [
  { order: 'PR-1/V-1', lines: ['Bolt 0.035', 'Nut 0.0125', 'Washer 0.185'] },
  { order: 'PR-1/V-2', lines: ['Bolt 0.036', 'Nut 0.012', 'Washer 0.19'] },
  { order: 'PR-2/V-3', lines: ['Pipe 19.99', 'Valve 1234.56'] },
  { order: 'PR-2/V-4', lines: ['Pipe 20', 'Valve 1300'] },
  ...crowdBidders.toSorted().map((bidder) => ({
    order: `PR-3/${bidder}`,
    lines: crowd.filter((each) => each.bidder === bidder).map(({ name, number }) => `${name} ${number}.000001`),
  })),
  { order: 'PR-4/V-5', lines: ['Paint 8.333333333'] },
];

export const steps: readonly Step[] = [
  {
    name: 'suppliers and requisitions reach the service',
    play: async (stage) => {
      await stage.agreeToFirstRun();
      for (const number of ['PR-3', 'PR-4']) await raise(stage.erp, number);
      await arrives('an event of each requisition, with its files', async () => {
        const shown = await Promise.all(Object.keys(titles).map((number) => readEvent(stage, number)));
        return shown.map((event) => (event?.['files'] as unknown[] | undefined)?.length);
      }).toEqual([2, 1, 0, 0]);
      await arrives('the suppliers', async () => (await readSuppliers(stage)).length).toBe(vendors.length);
    },
  },
  {
    name: 'a requisition and a supplier change in the ERP',
    play: async (stage) => {
      await stage.erp.saveVendor({ ...renamedVendor, status: 'active' });
      await stage.erp.saveRequisition({ number: 'PR-4', title: titles['PR-4'] ?? '', items: morePaint });
      await arrives('the draft follows', async () => (await readEvent(stage, 'PR-4'))?.['lots']).toMatchObject([
        { name: 'Paint', values: { Quantity: '12', Unit: 'l' } },
      ]);
      await arrives('the new name', async () => (await readSuppliers(stage)).map(({ name }) => name)).toContain(
        renamedVendor.name,
      );
    },
  },
  {
    name: 'two suppliers share an award',
    play: async (stage) => {
      const buyer = await buyerOf(stage, 'PR-1');
      await buyer.publish(['V-1', 'V-2']);
      await buyer.bid('V-1', { Bolt: '0.035', Nut: '0.0125', Washer: '0.2' });
      await buyer.bid('V-2', { Bolt: '0.036', Nut: '0.012', Washer: '0.19' });
      await buyer.answer('V-1', 'DAP Rotterdam');
      await buyer.bid('V-1', { Washer: '0.185' });
      await buyer.award('first', [
        ['Bolt', 'V-1', '0.4'],
        ['Bolt', 'V-2', '0.6'],
        ['Nut', 'V-1', '1'],
        ['Washer', 'V-1', '1'],
      ]);
      await buyer.command('close');
      await ordersArrive(stage, firstOrders);
    },
  },
  {
    name: 'an award is taken back',
    play: async (stage) => {
      const buyer = await buyerOf(stage, 'PR-2');
      await buyer.publish(['V-3', 'V-4']);
      await buyer.bid('V-3', { Pipe: '19.99', Valve: '1234.56' });
      await buyer.bid('V-4', { Pipe: '20', Valve: '1300' });
      await buyer.award('cheapest', [
        ['Pipe', 'V-3', '1'],
        ['Valve', 'V-3', '1'],
      ]);
      await buyer.command('close');
      await ordersArrive(stage, [pipeOrder]);
      await buyer.command('reopen');
      await buyer.command('award', { scenario: null });
      await buyer.command('close');
      await ordersArrive(stage, [{ order: pipeOrder.order, total: '0', lines: [] }]);
    },
  },
  {
    name: 'an event of 450 lots is closed',
    play: async (stage) => {
      const buyer = await buyerOf(stage, 'PR-3');
      await buyer.publish(['V-1', 'V-2', 'V-4']);
      for (const bidder of crowdBidders)
        await buyer.bid(
          bidder,
          Object.fromEntries(
            crowd.filter((each) => each.bidder === bidder).map(({ name, number }) => [name, `${number}.000001`]),
          ),
        );
      await buyer.award(
        'each its own',
        crowd.map(({ name, bidder }) => [name, bidder, '1']),
      );
      await buyer.command('close');
      await ordersArrive(stage, crowdOrders);
    },
  },
  {
    name: 'an award changes',
    play: async (stage) => {
      const buyer = await buyerOf(stage, 'PR-1');
      await buyer.command('reopen');
      await buyer.award('second', [
        ['Bolt', 'V-1', '0.4'],
        ['Bolt', 'V-2', '0.6'],
        ['Nut', 'V-2', '1'],
        ['Washer', 'V-1', '1'],
      ]);
      await buyer.command('close');
      await ordersArrive(stage, changedOrders);
    },
  },
  {
    name: 'what was changed as a draft is awarded',
    play: async (stage) => {
      const buyer = await buyerOf(stage, 'PR-4');
      await buyer.publish(['V-5']);
      await buyer.bid('V-5', { Paint: '8.333333333' });
      await buyer.award('only one', [['Paint', 'V-5', '1']]);
      await buyer.command('close');
      await ordersArrive(stage, [paintOrder]);
    },
  },
];

/** Buyer and suppliers of the event that was made of a requisition. */
async function buyerOf(stage: Stage, number: string) {
  const event = await readEvent(stage, number);
  if (!event) throw new Error(`There is no event of ${number}.`);
  const { id, questions } = event as { id: string; questions: { id: string }[] };
  const send = (method: string, path: string, body?: unknown) =>
    callService(stage, method, `/desk/events/${id}${path}`, body);
  const command = (name: string, body?: object) => send('POST', `/${name}`, body);
  return {
    command,
    publish: async (suppliers: readonly string[]) => {
      await command('invitations', { suppliers });
      await command('publish');
    },
    bid: (supplier: string, prices: Readonly<Record<string, string>>) =>
      command('bids', {
        supplier,
        lots: Object.entries(prices).map(([lot, price]) => ({ lot, values: { 'Unit Price': price } })),
      }),
    answer: (supplier: string, value: string) =>
      command('answers', { supplier, answers: [{ question_uuid: questions[0]?.id, value }] }),
    award: async (scenario: string, awards: readonly (readonly [lot: string, supplier: string, share: string])[]) => {
      const listed = awards.map(([lot, supplier, share]) => ({ lot, supplier, share_awarded: share }));
      await send('PUT', `/scenarios/${encodeURIComponent(scenario)}`, { awards: listed });
      await command('award', { scenario });
    },
  };
}

/** The event that was made of a requisition, as the desk shows it; fails where there are several. */
export async function readEvent(stage: Stage, number: string): Promise<Record<string, unknown> | undefined> {
  const { result } = await callService(stage, 'GET', '/desk/events');
  const found = (result as { id: string; reference_id: string | null }[]).filter(
    (event) => event.reference_id === number,
  );
  expect(found.length).toBeLessThanOrEqual(1);
  return found[0] && callService(stage, 'GET', `/desk/events/${found[0].id}`);
}

export async function readSuppliers(stage: Stage) {
  const { result } = await callService(stage, 'GET', '/api/manage/suppliers?page_size=200');
  return result as { external_id: string; name: string; archived: boolean; contacts: { email: string }[] }[];
}

/**
 * Calls the service, again while it is down. A command that is refused after it was cut off has taken effect. Fails at any
 * other answer but 2xx.
 */
export async function callService(stage: Stage, method: string, path: string, body?: unknown) {
  let wasCutOff = false;
  const answered = async () => {
    const answer = await stage.organisation.call(method, path, body).catch((error: unknown) => {
      // What fetch throws when it gets no answer.
      if (!(error instanceof TypeError)) throw error;
      wasCutOff = true;
    });
    if (!answer) return undefined;
    const { status, body: shown } = answer;
    if (status >= 300 && !(status === 409 && wasCutOff))
      throw new Error(`${method} ${path}: ${status} ${JSON.stringify(shown)}`);
    return { shown: shown as Record<string, unknown> };
  };
  return (await until(`${method} ${path} is answered`, answered, () => stage.failure())).shown;
}

/** The last call of each order is this one, and the connector's own tables have the same. */
function ordersArrive({ erp }: Stage, expected: readonly Order[]) {
  const keys = expected.map(({ order }) => order);
  return arrives(`orders ${keys.join(', ')}`, async () => {
    const called = new Map((await erp.orderCalls()).map(({ order, total, lines }) => [order, { order, total, lines }]));
    const held = new Map((await erp.heldAwards()).map((each) => [each.order, each]));
    return keys.map((key) => [called.get(key), held.get(key)]);
  }).toMatchObject(expected.map((order) => [order, heldAward(order)]));
}

/** How the connector's own tables have an order: of one that is withdrawn, the head is as it was. */
export function heldAward({ order, total, lines }: Order) {
  const shown = lines.map((line) => line.slice(0, line.indexOf(' of ')));
  return { order, lines: shown, ...(lines.length === 0 ? { state: 'withdrawn' } : { state: 'current', total }) };
}

/** Waits until it is as expected. */
export function arrives<T>(message: string, look: () => Promise<T>) {
  return expect.poll(look, { timeout: waitMs, interval: 50, message });
}
