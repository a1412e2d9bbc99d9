/**
 * An Odoo for the story of a company: the stand-in, or a real one. On a real one the story needs two companies with
 * warehouses, the currencies EUR, JPY and USD with rates, a user of the bridge in the zone Europe/Berlin, and besides the bridge's key (ODOO_KEY) one of a person with
 * the rights of a purchase, inventory and accounting manager (ODOO_PERSON_KEY). ODOO_COMPANIES names the companies,
 * separated by a comma; ODOO_RESTART is a command that restarts Odoo.
 */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { type OdooReader, readerOfServer, readerOfStandIn } from './odoo-reader.ts';
import { startErp } from './odoo-session.ts';
import { users } from './stand-in/seed.ts';
import { databaseName } from './stand-in/server.ts';

export interface CompanyErp {
  readonly url: string;
  readonly database: string;
  readonly apiKey: string;
  readonly companies: readonly [string, string];
  /** Reads and changes as a person. */
  readonly person: OdooReader;
  /** Makes a product that is bought in this unit, and returns its id and its template's. */
  makeProduct(code: string, unit: string): Promise<{ id: number; template: number }>;
  /** Makes a bill of the order. */
  bill(order: number): Promise<void>;
  /** Odoo is away for a moment, and comes back. */
  restart(): Promise<void>;
}

export async function standInErp(): Promise<CompanyErp> {
  const erp = await startErp();
  erp.installed.warehouse(2, 'Second WH', 2);
  for (const row of erp.rows.all('res.currency'))
    if (row['name'] === 'JPY') erp.rows.update('res.currency', row, { active: true }, 1);
  const user = erp.rows.find('res.users', users.connector);
  if (user) erp.rows.update('res.users', user, { tz: 'Europe/Berlin' }, 1);
  const units: Readonly<Record<string, number>> = { Units: 1, kg: 16 };
  let products = 20;
  return {
    url: erp.url,
    database: databaseName,
    apiKey: erp.newKey(users.connector),
    companies: ['My Company', 'Second Co'],
    person: readerOfStandIn(erp),
    async makeProduct(code, unit) {
      products += 1;
      erp.installed.product(products, code, code, units[unit] ?? 1);
      return { id: products, template: products };
    },
    async bill(order) {
      const person = readerOfStandIn(erp);
      for (const line of await person.search('purchase.order.line', { order_id: order }, ['product_qty']))
        await person.write('purchase.order.line', line.id, { qty_invoiced: line['product_qty'] });
    },
    async restart() {
      erp.goAway(true);
      await new Promise((resolve) => setTimeout(resolve, 1_000));
      erp.goAway(false);
    },
  };
}

/** Undefined where no real one is named. */
export function realErp(): CompanyErp | undefined {
  const env = process.env;
  const { ODOO_URL: url, ODOO_DB: database, ODOO_KEY: apiKey, ODOO_PERSON_KEY: personKey } = env;
  if (!url || !database || !apiKey || !personKey) return undefined;
  const [first = 'My Company', second = 'Second Co'] = (env['ODOO_COMPANIES'] ?? '').split(',').filter(Boolean);
  const person = readerOfServer({ url, database, key: personKey });
  return {
    url,
    database,
    apiKey,
    companies: [first, second],
    person,
    async makeProduct(code, unit) {
      const [measure] = await person.search('uom.uom', { name: unit }, ['name']);
      // So that a bill needs no receipt.
      const values = { name: code, default_code: code, uom_id: measure?.id, purchase_method: 'purchase' };
      const id = await person.create('product.product', values);
      const [product] = await person.read('product.product', [id], ['product_tmpl_id']);
      const [template] = (product?.['product_tmpl_id'] ?? []) as number[];
      return { id, template: template ?? 0 };
    },
    bill: async (order) => void (await person.call('purchase.order', 'action_create_invoice', [order])),
    async restart() {
      const command = env['ODOO_RESTART'];
      if (command) await promisify(execFile)('sh', ['-c', command]);
    },
  };
}
