/**
 * The supplier prices of an award. Each lot becomes a supplier of the lot's product (`purchase.product_supplier`) with
 * the awarded price, valid from a quantity of 0 on. Its code is the award's marker, its name is the lot. The price of a
 * lot that is no longer awarded is archived. Other prices of the same supplier and product are left alone.
 */
import { DataError, type Task, z } from 'sourcing-bridge/connector';
import type { WantedLine } from './lots.ts';
import { markerOf } from './markers.ts';
import type { SupplierAward } from './purchase-values.ts';
import type { ReferenceData } from './reference-data.ts';
import type { Tryton } from './rpc.ts';
import { begun, sendTasks } from './send-batch.ts';
import {
  decimal,
  decimalOf,
  fieldNames,
  flag,
  id,
  ifUnchanged,
  oneLine,
  type ReadRecord,
  text,
  timestamp,
} from './values.ts';

const rows = z.array(
  z.object({
    id,
    code: text,
    name: text,
    active: flag,
    template: id,
    product: id.nullable(),
    party: id,
    currency: id,
    _timestamp: timestamp,
    'prices.': z.array(z.object({ id, quantity: z.number(), unit_price: decimal, _timestamp: timestamp })),
  }),
);
const fields = fieldNames('code name active template product party currency _timestamp', {
  prices: 'quantity unit_price _timestamp',
});

export type HeldPrice = z.output<typeof rows>[number];

/** The prices that Tryton holds, archived ones included, by document key. */
export async function findPrices(
  tryton: Tryton,
  keys: readonly string[],
  signal: AbortSignal,
): Promise<ReadonlyMap<string, HeldPrice[]>> {
  const markers = new Map(keys.map((key) => [key, markerOf('award', key)]));
  const params = [[['code', 'in', [...markers.values()]]], 0, null, [['id', 'ASC']], fields];
  const found = await tryton.ask('purchase.product_supplier.search_read', params, rows, signal, { active_test: false });
  return new Map([...markers].map(([key, marker]) => [key, found.filter(({ code }) => code === marker)]));
}

/** The reference of all prices of an award. */
export function referenceOfPrices(key: string): string {
  return `purchase.product_supplier,code=${markerOf('award', key)}`;
}

export interface PriceTask extends Task<'award'>, SupplierAward {
  prices: PriceStep | undefined;
}

interface PriceStep {
  readonly create: readonly WantedLine[];
  readonly write: readonly { readonly held: HeldPrice; readonly wanted: WantedLine | undefined }[];
}

/** Sets the task's `prices` step and adds the plan's sentences. Throws DataError for what Tryton would refuse. */
export function planPrices(task: PriceTask, held: readonly HeldPrice[], data: ReferenceData): void {
  const { operation, supplier, steps } = task;
  const { currency } = operation.document;
  const create: WantedLine[] = [];
  const write: PriceStep['write'][number][] = [];
  const left = new Set(held);
  const lines = operation.action === 'cancel' ? [] : task.lines;
  // Throws, before anything is sent, for a currency that Tryton does not have.
  if (lines.length > 0) data.currency(currency);
  for (const wanted of lines) {
    checkPriced(wanted);
    const own = held.find((price) => price.name === oneLine(wanted.line.lot) && left.has(price));
    const subject = `the price of ${supplier.code} for ${wanted.product?.code}, lot "${wanted.lot}"`;
    if (!own) {
      create.push(wanted);
      steps.push(`Add ${subject}: ${wanted.unitPrice} ${currency}.`);
      continue;
    }
    left.delete(own);
    if (Object.keys(changesOf(own, wanted, task, data)).length === 0) continue;
    write.push({ held: own, wanted });
    steps.push(`Change ${subject}, from ${ownPrice(own)?.unit_price ?? 'none'} to ${wanted.unitPrice} ${currency}.`);
  }
  for (const unawarded of left) {
    if (!unawarded.active) continue;
    write.push({ held: unawarded, wanted: undefined });
    steps.push(`Archive the price of ${supplier.code} for the lot "${unawarded.name}".`);
  }
  if (create.length + write.length > 0) task.prices = { create, write };
}

/**
 * Throws DataError for a lot without a product, and for one in another unit: Tryton keeps prices per product and
 * purchase unit.
 */
function checkPriced({ lot, product, unit }: WantedLine): void {
  if (!product)
    throw new DataError(
      `Lot "${lot}" has no product, and Tryton keeps prices by product: name one in the mapping (product) or in settings.product.`,
    );
  if (unit && product.unit && unit.id !== product.unit.id)
    throw new DataError(
      `Lot "${lot}" is priced by "${unit.name}", and Tryton keeps prices of ${product.code} by "${product.unit.name}".`,
    );
}

function ownPrice({ 'prices.': prices }: HeldPrice): HeldPrice['prices.'][number] | undefined {
  return prices.find(({ quantity }) => quantity === 0);
}

/** The fields that change. `wanted`: undefined if the lot is no longer awarded. */
function changesOf(
  held: HeldPrice,
  wanted: WantedLine | undefined,
  { operation, supplier }: PriceTask,
  data: ReferenceData,
): Record<string, unknown> {
  if (!wanted) return { active: false };
  const { product, unitPrice } = wanted;
  const currency = data.currency(operation.document.currency);
  const changes: Record<string, unknown> = {};
  if (!held.active) changes['active'] = true;
  if (held.currency !== currency) changes['currency'] = currency;
  if (held.party !== supplier.id) changes['party'] = supplier.id;
  if (product && held.product !== product.id)
    Object.assign(changes, { product: product.id, template: product.template });
  const price = ownPrice(held);
  if (price === undefined) changes['prices'] = [['create', [{ quantity: 0, unit_price: decimalOf(unitPrice) }]]];
  else if (price.unit_price !== unitPrice)
    changes['prices'] = [['write', [price.id], { unit_price: decimalOf(unitPrice) }]];
  return changes;
}

/**
 * Carries out the `prices` steps: new prices in one call, changes in another. A task that Tryton refuses gets the
 * error.
 */
export async function sendPrices(
  tasks: readonly PriceTask[],
  { tryton, data }: { tryton: Tryton; data: ReferenceData },
  signal: AbortSignal,
): Promise<void> {
  await sendTasks(
    tasks.filter(({ prices }) => prices && prices.create.length > 0),
    async (batch) => {
      const values = batch.flatMap((task) => (task.prices?.create ?? []).map((wanted) => newPrice(task, wanted, data)));
      await tryton.change('purchase.product_supplier.create', [values], z.array(id).length(values.length), signal);
      return batch;
    },
    {
      signal,
      done: begun,
      findCreated: async (batch) => {
        const keys = batch.map(({ operation }) => operation.document.key);
        const found = await findPrices(tryton, keys, signal);
        return batch.map((task) => {
          const names = new Set(found.get(task.operation.document.key)?.map(({ name }) => name));
          return task.prices?.create.some(({ line }) => names.has(oneLine(line.lot))) ? task : undefined;
        });
      },
    },
  );
  await sendTasks(
    tasks.filter(({ prices }) => prices && prices.write.length > 0),
    async (batch) => {
      const writes = batch.flatMap((task) => (task.prices?.write ?? []).map((write) => ({ ...write, task })));
      const pairs = writes.flatMap(({ held, wanted, task }) => [[held.id], changesOf(held, wanted, task, data)]);
      const context = ifUnchanged(
        writes.flatMap(({ held }) => [
          ['purchase.product_supplier', held],
          ...held['prices.'].map((price): ReadRecord => ['purchase.product_supplier.price', price]),
        ]),
      );
      await tryton.change('purchase.product_supplier.write', pairs, z.unknown(), signal, context);
      return batch;
    },
    { signal, done: begun },
  );
}

function newPrice({ operation, supplier }: PriceTask, { line, product, unitPrice }: WantedLine, data: ReferenceData) {
  const { key, currency } = operation.document;
  return {
    template: product?.template,
    product: product?.id,
    party: supplier.id,
    company: data.company,
    currency: data.currency(currency),
    code: markerOf('award', key),
    name: oneLine(line.lot),
    prices: [['create', [{ quantity: 0, unit_price: decimalOf(unitPrice) }]]],
  };
}
