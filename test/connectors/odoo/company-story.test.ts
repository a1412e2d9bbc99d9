/**
 * Odoo as a company uses it: 24 events of a service become orders of two companies in three currencies, prices and
 * blanket orders, three of them after requests for quotation and one of a need of Odoo itself, through a bridge that is killed and an Odoo that is restarted, while people receive, bill, lock, edit
 * and archive. At the end what Odoo holds is compared with the buyers' screens, to the cent; what people have done is
 * still there, and the bridge says so. It runs on the stand-in, and with ODOO_URL on a real Odoo (company-erp.ts), with
 * the same expectations: `npm run test:odoo`.
 */
import { expect, test } from 'vitest';
import { Decimal } from '#contract/decimal.ts';
import { readRows, readUnfinished } from '../../faults/awards-in-sql.ts';
import { awardsAtDesk } from '../../faults/endless-story.ts';
import { createSource, ledgerConfiguration } from '../../faults/ledger-bridge.ts';
import { openClient } from '../../faults/players.ts';
import { createInstallation, lineOf, useEmbedded } from '../../faults/program-process.ts';
import { superviseProgram } from '../../faults/supervised-program.ts';
import { freePort } from '../../harness/free-port.ts';
import { request } from '../../harness/request.ts';
import { createEvent, createSuppliers, desk } from '../../harness/sourcing.ts';
import type { TestOrganisation } from '../../harness/test-organisation.ts';
import { startIncidentProxy } from '../../tryton/incident-proxy.ts';
import { type CompanyErp, realErp, standInErp } from './company-erp.ts';
import type { OdooRow } from './odoo-reader.ts';

const isAsked = process.env['ODOO_KIT'] === 'full';
const timeoutMs = 400_000;
const waitMs = 120_000;

/** `quantity x price` by lot. */
type Bids = Readonly<Record<string, string>>;
type Flow = 'orders' | 'second' | 'prices' | 'blanket' | 'tender' | 'need';

interface Scene {
  readonly flow: Flow;
  readonly currency: string;
  /** By supplier. A lot that several bid on is split between them, each with an equal share. */
  readonly bids: Readonly<Record<string, Bids>>;
  /** The bids of those who are not awarded. */
  readonly lost: Scene['bids'];
}

const scene = (flow: Flow, currency: string, bids: Scene['bids'], lost: Scene['bids'] = {}): Scene => ({
  flow,
  currency,
  bids,
  lost,
});

const need = 'a need of Odoo';

/** The letters are vendors: A to D of orders, P and Q of prices, R and S of blanket orders, T to V of requests. */
const scenes: Readonly<Record<string, Scene>> = {
  'one of two lots changes': scene('orders', 'USD', { A: { Bolt: '100 x 0.6', Sheet: '50 x 0.7' } }),
  'two winners of a lot': scene('orders', 'EUR', { A: { Bolt: '100 x 0.6125' }, B: { Bolt: '100 x 0.615' } }),
  'a person orders more': scene('orders', 'JPY', { A: { Bolt: '7 x 12345' } }),
  'a lot leaves': scene('orders', 'USD', { A: { Bolt: '100 x 0.6', Sheet: '50 x 0.7' } }),
  'received, then changed': scene('orders', 'USD', { B: { Bolt: '10 x 3.5' } }),
  'locked, then taken back': scene('orders', 'EUR', { B: { Bolt: '20 x 2.25' } }),
  'billed, then changed': scene('orders', 'USD', { B: { Sheet: '30 x 9.99' } }),
  'taken back and awarded again': scene('orders', 'USD', { A: { Bolt: '10 x 60' } }),
  'its vendor is archived before': scene('orders', 'USD', { C: { Bolt: '10 x 5' } }),
  'deleted at the service': scene('orders', 'EUR', { D: { Sheet: '12 x 8.5' } }),
  'a lot for nothing': scene('orders', 'USD', { D: { Bolt: '5 x 0', Sheet: '5 x 19.99' } }),
  'of the second company': scene('second', 'EUR', { A: { Bolt: '100 x 0.6' } }),
  'a draft that a person edits': scene('second', 'USD', { A: { Bolt: '40 x 1.25' }, B: { Sheet: '8 x 77.7' } }),
  'in the third currency': scene('second', 'JPY', { B: { Bolt: '3 x 4567' } }),
  'a price that changes': scene('prices', 'EUR', { P: { Bolt: '1 x 1.875', Sheet: '1 x 1800' } }),
  'a price of a vendor archived later': scene('prices', 'EUR', { Q: { Bolt: '1 x 2.5' } }),
  'a price that stays': scene('prices', 'USD', { P: { Bolt: '1 x 2.125' } }),
  'a blanket order with an order on it': scene('blanket', 'EUR', { R: { Bolt: '500 x 4.4' } }),
  'a blanket order that is taken back': scene('blanket', 'EUR', { S: { Bolt: '300 x 4.5' } }),
  'a blanket order that stays': scene('blanket', 'USD', { S: { Sheet: '200 x 6.75' } }),
  'a request becomes the order': scene(
    'tender',
    'USD',
    { T: { Bolt: '10 x 4' } },
    { U: { Bolt: '10 x 5' }, V: { Bolt: '10 x 6' } },
  ),
  'two requests become orders': scene(
    'tender',
    'EUR',
    { T: { Bolt: '10 x 2.5' }, U: { Bolt: '10 x 2.75' } },
    { V: { Bolt: '10 x 9' } },
  ),
  'another request becomes the order': scene('tender', 'USD', { T: { Sheet: '20 x 7' } }, { U: { Sheet: '20 x 7.5' } }),
  // Its event is made of an agreement of Odoo.
  [need]: scene('need', 'USD', { V: { Bolt: '8 x 2.25' } }),
};
const vendors = ['A', 'B', 'C', 'D', 'P', 'Q', 'R', 'S', 'T', 'U', 'V'];
const units: Readonly<Record<string, string>> = { Bolt: 'Units', Sheet: 'kg' };

const erps: readonly (readonly [name: string, start: () => Promise<CompanyErp | undefined>])[] = [
  ['the stand-in', standInErp],
  ['a real Odoo', async () => realErp()],
];

test.for(erps)(
  'a company loses no cent, with %s',
  { skip: !isAsked, timeout: timeoutMs },
  async ([, start], { skip }) => {
    const erp = await start();
    if (!erp) return skip('set ODOO_URL, ODOO_DB, ODOO_KEY and ODOO_PERSON_KEY to run it');
    const story = await openStory(erp);
    const { person } = erp;

    await story.supply();
    await story.award(Object.keys(scenes));
    await person.call('res.partner', 'action_archive', [await story.partner('C')]);
    await story.closeAll();
    await story.settles(
      'after the awards',
      async () => ({
        orders: await story.ordersHeld(),
        prices: await story.pricesHeld(),
        agreements: await story.agreementsHeld(),
        dead: await story.deadLetters(),
      }),
      {
        orders: {
          'a draft that a person edits/A': '2 USD draft Bolt: 40 at 1.25 = 50',
          'a draft that a person edits/B': '2 USD draft Sheet: 8 at 77.7 = 621.6',
          'a lot for nothing/D': '1 USD purchase Bolt: 5 at 0, Sheet: 5 at 19.99 = 99.95, 10 to come',
          'a lot leaves/A': '1 USD purchase Bolt: 100 at 0.6, Sheet: 50 at 0.7 = 95, 150 to come',
          'a need of Odoo/V': '1 USD purchase Bolt: 8 at 2.25 = 18, 8 to come, for its agreement',
          'a person orders more/A': '1 JPY purchase Bolt: 7 at 12345 = 86415, 7 to come',
          'a request becomes the order/T': '1 USD purchase Bolt: 10 at 4 = 40, 10 to come',
          'another request becomes the order/T': '1 USD purchase Sheet: 20 at 7 = 140, 20 to come',
          'two requests become orders/T': '1 EUR purchase Bolt: 5 at 2.5 = 12.5, 5 to come',
          'two requests become orders/U': '1 EUR purchase Bolt: 5 at 2.75 = 13.75, 5 to come',
          'billed, then changed/B': '1 USD purchase Sheet: 30 at 9.99 = 299.7, 30 to come',
          'deleted at the service/D': '1 EUR purchase Sheet: 12 at 8.5 = 102, 12 to come',
          'in the third currency/B': '2 JPY draft Bolt: 3 at 4567 = 13701',
          'locked, then taken back/B': '1 EUR purchase Bolt: 20 at 2.25 = 45, 20 to come',
          'of the second company/A': '2 EUR draft Bolt: 100 at 0.6 = 60',
          'one of two lots changes/A': '1 USD purchase Bolt: 100 at 0.6, Sheet: 50 at 0.7 = 95, 150 to come',
          'received, then changed/B': '1 USD purchase Bolt: 10 at 3.5 = 35, 10 to come',
          'taken back and awarded again/A': '1 USD purchase Bolt: 10 at 60 = 600, 10 to come',
          'two winners of a lot/A': '1 EUR purchase Bolt: 50 at 0.6125 = 30.63, 50 to come',
          'two winners of a lot/B': '1 EUR purchase Bolt: 50 at 0.615 = 30.75, 50 to come',
        },
        prices: [
          'P Bolt: 1.875 EUR a Units',
          'P Bolt: 2.125 USD a Units',
          'P Sheet: 1800 EUR a kg',
          'Q Bolt: 2.5 EUR a Units',
        ],
        agreements: {
          'a blanket order that is taken back/S': 'confirmed EUR Bolt: 300 at 4.5',
          'a blanket order that stays/S': 'confirmed USD Sheet: 200 at 6.75',
          'a blanket order with an order on it/R': 'confirmed EUR Bolt: 500 at 4.4',
        },
        dead: ['its vendor is archived before: data'],
      },
    );
    expect(await story.requestsLost()).toEqual([
      'a request becomes the order/U (not awarded)',
      'a request becomes the order/V (not awarded)',
      'another request becomes the order/U (not awarded)',
      'two requests become orders/V (not awarded)',
    ]);
    // At both ends: every lot of the buyers' screens, but those of the vendor that is archived.
    const compared: readonly Flow[] = ['orders', 'second', 'tender'];
    expect(await story.linesHeld(compared)).toEqual(await story.linesAwarded(compared));
    // The mapping names no product for it.
    expect(await story.productsOf(need)).toEqual(['Bolt']);

    await story.peopleWork();
    // Odoo is away while the first awards change.
    await Promise.all([erp.restart(), story.changeAwards()]);
    await story.settles(
      'after the changes',
      async () => ({
        orders: await story.ordersHeld(),
        prices: await story.pricesHeld(),
        agreements: await story.agreementsHeld(),
        dead: await story.deadLetters(),
      }),
      {
        orders: {
          'a draft that a person edits/A': '2 USD draft Bolt: 40 at 1.3, Freight: 1 at 30 = 82',
          'a draft that a person edits/B': '2 USD draft Sheet: 8 at 77.7 = 621.6',
          'a lot for nothing/D': '1 USD purchase Bolt: 5 at 0, Sheet: 5 at 19.99 = 99.95, 10 to come',
          'a lot leaves/A': '1 USD purchase Bolt: 0 at 0.6, Sheet: 50 at 0.7 = 35, 50 to come',
          'a need of Odoo/V': '1 USD purchase Bolt: 8 at 2.25 = 18, 8 to come, for its agreement',
          'a person orders more/A': '1 JPY purchase Bolt: 8 at 12345 = 98760, 8 to come',
          'a request becomes the order/T': '1 USD purchase Bolt: 10 at 4 = 40, 10 to come',
          'another request becomes the order/U': '1 USD purchase Sheet: 20 at 7.5 = 150, 20 to come',
          'two requests become orders/T': '1 EUR purchase Bolt: 5 at 2.5 = 12.5, 5 to come',
          'two requests become orders/U': '1 EUR purchase Bolt: 5 at 2.75 = 13.75, 5 to come',
          'billed, then changed/B': '1 USD purchase Sheet: 30 at 9.99 = 299.7, 30 to come',
          'in the third currency/B': '2 JPY draft Bolt: 3 at 4567 = 13701',
          'locked, then taken back/B': '1 EUR purchase Bolt: 20 at 2.25 = 45, 20 to come',
          'of the second company/A': '2 EUR draft Bolt: 100 at 0.6 = 60',
          'one of two lots changes/A': '1 USD purchase Bolt: 100 at 0.6, Sheet: 50 at 0.75 = 97.5, 150 to come',
          'received, then changed/B': '1 USD purchase Bolt: 10 at 3.5 = 35, 10 received',
          'taken back and awarded again/A': '1 USD purchase Bolt: 10 at 60 = 600, 10 to come',
          'two winners of a lot/A': '1 EUR purchase Bolt: 50 at 0.6125 = 30.63, 50 to come',
          'two winners of a lot/B': '1 EUR purchase Bolt: 50 at 0.615 = 30.75, 50 to come',
        },
        prices: ['P Bolt: 1.8 EUR a Units', 'P Bolt: 2.125 USD a Units', 'P Sheet: 1800 EUR a kg'],
        agreements: {
          'a blanket order that stays/S': 'confirmed USD Sheet: 200 at 6.75',
          'a blanket order with an order on it/R': 'confirmed EUR Bolt: 500 at 4.4',
        },
        dead: [
          'a blanket order with an order on it: conflict',
          'billed, then changed: conflict',
          'its vendor is archived before: data',
          'locked, then taken back: conflict',
          'received, then changed: conflict',
        ],
      },
    );
    // Noon in the zone of the bridge's user.
    expect(await story.daysOf('a lot leaves')).toEqual(['2031-05-05 10:00:00', '2031-05-05 10:00:00']);
    expect(await story.callOffs()).toEqual(['purchase 25 received']);
    expect(await story.requestsLost()).toEqual([
      'a request becomes the order/U (not awarded)',
      'a request becomes the order/V (not awarded)',
      'another request becomes the order/T (awarded) (withdrawn)',
      'two requests become orders/V (not awarded)',
    ]);
    // Not even a cancelled second one, nor a request beside its order.
    expect(await story.duplicates()).toEqual([]);
    await story.end();
  },
);

async function openStory(erp: CompanyErp) {
  const { person } = erp;
  // A real Odoo keeps what earlier runs have left.
  const run = Date.now().toString(36).toUpperCase();
  const codeOf = (name: string) => `${name}-${run}`;
  const proxy = await startIncidentProxy(erp.url);
  const port = await freePort();
  const installation = await createInstallation();
  const service = superviseProgram('service', () => installation.start(['service', '--port', '0']));
  const baseUrl = /http\S+/.exec(await lineOf(service.program, /ready/))?.[0] ?? '';
  const source = await createSource(installation, baseUrl, [`https://localhost:${port}/webhooks/main`]);
  const { dataDir } = installation;
  const configuration = ledgerConfiguration(source, {
    bridge: { port, flows: flowsInto(erp, proxy.url), intakes: [needsOf(erp, codeOf('V'))] },
    source: { suppliers: true, quotas: { enabled: false } },
  });
  const client = await openClient(baseUrl, source.apiKey);
  const organisation: TestOrganisation = {
    id: '',
    key: source.apiKey,
    call: (method, path, body) =>
      request(method, baseUrl + path, { key: source.apiKey, ...(body === undefined ? {} : { body }) }),
  };
  // Before the bridge, which reads their list at its start, and then once in a while.
  await createSuppliers(organisation, vendors.map(codeOf));
  // An intake whose first read finds open requisitions, those of earlier runs, waits for a person.
  const earlier = { reference: need, state: 'draft' };
  for (const { id } of await person.search('purchase.requisition', earlier, ['name']))
    await person.call('purchase.requisition', 'action_cancel', [id]);
  const bridgeInstallation = await createInstallation({ dataDir, configuration });
  const bridge = superviseProgram('bridge', () => bridgeInstallation.start(['bridge']));
  await bridge.ready();
  /** By title: the event's id. */
  const events = new Map<string, string>();
  const titleOf = (id: string) => [...events].find(([, event]) => event === id)?.[0] ?? id;
  const products = new Map<string, number>();
  let agreement = 0;
  /** The lots of a need have the names of Odoo's products. */
  const nameIn = (title: string, lot: string) =>
    scenes[title]?.flow === 'need' ? `[${codeOf(lot)}] ${codeOf(lot)}` : lot;
  const partners = new Map<string, number>();

  const one = <T>(value: T | undefined, what: string): T => {
    if (value === undefined) throw new Error(`There is no ${what}.`);
    return value;
  };
  const eventOf = (title: string) => one(events.get(title), title);
  const partner = async (name: string) => one(partners.get(name), `vendor ${name}`);
  const nameOf = (relation: unknown) => (Array.isArray(relation) ? String(relation[1]) : '');
  const idIn = (relation: unknown) => (Array.isArray(relation) ? Number(relation[0]) : 0);

  /** Fails with what the bridge has not finished, and why. */
  async function poll(what: string, look: () => Promise<unknown>, expected: unknown): Promise<void> {
    const failure = () => bridge.failure ?? service.failure;
    await expect
      .poll(async () => failure() ?? (await look()), { timeout: waitMs, interval: 250, message: what })
      .toEqual(expected)
      .catch(async (cause: unknown) => {
        const unfinished = await useEmbedded(dataDir, readUnfinished);
        throw new Error([what, ...unfinished].join('\n'), { cause });
      });
  }

  /** The orders of this run's vendors with the source of an event, in any state. */
  async function orders(): Promise<(OdooRow & { title: string; vendor: string })[]> {
    const fields = [
      'name',
      'origin',
      'state',
      'currency_id',
      'company_id',
      'amount_untaxed',
      'order_line',
      'requisition_id',
    ];
    const found = await Promise.all(
      [...partners].map(async ([vendor, id]) =>
        (await person.search('purchase.order', { partner_id: id }, fields)).map((row) => ({
          ...row,
          vendor,
          title: titleOf(String(row['origin']).split(' SB-')[0] ?? ''),
        })),
      ),
    );
    return found.flat().filter(({ title }) => title in scenes);
  }

  /** Of a need, without the code. */
  const lotOf = (name: string) => name.replace(/^\[.*\] /, '').replace(`-${run}`, '');

  async function linesOf(order: OdooRow): Promise<{ texts: string[]; ids: number[] }> {
    const ids = order['order_line'] as number[];
    const fields = ['name', 'product_qty', 'price_unit', 'discount'];
    const lines = await person.read('purchase.order.line', ids, fields);
    const texts = lines.map(
      ({ name, product_qty, price_unit, discount }) =>
        `${lotOf(String(name))}: ${String(product_qty)} at ${String(price_unit)}${discount === 0 ? '' : ' less a discount'}`,
    );
    return { ids, texts: texts.sort() };
  }

  /** What is to come of the lines, what was received, and what goes back to the vendor. */
  async function transfersOf(lines: readonly number[]): Promise<string[]> {
    const fields = ['product_uom_qty', 'state', 'picking_code'];
    const moves = (
      await Promise.all(lines.map((line) => person.search('stock.move', { purchase_line_id: line }, fields)))
    ).flat();
    const sum = (wanted: (move: OdooRow) => boolean) =>
      moves.filter(wanted).reduce((total, move) => total + Number(move['product_uom_qty']), 0);
    const isOut = (move: OdooRow) => move['picking_code'] === 'outgoing';
    return Object.entries({
      'to come': sum((move) => !isOut(move) && move['state'] !== 'done' && move['state'] !== 'cancel'),
      received: sum((move) => !isOut(move) && move['state'] === 'done'),
      'to the vendor': sum((move) => isOut(move) && move['state'] !== 'cancel'),
    }).flatMap(([word, quantity]) => (quantity === 0 ? [] : [`${quantity} ${word}`]));
  }

  async function orderTitled(title: string): Promise<OdooRow> {
    return one(
      (await orders()).find((order) => order.title === title),
      `order "${title}"`,
    );
  }

  /** Bids and awards again what the scene says, with other bids for some. */
  async function bidAndAward(title: string, bids: Scene['bids']): Promise<void> {
    const event = eventOf(title);
    for (const [supplier, lots] of Object.entries({ ...scenes[title]?.lost, ...bids }))
      await desk(organisation, 'POST', `${event}/bids`, {
        supplier: codeOf(supplier),
        lots: Object.entries(lots).map(([lot, bid]) => ({
          lot: nameIn(title, lot),
          values: { 'Unit Price': bid.split(' x ')[1] },
        })),
      });
    const winners = (lot: string) => Object.keys(bids).filter((supplier) => bids[supplier]?.[lot] !== undefined);
    const awards = Object.entries(bids).flatMap(([supplier, lots]) =>
      Object.keys(lots).map((lot) => ({
        lot: nameIn(title, lot),
        supplier: codeOf(supplier),
        share_awarded: String(1 / winners(lot).length),
      })),
    );
    await desk(organisation, 'PUT', `${event}/scenarios/Best`, { awards });
    await desk(organisation, 'POST', `${event}/award`, { scenario: 'Best' });
  }

  /** Makes a draft agreement, of which the intake makes an event. */
  async function eventOfNeed(title: string): Promise<string> {
    const [[lot, bid] = ['', '']] = Object.entries(scenes[title]?.bids['V'] ?? {});
    const line = { product_id: products.get(lot), product_qty: Number(bid.split(' x ')[0]), price_unit: 9 };
    const values = { reference: title, requisition_type: 'blanket_order', line_ids: [[0, 0, line]] };
    agreement = await person.create('purchase.requisition', values);
    const [held] = await person.read('purchase.requisition', [agreement], ['name']);
    const find = async () => {
      const { body } = await organisation.call('GET', '/desk/events');
      const all = body.result as { id: string; reference_id: string }[];
      return all.find(({ reference_id }) => reference_id === held?.['name'])?.id;
    };
    await poll('the event of the agreement', async () => typeof (await find()), 'string');
    return one(await find(), 'event of the agreement');
  }

  /** Opens the event, changes its award (none: takes it back), and closes it. */
  async function awardAgain(title: string, bids: Scene['bids'] | undefined): Promise<void> {
    const event = eventOf(title);
    await desk(organisation, 'POST', `${event}/reopen`);
    if (bids) await bidAndAward(title, bids);
    else await desk(organisation, 'POST', `${event}/award`, { scenario: null });
    await desk(organisation, 'POST', `${event}/close`);
  }

  const receive = async (order: OdooRow) => {
    const [held] = await person.read('purchase.order', [order.id], ['picking_ids']);
    await person.call('stock.picking', 'button_validate', held?.['picking_ids'] as number[]);
  };

  return {
    partner,
    settles: poll,
    /** Suppliers at the service become vendors; people give them price lists with other prices and a discount. */
    async supply(): Promise<void> {
      for (const name of vendors) {
        const find = async () => (await person.search('res.partner', { ref: codeOf(name) }, ['name'])).length;
        await poll(`the vendor ${name}`, find, 1);
        const [held] = await person.search('res.partner', { ref: codeOf(name) }, ['name']);
        partners.set(name, one(held, name).id);
      }
      const currencies = await person.search('res.currency', { name: 'USD' }, ['name']);
      for (const [lot, unit] of Object.entries(units)) {
        const { id, template } = await erp.makeProduct(codeOf(lot), unit);
        products.set(lot, id);
        for (const vendor of ['A', 'B'])
          await person.create('product.supplierinfo', {
            partner_id: await partner(vendor),
            product_tmpl_id: template,
            price: 0.5,
            discount: 10,
            min_qty: 1,
            currency_id: currencies[0]?.id,
          });
      }
    },
    async award(titles: readonly string[]): Promise<void> {
      for (const title of titles) {
        const { flow, currency, bids, lost } = one(scenes[title], title);
        if (flow === 'need') {
          events.set(title, await eventOfNeed(title));
          await desk(organisation, 'POST', `${eventOf(title)}/publish`);
          await bidAndAward(title, bids);
          continue;
        }
        const lots = Object.assign({}, ...Object.values(bids)) as Bids;
        const id = await createEvent(organisation, {
          name: title,
          primary_currency: currency,
          tags: [{ name: 'Flow', value: flow }],
          primary_cost_calculation: cost,
          suppliers: Object.keys({ ...bids, ...lost }).map((supplier) => ({ external_id: codeOf(supplier) })),
          bid_sheet: {
            ...bidSheet,
            lots: Object.entries(lots).map(([lot, bid]) => ({
              name: lot,
              values: [
                { column: 'Item', value: codeOf(lot) },
                { column: 'Annual Volume', value: bid.split(' x ')[0] },
              ],
            })),
          },
        });
        events.set(title, id);
        await desk(organisation, 'POST', `${id}/publish`);
        await bidAndAward(title, bids);
      }
    },
    /** The bridge is killed when Odoo has written the first orders, and before it knows. */
    async closeAll(): Promise<void> {
      const kill = proxy.next({ method: loads, answered: () => bridge.kill() });
      for (const id of events.values()) await desk(organisation, 'POST', `${id}/close`);
      await kill;
    },
    async peopleWork(): Promise<void> {
      const more = await orderTitled('a person orders more');
      const [line] = more['order_line'] as number[];
      await person.write('purchase.order.line', one(line, 'line'), { product_qty: 8 });
      await receive(await orderTitled('received, then changed'));
      await person.call('purchase.order', 'button_lock', [(await orderTitled('locked, then taken back')).id]);
      await erp.bill((await orderTitled('billed, then changed')).id);
      const edited = (await orders()).find(
        ({ title, vendor }) => title === 'a draft that a person edits' && vendor === 'A',
      );
      const [draftLine] = one(edited, 'draft')['order_line'] as number[];
      await person.write('purchase.order.line', one(draftLine, 'line'), { price_unit: 9.99 });
      const added = { name: 'Freight', product_id: products.get('Bolt'), product_qty: 1, price_unit: 30 };
      await person.write('purchase.order', one(edited, 'draft').id, { order_line: [[0, 0, added]] });
      await person.call('res.partner', 'action_archive', [await partner('Q')]);
      const [agreement] = await person.search('purchase.requisition', { vendor_id: await partner('R') }, [
        'currency_id',
      ]);
      const callOff = await person.create('purchase.order', {
        partner_id: await partner('R'),
        requisition_id: agreement?.id,
        currency_id: idIn(agreement?.['currency_id']),
        order_line: [[0, 0, { product_id: products.get('Bolt'), product_qty: 25, price_unit: 4.4 }]],
      });
      await person.call('purchase.order', 'button_confirm', [callOff]);
      await receive({ id: callOff });
    },
    /** The bridge is killed while Odoo works on the first changes. */
    async changeAwards(): Promise<void> {
      const again = (title: string, bids: Scene['bids']) => awardAgain(title, bids);
      const kill = proxy.next({ method: loads, during: () => bridge.kill() });
      await again('one of two lots changes', { A: { Bolt: '100 x 0.6', Sheet: '50 x 0.75' } });
      await again('a lot leaves', { A: { Sheet: '50 x 0.7' } });
      await again('received, then changed', { B: { Bolt: '10 x 3.4' } });
      await awardAgain('locked, then taken back', undefined);
      await again('billed, then changed', { B: { Sheet: '30 x 9.5' } });
      await again('a draft that a person edits', { A: { Bolt: '40 x 1.3' }, B: { Sheet: '8 x 77.7' } });
      await kill;
      await awardAgain('taken back and awarded again', undefined);
      const state = async () => (await orderTitled('taken back and awarded again'))['state'];
      await poll('it is cancelled', state, 'cancel');
      await again('taken back and awarded again', { A: { Bolt: '10 x 60' } });
      await again('another request becomes the order', { U: { Sheet: '20 x 7.5' } });
      await desk(organisation, 'POST', `${eventOf('deleted at the service')}/delete`);
      await again('a price that changes', { P: { Bolt: '1 x 1.8', Sheet: '1 x 1800' } });
      await awardAgain('a price of a vendor archived later', undefined);
      await awardAgain('a blanket order with an order on it', undefined);
      await awardAgain('a blanket order that is taken back', undefined);
    },
    /** By title and vendor, without cancelled ones: company, currency, state, lines, total and transfers. */
    async ordersHeld(): Promise<Record<string, string>> {
      const entries = (await orders())
        .filter(({ state }) => state !== 'cancel')
        .map(async (order) => {
          const { texts, ids } = await linesOf(order);
          const company = erp.companies.indexOf(nameOf(order['company_id'])) + 1;
          const words = [company, nameOf(order['currency_id']), order['state'], texts.join(', ')];
          const total = `${words.join(' ')} = ${String(order['amount_untaxed'])}`;
          const need = agreement > 0 && idIn(order['requisition_id']) === agreement ? ['for its agreement'] : [];
          return [`${order.title}/${order.vendor}`, [total, ...(await transfersOf(ids)), ...need].join(', ')] as const;
        });
      return Object.fromEntries(await Promise.all(entries));
    },
    /** `<title>/<vendor>` of cancelled requests and orders of requests, with the words at the end of their sources. */
    async requestsLost(): Promise<string[]> {
      return (await orders())
        .filter(({ state, title }) => state === 'cancel' && scenes[title]?.flow === 'tender')
        .map(({ title, vendor, origin }) => {
          const [words = ''] = /(?: \([a-z ]+\))+$/.exec(String(origin)) ?? [];
          return `${title}/${vendor}${words}`;
        })
        .sort();
    },
    async productsOf(title: string): Promise<string[]> {
      const lines = (await orderTitled(title))['order_line'] as number[];
      const held = await person.read('purchase.order.line', lines, ['product_id']);
      return held.map(({ product_id }) => [...products].find(([, id]) => id === idIn(product_id))?.[0] ?? 'another');
    },
    async daysOf(title: string): Promise<unknown[]> {
      const lines = (await orderTitled(title))['order_line'] as number[];
      const held = await person.read('purchase.order.line', lines, ['date_planned']);
      return held.map(({ date_planned }) => date_planned);
    },
    async pricesHeld(): Promise<string[]> {
      const fields = ['price', 'currency_id', 'product_uom_id', 'product_id'];
      const held = await Promise.all(
        ['P', 'Q'].map(async (vendor) =>
          (await person.search('product.supplierinfo', { partner_id: await partner(vendor) }, fields)).map((row) => {
            const lot = [...products].find(([, id]) => id === idIn(row['product_id']))?.[0];
            return `${vendor} ${lot}: ${String(row['price'])} ${nameOf(row['currency_id'])} a ${nameOf(row['product_uom_id'])}`;
          }),
        ),
      );
      return held.flat().sort();
    },
    async agreementsHeld(): Promise<Record<string, string>> {
      const fields = ['reference', 'state', 'currency_id', 'line_ids'];
      const held = await Promise.all(
        ['R', 'S'].map(async (vendor) => {
          const rows = await person.search('purchase.requisition', { vendor_id: await partner(vendor) }, fields);
          return Promise.all(
            rows
              .filter(({ state }) => state !== 'cancel')
              .map(async (row) => {
                const names = ['product_id', 'product_qty', 'price_unit'];
                const lines = await person.read('purchase.requisition.line', row['line_ids'] as number[], names);
                const texts = lines.map(({ product_id, product_qty, price_unit }) => {
                  const lot = [...products].find(([, id]) => id === idIn(product_id))?.[0];
                  return `${lot}: ${String(product_qty)} at ${String(price_unit)}`;
                });
                const title = titleOf(String(row['reference']).split(' SB-')[0] ?? '');
                const text = [row['state'], nameOf(row['currency_id']), texts.join(', ')].join(' ');
                return [`${title}/${vendor}`, text] as const;
              }),
          );
        }),
      );
      return Object.fromEntries(held.flat());
    },
    async callOffs(): Promise<string[]> {
      const found = await person.search('purchase.order', { partner_id: await partner('R') }, ['state', 'order_line']);
      return Promise.all(
        found.map(async ({ state, order_line }) => [state, ...(await transfersOf(order_line as number[]))].join(' ')),
      );
    },
    async duplicates(): Promise<string[]> {
      const keys = (await orders()).map(({ title, vendor }) => `${title}/${vendor}`);
      return keys.filter((key, index) => keys.indexOf(key) !== index);
    },
    /** `<title>: <type of the error>`, and an alarm for each document that is neither delivered nor dead. */
    async deadLetters(): Promise<string[]> {
      return useEmbedded(dataDir, async (url) => {
        const rows = await readRows<{ key: string; type: string; is_dead: boolean; is_due: boolean }>(
          url,
          `select key, error_type as type, dead_since is not null as is_dead,
             due is not null or intent_id is not null as is_due
           from bridge.flow_documents where kind = 'award'`,
        );
        return rows
          .filter(({ is_dead, is_due }) => is_dead || is_due)
          .map(({ key, type, is_dead }) => `${titleOf(key.split('/')[0] ?? '')}: ${is_dead ? type : 'still due'}`)
          .sort();
      });
    },
    /** By title: lines of the buyers' screens, less those of the vendor that is archived. */
    async linesAwarded(flows: readonly Flow[]): Promise<string[]> {
      const awarded = await awardsAtDesk(client);
      return Object.entries(awarded)
        .flatMap(([key, lists]) => {
          const title = titleOf(key.split('/')[0] ?? '');
          const isWanted = flows.includes(scenes[title]?.flow ?? 'prices') && !key.endsWith(codeOf('C'));
          return isWanted ? lists.flat().map((line) => `${title}: ${line}`) : [];
        })
        .sort();
    },
    async linesHeld(flows: readonly Flow[]): Promise<string[]> {
      const held = await Promise.all(
        (await orders())
          .filter(({ state, title }) => state !== 'cancel' && flows.includes(scenes[title]?.flow ?? 'prices'))
          .map(async (order) => (await linesOf(order)).texts.map((text) => `${order.title}: ${exact(text)}`)),
      );
      return held.flat().sort();
    },
    async end(): Promise<void> {
      await bridge.end();
      await service.end();
    },
  };
}

/** The numbers without superfluous zeros. */
const exact = (text: string) => text.replaceAll(/\d+(\.\d+)?/g, (digits) => new Decimal(digits).toFixed());

const cost = '[Annual Volume] * [Unit Price]';
const bidSheet = {
  column_roles: { lot_identifier: 'Item', volume: 'Annual Volume' },
  columns: [
    { name: 'Item', column_type: 'INPUT', input_by: 'BUYER_INPUT', input_type: 'TEXT' },
    { name: 'Annual Volume', column_type: 'INPUT', input_by: 'BUYER_INPUT', input_type: 'NUMBER', precision: 0 },
    { name: 'Unit Price', column_type: 'INPUT', input_by: 'SUPPLIER_INPUT', input_type: 'CURRENCY', precision: 4 },
  ],
};

/** The call that writes orders. */
const loads = /\/purchase\.order\/load$/;

function flowsInto(erp: CompanyErp, url: string): object[] {
  const [first, second] = erp.companies;
  const line = { product: 'line.values[Item]', description: 'line.lot' };
  const fields = { source: 'event.id' };
  const flow = (name: Flow, documents: readonly string[], settings: object, lines: object = line) => ({
    name,
    source: 'main',
    connector: 'odoo',
    only: { tags: { Flow: name } },
    documents,
    quantity_column: 'Annual Volume',
    unit_price_column: 'Unit Price',
    mapping: { award: { fields, lines }, ...(documents.includes('quotation') ? { quotation: { fields, lines } } : {}) },
    circuit: { seconds: 1 },
    settings: {
      url,
      database: erp.database,
      api_key: erp.apiKey,
      // Each kill costs both times.
      batch_size: 5,
      timeout_seconds: 20,
      settle_seconds: 2,
      ...settings,
    },
  });
  return [
    flow(
      'orders',
      ['supplier', 'award'],
      { company: first, order_state: 'confirmed' },
      { ...line, date_planned: { value: '2031-05-05' } },
    ),
    flow('second', ['award'], { company: second }),
    flow('prices', ['award'], { company: first, awards: 'pricelists' }),
    flow('blanket', ['award'], { company: first, awards: 'blanket-orders', order_state: 'confirmed' }),
    flow('tender', ['quotation', 'award'], { company: first, order_state: 'confirmed' }),
    flow('need', ['award'], { company: first, order_state: 'confirmed' }, { description: 'line.lot' }),
  ];
}

/** Makes events of Odoo's draft agreements, and invites the vendor. */
function needsOf(erp: CompanyErp, vendor: string): object {
  return {
    name: 'needs',
    source: 'main',
    connector: 'odoo',
    stream: 'requisition',
    make: 'event',
    poll_seconds: 1,
    mapping: {
      event: {
        suppliers: [{ value: vendor }],
        with: {
          tags: [{ name: 'Flow', value: 'need' }],
          primary_currency: 'USD',
          primary_cost_calculation: cost,
          bid_sheet: bidSheet,
        },
      },
      lots: { columns: { Item: 'line.name', 'Annual Volume': 'line.quantity' } },
    },
    settings: { url: erp.url, database: erp.database, api_key: erp.apiKey, company: erp.companies[0] },
  };
}
