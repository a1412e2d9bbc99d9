/**
 * The prices that an award becomes: for each lot a supplier of its product (`purchase.product_supplier`) with the price
 * that was awarded, from a quantity of 0 on. They carry the award's marker as their code and the lot as their name; what
 * is no longer awarded is archived. Other prices of the same supplier and product are left alone.
 */
import { DataError, z } from 'sourcing-bridge/connector';
import type { WantedLine } from './lots.ts';
import { markerOf } from './markers.ts';
import type { Won } from './purchase-values.ts';
import type { ReferenceData } from './reference-data.ts';
import type { Tryton } from './rpc.ts';
import { sendTasks } from './send-batch.ts';
import type { Task } from './task.ts';
import { decimal, decimalOf, fieldNames, flag, id, ifUnchanged, oneLine, type Read, stamp, text } from './values.ts';

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
    _timestamp: stamp,
    'prices.': z.array(z.object({ id, quantity: z.number(), unit_price: decimal, _timestamp: stamp })),
  }),
);
const fields = fieldNames('code name active template product party currency _timestamp', {
  prices: 'quantity unit_price _timestamp',
});

export type HeldPrice = z.output<typeof rows>[number];

/** By key, also those that are archived. */
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

export function referenceOfPrices(key: string): string {
  return `purchase.product_supplier,code=${markerOf('award', key)}`;
}

export interface PriceTask extends Task<'award'>, Won {
  prices: PriceStep | undefined;
}

interface PriceStep {
  readonly create: readonly WantedLine[];
  readonly write: readonly { readonly held: HeldPrice; readonly wanted: WantedLine | undefined }[];
}

/** Decides what to do with the prices, and says it in the plan's words. Throws DataError. */
export function planPrices(task: PriceTask, held: readonly HeldPrice[], data: ReferenceData): void {
  const { operation, supplier, steps } = task;
  const { currency } = operation.document;
  const create: WantedLine[] = [];
  const write: PriceStep['write'][number][] = [];
  const left = new Set(held);
  const lines = operation.action === 'cancel' ? [] : task.lines;
  // What Tryton does not have is told before anything is sent.
  if (lines.length > 0) data.currency(currency);
  for (const wanted of lines) {
    checkPriced(wanted);
    const own = held.find((one) => one.name === oneLine(wanted.line.lot) && left.has(one));
    const of = `the price of ${supplier.code} for ${wanted.product?.code}, lot "${wanted.lot}"`;
    if (!own) {
      create.push(wanted);
      steps.push(`Add ${of}: ${wanted.unitPrice} ${currency}.`);
      continue;
    }
    left.delete(own);
    if (Object.keys(changesOf(own, wanted, task, data)).length === 0) continue;
    write.push({ held: own, wanted });
    steps.push(`Change ${of}, from ${ownPrice(own)?.unit_price ?? 'none'} to ${wanted.unitPrice} ${currency}.`);
  }
  for (const gone of left) {
    if (!gone.active) continue;
    write.push({ held: gone, wanted: undefined });
    steps.push(`Archive the price of ${supplier.code} for the lot "${gone.name}".`);
  }
  if (create.length + write.length > 0) task.prices = { create, write };
}

/** A price of Tryton's is for a product, and for one of its purchase unit. */
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

/** `wanted`: undefined where the lot is no longer awarded. */
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

/** New ones in one call, changes in another. */
export async function sendPrices(
  tasks: readonly PriceTask[],
  { tryton, data }: { tryton: Tryton; data: ReferenceData },
  signal: AbortSignal,
): Promise<void> {
  await sendTasks(
    tasks.filter(({ prices }) => prices && prices.create.length > 0),
    async (some) => {
      const values = some.flatMap((task) => (task.prices?.create ?? []).map((wanted) => newPrice(task, wanted, data)));
      await tryton.change('purchase.product_supplier.create', [values], z.array(id).length(values.length), signal);
      return some;
    },
    {
      signal,
      findMade: async (some) => {
        const keys = some.map(({ operation }) => operation.document.key);
        const found = await findPrices(tryton, keys, signal);
        return some.map((task) => {
          const names = new Set(found.get(task.operation.document.key)?.map(({ name }) => name));
          return task.prices?.create.some(({ line }) => names.has(oneLine(line.lot))) ? task : undefined;
        });
      },
    },
  );
  await sendTasks(
    tasks.filter(({ prices }) => prices && prices.write.length > 0),
    async (some) => {
      const writes = some.flatMap((task) => (task.prices?.write ?? []).map((one) => ({ ...one, task })));
      const pairs = writes.flatMap(({ held, wanted, task }) => [[held.id], changesOf(held, wanted, task, data)]);
      const context = ifUnchanged(
        writes.flatMap(({ held }) => [
          ['purchase.product_supplier', held],
          ...held['prices.'].map((price): Read => ['purchase.product_supplier.price', price]),
        ]),
      );
      await tryton.change('purchase.product_supplier.write', pairs, z.unknown(), signal, context);
      return some;
    },
    { signal },
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
