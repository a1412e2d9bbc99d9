/** Checks whether the flow can work with this Odoo: version, key, rights, modules, settings. Changes nothing. */
import { type CheckResult, type Clock, z } from 'sourcing-bridge/connector';
import { asConnectorError, MissingModule, type Odoo } from './odoo.ts';
import type { ReadReferenceData } from './reference-data.ts';
import type { Settings } from './settings.ts';
import { id, text } from './values.ts';

const keyRows = z.array(z.object({ id, name: text, expiration_date: text }));
const companyRows = z.array(z.object({ id, name: text }));
const dayMs = 86_400_000;
/** Before a key ends, `check` warns for so long. */
const warnDays = 14;

const models = [
  ['suppliers', 'res.partner', 'Contact / Creation'],
  ['purchase orders', 'purchase.order', 'Purchase / User'],
  ['products', 'product.product', 'Products / Create'],
  ['attachments', 'ir.attachment', 'Internal User'],
] as const;

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
  const results: CheckResult[] = [];
  const attempt = async (name: string, run: () => Promise<string>): Promise<boolean> => {
    try {
      results.push({ name, ok: true, message: await run() });
      return true;
    } catch (error) {
      results.push({ name, ok: false, message: asConnectorError(error).message });
      return false;
    }
  };
  const canRead = (model: string) => odoo.ask(model, 'search_count', { domain: [['id', '=', 0]] }, z.int(), signal);

  const isReached = await attempt('version', async () => {
    const version = await odoo.version(signal);
    const major = Number.parseInt(version.replace(/^\D*/, ''), 10);
    if (!(major >= 19)) throw new Error(`This is Odoo ${version}; the connector needs Odoo 19 or newer (/json/2).`);
    return `Odoo ${version} answers at ${settings.url}.`;
  });
  if (!isReached) return results;
  const isLoggedIn = await attempt('login', async () => {
    const companies = await odoo.ask(
      'res.company',
      'search_read',
      { domain: [], fields: ['name'] },
      companyRows,
      signal,
    );
    const company = settings.company ?? (companies.length === 1 ? companies[0]?.name : "the user's own");
    return `The API key is accepted by the database ${settings.database}; orders are made for the company ${company}.`;
  });
  if (!isLoggedIn) return results;
  await attempt('API key', async () => keyText(await keyEnd(odoo, settings, signal), clock.nowMs()));
  for (const [name, model, group] of models)
    await attempt(name, async () => {
      await canRead(model).catch((error: unknown) => {
        const { message } = asConnectorError(error);
        throw new Error(`The bridge's user cannot use ${name}: add it to the group ${group}. ${message}`);
      });
      return `The user may read ${name}.`;
    });
  await attempt('purchase agreements', async () => {
    try {
      await canRead('purchase.requisition');
      return 'Purchase Agreements is installed: requisitions can be read, and bids become alternatives of each other.';
    } catch (error) {
      if (!(error instanceof MissingModule) || settings.awards === 'blanket-orders') throw error;
      return 'Purchase Agreements is not installed: blanket orders, requisitions and alternatives of bids are not possible.';
    }
  });
  await attempt('company data', async () => {
    const { product, unit, warehouse, product_by } = settings;
    const byCode = product !== undefined && product_by !== 'supplier-code';
    const wanted = {
      currencies: [],
      products: byCode ? [{ name: product, vendor: undefined }] : [],
      warehouses: warehouse === undefined ? [] : [warehouse],
    };
    const data = await readReferenceData(wanted, signal);
    if (byCode) data.product({ name: product, vendor: undefined });
    if (unit !== undefined) data.unit(unit);
    if (warehouse !== undefined) data.receipts(warehouse);
    return product === undefined
      ? 'settings.product is not set: lines whose mapping names no product are text lines, and cannot be confirmed.'
      : `The product ${product} exists.`;
  });
  return results;
}

/** The end of the key in milliseconds; undefined where nobody tells it. */
async function keyEnd(odoo: Odoo, settings: Settings, signal: AbortSignal): Promise<number | 'unknown' | 'never'> {
  if (settings.key_expires !== undefined) return Date.parse(`${settings.key_expires}T23:59:59Z`);
  try {
    const args = { domain: [], fields: ['name', 'expiration_date'] };
    const rows = await odoo.ask('res.users.apikeys', 'search_read', args, keyRows, signal);
    // Odoo does not tell which of the user's keys is in use.
    const [only] = rows;
    if (!only || rows.length > 1) return 'unknown';
    return only.expiration_date === '' ? 'never' : Date.parse(`${only.expiration_date.replace(' ', 'T')}Z`);
  } catch (error) {
    if (asConnectorError(error).type === 'transient') throw error;
    return 'unknown';
  }
}

function keyText(end: number | 'unknown' | 'never', nowMs: number): string {
  if (end === 'never') return 'The API key has no end.';
  if (end === 'unknown')
    return 'Odoo does not tell when the API key ends (90 days after it was made, unless an administrator made it): set settings.key_expires to its day, so that this check warns before it.';
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
