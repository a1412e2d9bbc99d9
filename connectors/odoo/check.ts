/** Checks whether the flow can work with this Odoo: version, key, rights, modules, settings. Changes nothing. */
import { asConnectorError, type CheckResult, type Clock, createCheckList, z } from 'sourcing-bridge/connector';
import { MissingModule, type Odoo } from './odoo.ts';
import type { ReadReferenceData } from './reference-data.ts';
import type { Settings } from './settings.ts';
import { id, relation, text } from './values.ts';

const keyRows = z.array(z.object({ id, name: text, expiration_date: text }));
const companyRows = z.array(z.object({ id, name: text, currency_id: relation }));
const dayMs = 86_400_000;
/** Before a key ends, `check` warns for so long. */
const warnDays = 14;

const purchase = 'Purchase / User';
const models: readonly (readonly [name: string, model: string, operations: readonly string[], group: string])[] = [
  ['suppliers', 'res.partner', ['read', 'create', 'write'], 'Contact / Creation'],
  ['purchase orders', 'purchase.order', ['read', 'create', 'write', 'unlink'], purchase],
  ['products', 'product.product', ['read'], purchase],
  ['attachments', 'ir.attachment', ['read', 'create', 'write', 'unlink'], 'Internal User'],
];
const priceModel = [
  'prices',
  'product.supplierinfo',
  ['read', 'create', 'write', 'unlink'],
  'Products / Create',
] as const;
const blanketModel = ['blanket orders', 'purchase.requisition', ['read', 'create', 'write'], purchase] as const;

const currencyRows = z.array(z.object({ id, name: text, rate_ids: z.array(id) }));
const newOrderForm = z.object({ value: z.looseObject({ picking_type_id: z.unknown().optional() }) });

interface CheckDeps {
  readonly odoo: Odoo;
  readonly settings: Settings;
  readonly readReferenceData: ReadReferenceData;
  readonly clock: Clock;
}

/** One result, with a sentence for an operator, per thing that has to be right. Without a login it is the only one. */
export async function check(
  { odoo, settings, readReferenceData, clock }: CheckDeps,
  signal: AbortSignal,
): Promise<CheckResult[]> {
  const { results, attempt } = createCheckList();
  const count = (model: string, domain: readonly unknown[]) =>
    odoo.ask(model, 'search_count', { domain }, z.int(), signal);
  let companies: z.output<typeof companyRows> = [];

  const isReached = await attempt('version', async () => {
    const version = await odoo.version(signal);
    const major = Number.parseInt(version.replace(/^\D*/, ''), 10);
    if (!(major >= 19)) throw new Error(`This is Odoo ${version}; the connector needs Odoo 19 or newer (/json/2).`);
    return `Odoo ${version} answers at ${settings.url}.`;
  });
  if (!isReached) return results;
  const isLoggedIn = await attempt('login', async () => {
    const args = { domain: [], fields: ['name', 'currency_id'] };
    companies = await odoo.ask('res.company', 'search_read', args, companyRows, signal);
    const company = settings.company ?? (companies.length === 1 ? companies[0]?.name : "the user's own");
    return `The API key is accepted by the database ${settings.database}; orders are made for the company ${company}.`;
  });
  if (!isLoggedIn) return results;
  await attempt('API key', async () => keyText(await keyEnd(odoo, signal), clock.nowMs()));
  const more = { orders: [], pricelists: [priceModel], 'blanket-orders': [blanketModel] }[settings.awards];
  for (const [name, model, operations, group] of [...models, ...more])
    await attempt(name, async () => {
      for (const operation of operations)
        if (!(await odoo.ask(model, 'has_access', { ids: [], operation }, z.boolean(), signal)))
          throw new Error(`The bridge's user may not ${operation} ${name} (${model}): add it to the group ${group}.`);
      return `The user may ${operations.join(', ')} ${name}.`;
    });
  await attempt('purchase agreements', async () => {
    try {
      await count('purchase.requisition', [['id', '=', 0]]);
      return 'Purchase Agreements is installed: requisitions can be read, and bids become alternatives of each other.';
    } catch (error) {
      if (!(error instanceof MissingModule) || settings.awards === 'blanket-orders') throw error;
      return 'Purchase Agreements is not installed: blanket orders, requisitions and alternatives of bids are not possible.';
    }
  });
  await attempt('warehouse', async () => {
    const args = { ids: [], values: {}, field_names: [], fields_spec: { picking_type_id: {} } };
    const { value } = await odoo.ask('purchase.order', 'onchange', args, newOrderForm, signal);
    // Without the app Inventory, orders have no such field.
    if (value.picking_type_id === false)
      throw new Error(
        'The company has no warehouse, without which Odoo refuses its orders ("Deliver To"): make one in Inventory, Configuration, Warehouses.',
      );
    return 'Orders of the company have a place to deliver to.';
  });
  await attempt('currencies', async () => {
    const args = { domain: [], fields: ['name', 'rate_ids'] };
    const active = await odoo.ask('res.currency', 'search_read', args, currencyRows, signal);
    const company =
      settings.company === undefined ? companies : companies.filter(({ name }) => name === settings.company);
    const own = new Set(company.map(({ currency_id }) => currency_id?.id));
    const bare = active.filter((currency) => currency.rate_ids.length === 0 && !own.has(currency.id));
    if (bare.length > 0)
      throw new Error(
        `Active currencies without a rate: ${namesOf(bare)}. Odoo counts 1 of them as 1 of the company's currency: add their rates.`,
      );
    return `Active: ${namesOf(active)}. Awards and bids in another currency are dead letters until it is activated.`;
  });
  await attempt('vendors', async () => {
    const vendors = [
      ['supplier_rank', '>', 0],
      ['parent_id', '=', false],
    ];
    const all = await count('res.partner', vendors);
    const bare = await count('res.partner', [...vendors, ['ref', '=', false]]);
    return bare === 0
      ? `All ${all} vendors have a reference.`
      : `${bare} of ${all} vendors have no reference, by which the flow would find them: enter the external id of the supplier as their reference, or set settings.match, or the flow makes second contacts for them.`;
  });
  await attempt('company data', async () => {
    const { product, warehouse } = settings;
    const data = await readReferenceData(product === undefined ? [] : [product], signal);
    if (product !== undefined) data.product(product);
    if (warehouse !== undefined) data.receipts(warehouse);
    return product === undefined
      ? 'settings.product is not set: lines whose mapping names no product are text lines, and cannot be confirmed.'
      : `The product ${product} exists.`;
  });
  return results;
}

const namesOf = (rows: readonly { name: string }[]) => rows.map(({ name }) => name).join(', ');

/** When the first of the user's keys ends, in milliseconds: Odoo does not tell which of them is in use. */
async function keyEnd(odoo: Odoo, signal: AbortSignal): Promise<number | 'unknown' | 'never'> {
  try {
    const args = { domain: [], fields: ['name', 'expiration_date'] };
    const rows = await odoo.ask('res.users.apikeys', 'search_read', args, keyRows, signal);
    if (rows.length === 0) return 'unknown';
    const ends = rows.flatMap(({ expiration_date: end }) =>
      end === '' ? [] : [Date.parse(`${end.replace(' ', 'T')}Z`)],
    );
    return ends.length === 0 ? 'never' : Math.min(...ends);
  } catch (error) {
    if (asConnectorError(error).type === 'transient') throw error;
    return 'unknown';
  }
}

function keyText(end: number | 'unknown' | 'never', nowMs: number): string {
  if (end === 'never') return 'The API key has no end.';
  if (end === 'unknown')
    return 'Odoo does not tell when the API key ends: 90 days after it was made, unless an administrator made it.';
  const day = new Date(end).toISOString().slice(0, 10);
  const days = Math.floor((end - nowMs) / dayMs);
  if (days < 0)
    throw new Error(`The API key has ended on ${day}: make a new one in Odoo (Preferences, Account Security).`);
  if (days < warnDays)
    throw new Error(
      `The API key ends on ${day}, in ${days} days: make a new one in Odoo (Preferences, Account Security).`,
    );
  return `The API key ends on ${day}, in ${days} days.`;
}
