/**
 * The records that awards and bids name: currencies, products, units and the warehouse's operation type. They are kept for
 * a minute, or until one is missing, as it may be made at any time. Odoo takes inactive currencies, products that are not to be bought,
 * units of another kind and other companies' operation types without a word, so they are checked here.
 */
import { type Clock, ConfigError, composed, DataError, z } from 'sourcing-bridge/connector';
import type { Odoo } from './odoo.ts';
import { id, idIn, number, referenceTo, relation, text } from './values.ts';

export const productModel = 'product.product';

const currencyRows = z.array(z.object({ id, name: text }));
const unitRows = z.array(z.object({ id, name: text, rounding: number, relative_uom_id: relation }));
const productFields = ['name', 'default_code', 'uom_id', 'purchase_ok', 'product_tmpl_id'];
const productRows = z.array(
  z.object({
    id,
    name: text,
    default_code: text,
    uom_id: relation,
    purchase_ok: z.boolean(),
    product_tmpl_id: relation,
  }),
);
type ProductRow = z.output<typeof productRows>[number];
const typeRows = z.array(z.object({ id, warehouse_id: relation, company_id: relation }));
const fieldsForm = z.record(z.string(), z.unknown());

export type Unit = z.output<typeof unitRows>[number];

export interface Product {
  readonly id: number;
  readonly template: number | undefined;
  readonly name: string;
  readonly unit: Unit | undefined;
}

export interface ReferenceData {
  /** Throws DataError if Odoo has no active one. */
  currency(code: string): number;
  /** Throws DataError if Odoo has none or several, or if it is not to be bought. */
  product(name: string): Product;
  /** Throws DataError if Odoo has none or several. */
  unit(name: string): Unit;
  /** Whether two units measure the same. */
  isSameKind(one: Unit, other: Unit): boolean;
  /** The operation type for receipts of a warehouse, and its company. Throws DataError if Odoo has none, or several. */
  receipts(warehouse: string): { id: number; company: number | undefined };
  /** The time zone of the bridge's user. */
  readonly zone: string;
  /** Whether the model has this field: some come with modules. */
  hasField(name: string): boolean;
}

const keptMs = 60_000;

interface Kept {
  readonly untilMs: number;
  readonly units: readonly Unit[];
  readonly orderFields: ReadonlySet<string>;
  readonly currencies: z.output<typeof currencyRows>;
  /** Operation types for receipts. */
  readonly receipts: z.output<typeof typeRows>;
  readonly products: Map<string, ProductRow[]>;
}

/** `products`: internal references, or `product.product,12`. */
export type ReadReferenceData = (products: readonly string[], signal: AbortSignal) => Promise<ReferenceData>;

export function createReferenceDataReader(odoo: Odoo, clock: Clock): ReadReferenceData {
  let kept: Kept | undefined;

  async function readKept(signal: AbortSignal): Promise<Kept> {
    const unitArgs = { domain: [], fields: ['name', 'rounding', 'relative_uom_id'] };
    const units = await odoo.ask('uom.uom', 'search_read', unitArgs, unitRows, signal);
    const currencyArgs = { domain: [], fields: ['name'] };
    const currencies = await odoo.ask('res.currency', 'search_read', currencyArgs, currencyRows, signal);
    const orderArgs = { allfields: [], attributes: ['type'] };
    const orderFields = await odoo.ask('purchase.order', 'fields_get', orderArgs, fieldsForm, signal);
    // An empty answer proves nothing: every Odoo has units and a currency, and orders have fields.
    if (units.length === 0 || currencies.length === 0 || !('order_line' in orderFields))
      throw new ConfigError(
        'Odoo shows the bridge no unit of measure, no currency, or no purchase order: see `check` for its rights.',
      );
    const typeArgs = { domain: [['code', '=', 'incoming']], fields: ['warehouse_id', 'company_id'] };
    const hasWarehouses = 'picking_type_id' in orderFields;
    const receipts = hasWarehouses
      ? await odoo.ask('stock.picking.type', 'search_read', typeArgs, typeRows, signal)
      : [];
    const untilMs = clock.nowMs() + keptMs;
    return {
      untilMs,
      units,
      currencies,
      orderFields: new Set(Object.keys(orderFields)),
      receipts,
      products: new Map(),
    };
  }

  /** What Odoo does not have is asked for once more before it counts as missing. */
  async function addProducts(known: Map<string, ProductRow[]>, names: readonly string[], signal: AbortSignal) {
    for (let turn = 0; turn < 2; turn += 1) {
      const missing = [...new Set(names)].filter((name) => !known.has(name) && !name.includes('\0'));
      if (missing.length === 0) return;
      const ids = missing.flatMap((name) => idIn(name, productModel) ?? []);
      const domain = ['|', ['default_code', 'in', missing], ['id', 'in', ids]];
      const rows = await odoo.ask(productModel, 'search_read', { domain, fields: productFields }, productRows, signal);
      // Two callers may read the same at once, so an answer replaces what is kept.
      for (const name of missing) {
        const found = rows.filter((row) => name === row.default_code || name === referenceTo(productModel, row.id));
        if (found.length > 0) known.set(name, found);
      }
    }
  }

  return async (products, signal) => {
    // Of this call until its end: another one may replace what is kept meanwhile.
    const current = kept && clock.nowMs() < kept.untilMs ? kept : await readKept(signal);
    kept = current;
    const { units, orderFields, currencies, receipts } = current;
    await addProducts(current.products, products, signal);
    const company = await odoo.company(signal);
    const { zone } = await odoo.user(signal);

    function rootOf(unit: Unit): number {
      let at: Unit | undefined = unit;
      // Units refer to each other in a chain that ends at the reference unit.
      for (let steps = 0; at?.relative_uom_id && steps < 10; steps += 1) {
        const next: number = at.relative_uom_id.id;
        at = units.find((candidate) => candidate.id === next);
        if (!at) return next;
      }
      return (at ?? unit).id;
    }

    return {
      currency(code) {
        const row = currencies.find(({ name }) => name === code);
        if (row) return row.id;
        kept = undefined;
        throw new DataError(`Odoo has no active currency ${code}: activate it there, and replay.`);
      },
      product(name) {
        const found = current.products.get(name) ?? [];
        const [row] = found;
        if (!row) throw new DataError(`Odoo has no product with the reference "${name}".`);
        if (found.length > 1)
          throw new DataError(`Odoo has ${found.length} products with the reference "${name}": it must be only one.`);
        if (!row.purchase_ok)
          throw new DataError(`The product "${name}" is not to be bought: tick Purchase at the product in Odoo.`);
        const unit = units.find((candidate) => candidate.id === row.uom_id?.id);
        return { id: row.id, template: row.product_tmpl_id?.id, name: row.name, unit };
      },
      unit(name) {
        const found = units.filter((unit) => composed(unit.name) === composed(name));
        if (found.length === 1) return found[0] as Unit;
        kept = undefined;
        throw new DataError(`Odoo has ${found.length === 0 ? 'no' : 'several'} units "${name}".`);
      },
      isSameKind: (one, other) => rootOf(one) === rootOf(other),
      receipts(warehouse) {
        if (!orderFields.has('picking_type_id'))
          throw new ConfigError(
            'Odoo has no warehouses, because Inventory is not installed: remove settings.warehouse.',
          );
        const own = receipts.filter(
          ({ warehouse_id, company_id }) =>
            warehouse_id?.name === warehouse && (company === undefined || company_id?.id === company),
        );
        const [row] = own;
        if (row && own.length === 1) return { id: row.id, company: row.company_id?.id };
        kept = undefined;
        throw new DataError(
          `Odoo has ${own.length === 0 ? 'no' : 'several'} operation types for receipts in the warehouse "${warehouse}"${company === undefined ? '' : ' of the company'}.`,
        );
      },
      zone,
      hasField: (name) => orderFields.has(name),
    };
  };
}
