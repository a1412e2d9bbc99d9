/**
 * The ids of what awards and bids name by code: suppliers, currencies, products, units and warehouses. They are read at
 * most once per batch. A code that Tryton does not have is looked up again in each batch, so that a record that was
 * just created there is found at once.
 */
import {
  type AwardDocument,
  type Clock,
  ConfigError,
  composed,
  DataError,
  type QuotationDocument,
  z,
} from 'sourcing-bridge/connector';
import { productCodeOf } from './mapping-fields.ts';
import { codeOf, findSuppliers, type Supplier } from './parties.ts';
import type { Tryton } from './rpc.ts';
import type { Settings } from './settings.ts';
import { fieldNames, flag, id, text } from './values.ts';

const currencyRows = z.array(z.object({ id, code: text }));
const unitFields = { id, name: text, symbol: text, digits: z.int(), category: id.nullable() };
const unitRow = z.object(unitFields);
const unitRows = z.array(unitRow);
const taxes = z.object({ supplier_taxes_used: z.array(id).nullish() }).nullish();
const productRows = z.array(
  z.object({
    id,
    code: text,
    template: id,
    purchasable: flag,
    purchase_uom: id.nullable(),
    'purchase_uom.': unitRow.nullish(),
    'template.': z.object({ name: text, 'account_category.': taxes }),
  }),
);
const warehouseRows = z.array(z.object({ id, code: text, name: text }));
const priceField = z.object({ unit_price: z.object({ digits: z.unknown() }) });

export type Unit = z.output<typeof unitRow>;

export interface Product {
  readonly id: number;
  readonly code: string;
  readonly name: string;
  readonly template: number;
  readonly unit: Unit | undefined;
  readonly taxes: readonly number[];
}

export interface ReferenceData {
  readonly company: number;
  /** The document's supplier; its id is undefined if Tryton does not have it. */
  supplier(document: Pick<AwardDocument, 'supplier'>): Supplier;
  /** The number of decimals that a unit price may have. */
  readonly priceDecimals: number;
  /** The id of the currency. Throws DataError if Tryton does not have it. */
  currency(code: string): number;
  /** Throws DataError if Tryton has none or several, or if the product is not purchasable. */
  product(code: string): Product;
  /** The unit with this symbol or name. Throws DataError if Tryton has none or several. */
  unit(name: string): Unit;
  /**
   * The id of the warehouse that the mapping names, else of the setting's, else of the only one; null if Tryton has
   * several and none is named. Throws DataError if the mapping names one that does not exist.
   */
  warehouse(document: Pick<AwardDocument, 'fields'>): number | null;
  warehouseName(warehouse: number): string | undefined;
}

const unitNames = Object.keys(unitFields).filter((name) => name !== 'id');
const productFields = fieldNames(
  'code template template.name template.account_category.supplier_taxes_used purchasable purchase_uom',
  { purchase_uom: unitNames.join(' ') },
);

/** How long units, warehouses and the currencies and products that were found are kept: they seldom change. */
const keptMs = 60_000;

interface Kept {
  readonly untilMs: number;
  readonly priceDecimals: number;
  readonly units: z.output<typeof unitRows>;
  readonly warehouses: z.output<typeof warehouseRows>;
  readonly currencies: Map<string, z.output<typeof currencyRows>>;
  readonly products: Map<string, z.output<typeof productRows>>;
}

export function createReferenceDataReader(tryton: Tryton, settings: Settings, clock: Clock) {
  let kept: Kept | undefined;

  async function search<T>(
    model: string,
    domain: readonly unknown[],
    fields: readonly string[],
    rows: z.ZodType<T>,
    signal: AbortSignal,
  ): Promise<T> {
    return tryton.ask(`${model}.search_read`, [domain, 0, null, null, fields], rows, signal);
  }

  async function readKept(signal: AbortSignal): Promise<Kept> {
    const fields = await tryton.ask('purchase.line.fields_get', [['unit_price']], priceField, signal);
    // `[16, 4]`, as JSON or as a text that holds JSON.
    const { digits } = fields.unit_price;
    const parsed = z.tuple([z.unknown(), z.int()]).safeParse(typeof digits === 'string' ? JSON.parse(digits) : digits);
    return {
      untilMs: clock.nowMs() + keptMs,
      priceDecimals: parsed.success ? parsed.data[1] : 4,
      units: await search('product.uom', [], unitNames, unitRows, signal),
      warehouses: await search('stock.location', [['type', '=', 'warehouse']], ['code', 'name'], warehouseRows, signal),
      currencies: new Map(),
      products: new Map(),
    };
  }

  /**
   * Reads the rows of codes that are not kept yet. A code that Tryton does not have is not remembered: it may be
   * created at any time.
   */
  async function addMissing<Row extends { code: string }>(
    known: Map<string, Row[]>,
    codes: Iterable<string>,
    read: (missing: readonly string[]) => Promise<Row[]>,
  ): Promise<void> {
    const missing = [...new Set(codes)].filter((code) => !known.has(code));
    if (missing.length === 0) return;
    // Set and not added to: two calls at once read the same rows.
    for (const [code, rows] of Map.groupBy(await read(missing), (row) => row.code)) known.set(code, rows);
  }

  /**
   * Reads what these documents and the settings name. Rejects with ConfigError if the warehouse of the settings does
   * not exist in Tryton, or exists several times.
   */
  return async (
    documents: readonly (AwardDocument | QuotationDocument)[],
    signal: AbortSignal,
  ): Promise<ReferenceData> => {
    const { company } = await tryton.session(signal);
    if (kept === undefined || clock.nowMs() >= kept.untilMs) kept = await readKept(signal);
    const { priceDecimals, units, warehouses, currencies, products } = kept;
    const currencyCodes = documents.map(({ currency }) => currency);
    await addMissing(currencies, currencyCodes, (missing) =>
      search('currency.currency', [['code', 'in', missing]], ['code'], currencyRows, signal),
    );
    const lines = [
      ...documents.flatMap((document): readonly { fields?: Record<string, string> | undefined }[] => document.lines),
      {},
    ];
    const productCodes = lines.flatMap((line) => productCodeOf(line, settings) ?? []);
    await addMissing(products, productCodes, (missing) =>
      search('product.product', [['code', 'in', missing]], productFields, productRows, signal),
    );
    const suppliers = await findSuppliers(
      tryton,
      documents.map(({ supplier }) => supplier),
      signal,
    );

    function warehouseNamed(name: string): number {
      const found = warehouses.filter(
        (warehouse) => warehouse.code === name || composed(warehouse.name) === composed(name),
      );
      if (found.length === 1) return (found[0] as { id: number }).id;
      throw new DataError(`Tryton has ${found.length === 0 ? 'no' : 'several'} warehouses "${name}".`);
    }

    let defaultWarehouse = warehouses.length === 1 ? warehouses[0]?.id : undefined;
    if (settings.warehouse !== undefined)
      try {
        defaultWarehouse = warehouseNamed(settings.warehouse);
      } catch (cause) {
        throw new ConfigError(`${(cause as Error).message} (settings.warehouse)`, { cause });
      }

    return {
      company,
      supplier: ({ supplier }) => suppliers.get(codeOf(supplier)) as Supplier,
      priceDecimals,
      currency(code) {
        const [found] = currencies.get(code) ?? [];
        if (found) return found.id;
        throw new DataError(`Tryton has no active currency ${code}: create or activate it there.`);
      },
      product(code) {
        const found = products.get(code) ?? [];
        const [row] = found;
        if (row === undefined) throw new DataError(`Tryton has no active product with the code "${code}".`);
        if (found.length > 1) throw new DataError(`Tryton has ${found.length} products with the code "${code}".`);
        if (!row.purchasable)
          throw new DataError(`The product "${code}" cannot be purchased: tick Purchasable at the product in Tryton.`);
        return {
          id: row.id,
          code,
          name: row['template.'].name,
          template: row.template,
          unit: row['purchase_uom.'] ?? undefined,
          taxes: row['template.']['account_category.']?.supplier_taxes_used ?? [],
        };
      },
      unit(name) {
        const found = units.filter((unit) => unit.symbol === name || composed(unit.name) === composed(name));
        if (found.length === 1) return found[0] as Unit;
        throw new DataError(`Tryton has ${found.length === 0 ? 'no' : 'several'} units "${name}".`);
      },
      warehouse({ fields }) {
        const name = fields?.['warehouse'];
        return (name === undefined ? defaultWarehouse : warehouseNamed(name)) ?? null;
      },
      warehouseName: (warehouse) => warehouses.find((row) => row.id === warehouse)?.name,
    };
  };
}

export type ReadReferenceData = ReturnType<typeof createReferenceDataReader>;
