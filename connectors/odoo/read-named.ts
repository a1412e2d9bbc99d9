/** What documents with lines name, and Odoo has: their vendors, products, units and currencies, and needs of Odoo. */
import type { Operation } from 'sourcing-bridge/connector';
import { productNameOf } from './lots.ts';
import { readNeeds } from './needs.ts';
import type { Odoo } from './odoo.ts';
import type { OrderDocument } from './order-task.ts';
import type { ReadReferenceData } from './reference-data.ts';
import type { Settings } from './settings.ts';
import type { Vendors } from './vendors.ts';

export interface OrderDeps {
  readonly odoo: Odoo;
  readonly settings: Settings;
  readonly vendors: Vendors;
  readonly readReferenceData: ReadReferenceData;
}

/** Of withdrawn documents nothing is read. */
export async function readNamed(
  { odoo, settings, vendors, readReferenceData }: OrderDeps,
  operations: readonly { readonly action: Operation['action']; readonly document: OrderDocument }[],
  signal: AbortSignal,
) {
  const given = operations.filter(({ action }) => action !== 'cancel').map(({ document }) => document);
  const needed = await readNeeds(odoo, given, signal);
  const suppliers = given.map(({ supplier }) => supplier);
  const vendorOf = await vendors.find(suppliers, signal);
  const products = given.flatMap((document) =>
    needed(document).document.lines.flatMap((line) => productNameOf(line, settings) ?? []),
  );
  return { needed, vendorOf, data: await readReferenceData(products, signal) };
}
