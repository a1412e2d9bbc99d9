/**
 * The prices that an award becomes: for each lot a supplier of its product (`purchase.product_supplier`) with the price
 * that was awarded, from a quantity of 0 on. They carry the award's marker as their code and the lot as their name; what
 * is no longer awarded is archived. Other prices of the same supplier and product are left alone.
 */
import { DataError, type Operation, z } from 'sourcing-bridge/connector';
import { markerOf, type Prepared, sendAll } from './batch.ts';
import type { Supplier } from './parties.ts';
import type { WantedLine } from './purchase-lines.ts';
import type { ReferenceData } from './reference-data.ts';
import type { Tryton } from './rpc.ts';
import { decimal, decimalOf, fieldNames, flag, id, oneLine, text } from './values.ts';

const stamp = z.union([z.string(), z.number()]).nullable();
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

export interface PriceTask {
  readonly operation: Operation<'award'>;
  readonly prepared: Prepared;
  readonly supplier: Supplier;
  readonly lines: readonly WantedLine[];
  prices?: PriceStep;
}

interface PriceStep {
  readonly create: readonly WantedLine[];
  readonly write: readonly { readonly held: HeldPrice; readonly values: Record<string, unknown> }[];
}

/** Decides what to do with the prices, and says it in the plan's words. Throws DataError. */
export function preparePrices(task: PriceTask, held: readonly HeldPrice[], data: ReferenceData): void {
  const { operation, prepared, supplier } = task;
  const wanted = operation.action === 'cancel' ? [] : task.lines;
  const create: WantedLine[] = [];
  const write: PriceStep['write'][number][] = [];
  const left = new Set(held);
  const currency = wanted.length === 0 ? 0 : data.currency(operation.document.currency);
  for (const line of wanted) {
    checkPriced(line);
    const own = held.find((one) => one.name === oneLine(line.lot) && left.has(one));
    if (!own) {
      create.push(line);
      prepared.steps.push(
        `Add the price of ${supplier.code} for ${line.product?.code}, lot "${line.lot}": ${line.unitPrice} ${operation.document.currency}.`,
      );
      continue;
    }
    left.delete(own);
    const values = changesOf(own, line, { currency, party: supplier.id ?? -1 });
    if (Object.keys(values).length === 0) continue;
    write.push({ held: own, values });
    const before = ownPrice(own)?.unit_price ?? 'none';
    prepared.steps.push(
      `Change the price of ${supplier.code} for ${line.product?.code}, lot "${line.lot}", from ${before} to ${line.unitPrice} ${operation.document.currency}.`,
    );
  }
  for (const gone of left) {
    if (!gone.active) continue;
    write.push({ held: gone, values: { active: false } });
    prepared.steps.push(`Archive the price of ${supplier.code} for the lot "${gone.name}".`);
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

function changesOf(
  held: HeldPrice,
  { product, unitPrice }: WantedLine,
  to: { currency: number; party: number },
): Record<string, unknown> {
  const changes: Record<string, unknown> = {};
  if (!held.active) changes['active'] = true;
  if (held.currency !== to.currency) changes['currency'] = to.currency;
  if (held.party !== to.party) changes['party'] = to.party;
  if (product && held.product !== product.id)
    Object.assign(changes, { product: product.id, template: product.template });
  const price = ownPrice(held);
  if (price === undefined) changes['prices'] = [['create', [{ quantity: 0, unit_price: decimalOf(unitPrice) }]]];
  else if (price.unit_price !== unitPrice)
    changes['prices'] = [['write', [price.id], { unit_price: decimalOf(unitPrice) }]];
  return changes;
}

/** New ones in one call, changes in another. */
export async function writePrices(
  tasks: readonly PriceTask[],
  { tryton, data }: { tryton: Tryton; data: ReferenceData },
  signal: AbortSignal,
): Promise<void> {
  const done = () => undefined;
  await sendAll(
    tasks.filter(({ prices }) => prices && prices.create.length > 0),
    async (some) => {
      const values = some.flatMap(({ operation, supplier, prices }) =>
        (prices?.create ?? []).map(({ lot, product, unitPrice }) => ({
          template: product?.template,
          product: product?.id,
          party: supplier.id,
          company: data.company,
          currency: data.currency(operation.document.currency),
          code: markerOf('award', operation.document.key),
          name: oneLine(lot),
          prices: [['create', [{ quantity: 0, unit_price: decimalOf(unitPrice) }]]],
        })),
      );
      await tryton.change('purchase.product_supplier.create', [values], z.array(id).length(values.length), signal);
      return some;
    },
    signal,
    done,
    async (some) => {
      const keys = some.map(({ operation }) => operation.document.key);
      const found = await findPrices(tryton, keys, signal);
      return some.map((task) => {
        const held = found.get(task.operation.document.key) ?? [];
        return task.prices?.create.some(({ lot }) => held.some(({ name }) => name === oneLine(lot))) ? task : undefined;
      });
    },
  );
  await sendAll(
    tasks.filter(({ prices }) => prices && prices.write.length > 0),
    async (some) => {
      const writes = some.flatMap(({ prices }) => prices?.write ?? []);
      const timestamps = Object.fromEntries(
        writes.flatMap(({ held }) => [
          [`purchase.product_supplier,${held.id}`, String(held._timestamp)],
          ...held['prices.'].map((price) => [`purchase.product_supplier.price,${price.id}`, String(price._timestamp)]),
        ]),
      );
      const pairs = writes.flatMap(({ held, values }) => [[held.id], values]);
      await tryton.change('purchase.product_supplier.write', pairs, z.unknown(), signal, { _timestamp: timestamps });
      return some;
    },
    signal,
    done,
  );
}
