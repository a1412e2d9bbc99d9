/**
 * Awards as prices in the vendor's pricelist (`product.supplierinfo`): one for each lot's product, from a quantity of 0
 * on. Each has an external id whose beginning names the award; a price of a lot that is no longer awarded is deleted.
 * Other prices of the same vendor and product are left alone.
 */
import {
  type AwardDocument,
  asConnectorError,
  ConflictError,
  DataError,
  decide,
  dueOf,
  type Found,
  type Kind,
  newTask,
  type Task,
  z,
} from 'sourcing-bridge/connector';
import { documentPrefix, markerOf, partId } from './external-ids.ts';
import { withExternalIds } from './held-orders.ts';
import { type LoadRecord, loadRecords, removeRecords } from './load.ts';
import { checkFields, orderFields, type WantedLine, wantedLines } from './lots.ts';
import { partlyDone } from './odoo.ts';
import { type OrderDeps, readNamed } from './read-named.ts';
import { fieldsOf, id, number, odooDay, plainOf, relation, text } from './values.ts';
import { codeOf, noVendor, readPartners, type Vendor } from './vendors.ts';

const model = 'product.supplierinfo';
const rowsForm = z.array(
  z.object({
    id,
    partner_id: relation,
    product_id: relation,
    product_tmpl_id: relation,
    product_uom_id: relation,
    price: number,
    discount: number,
    currency_id: relation,
    date_start: text,
    date_end: text,
  }),
);
const rowFields = fieldsOf(rowsForm);

type HeldPrice = z.output<typeof rowsForm>[number] & { readonly externalId: string };

interface PriceTask extends Task<'award'> {
  vendor: Vendor;
  /** The prices to load. */
  changed: readonly WantedLine[];
  gone: readonly HeldPrice[];
  currency: number;
  days: Readonly<Record<string, string>>;
}

/** Stands for all prices of an award. */
const referenceOf = (key: string) => `${model}/${markerOf('price', key)}`;

export function createPricelists(deps: OrderDeps): Kind<'award'> {
  const { odoo, settings, vendors } = deps;

  /** The prices of each award, by its key. They are found by their vendors, archived ones included. */
  async function find(documents: readonly AwardDocument[], signal: AbortSignal) {
    const partners = await readPartners(
      odoo,
      documents.map(({ supplier }) => codeOf(supplier)),
      signal,
    );
    const ofVendors = [...partners.values()].flat().map((partner) => partner.id);
    const isKnown = ({ supplier }: AwardDocument) => partners.has(codeOf(supplier));
    if (ofVendors.length === 0) return { of: (): HeldPrice[] => [], isKnown };
    const domain = [['partner_id', 'in', ofVendors]];
    const rows = await odoo.ask(model, 'search_read', { domain, fields: rowFields, order: 'id asc' }, rowsForm, signal);
    const prices: HeldPrice[] = await withExternalIds(odoo, model, rows, signal);
    const of = (key: string) => prices.filter(({ externalId }) => externalId.startsWith(documentPrefix('price', key)));
    return { of, isKnown };
  }

  function recordOf({ operation, vendor, currency, days }: PriceTask, line: WantedLine): LoadRecord {
    return {
      cells: {
        id: partId('price', operation.document.key, line.lot),
        'partner_id/.id': String(vendor.id ?? ''),
        'product_tmpl_id/.id': String(line.product?.template ?? ''),
        'product_id/.id': String(line.product?.id ?? ''),
        'product_uom_id/.id': String(line.unit?.id ?? ''),
        min_qty: '0',
        price: line.price,
        discount: '0',
        'currency_id/.id': String(currency),
        ...days,
      },
    };
  }

  async function send(tasks: readonly PriceTask[], signal: AbortSignal): Promise<void> {
    await vendors.createMissing(
      tasks.filter(({ changed }) => changed.length > 0),
      signal,
    );
    const all = dueOf(tasks).flatMap((task) => task.changed.map((line) => ({ task, record: recordOf(task, line) })));
    const results = await loadRecords(
      odoo,
      model,
      all.map(({ record }) => record),
      signal,
    );
    for (const [index, { task }] of all.entries()) {
      const result = results[index];
      if (typeof result === 'number') task.isBegun = true;
      else task.error ??= result;
    }
    const gone = dueOf(tasks)
      .filter((task) => task.gone.length > 0)
      .map((task) => ({ task, ids: task.gone.map((price) => price.id) }));
    await removeRecords(odoo, model, gone, signal);
    await readEffect(tasks, signal);
  }

  /** Reads the prices back: a rule of another module may have changed them. */
  async function readEffect(tasks: readonly PriceTask[], signal: AbortSignal): Promise<void> {
    const written = dueOf(tasks).filter(({ changed }) => changed.length > 0);
    if (written.length === 0) return;
    try {
      const documents = written.map(({ operation }) => operation.document);
      const prices = await find(documents, signal);
      for (const task of written) {
        const wrong = task.changed.find((line) => !isHeld(line, task, prices.of(task.operation.document.key)));
        if (wrong)
          task.error = new DataError(
            `Odoo took the price of "${wrong.lot}" and changed it: look for an automation or a module that does so, and replay.`,
          );
      }
    } catch (error) {
      for (const task of written) task.error = partlyDone(asConnectorError(error), 'reading the prices back');
    }
  }

  return {
    async plan(operations, signal) {
      const documents = operations.map(({ document }) => document);
      const { needed, vendorOf, data } = await readNamed(deps, operations, signal);
      const prices = await find(documents, signal);
      const tasks = operations.map((operation) => {
        const { document } = needed(operation.document);
        const { action } = operation;
        const own: PriceTask = {
          ...newTask(operation),
          reference: referenceOf(document.key),
          vendor: noVendor,
          changed: [],
          gone: [],
          currency: 0,
          days: {},
        };
        return decide(own, (task) => {
          const held = prices.of(document.key);
          if (action === 'cancel') {
            if (operation.reference !== undefined && !prices.isKnown(document))
              throw new ConflictError(
                `The document was withdrawn, but Odoo has no contact with the reference "${codeOf(document.supplier)}" any more, and its prices were not found: give the contact this reference again and replay, or delete the prices there.`,
              );
            task.gone = held;
            if (held.length > 0) task.action = 'cancel';
            task.steps.push(...held.map(deletion));
            return;
          }
          task.vendor = vendorOf(document.supplier);
          checkFields(document.fields, orderFields, 'orders');
          task.currency = data.currency(document.currency);
          task.days = daysOf(document.fields);
          const wanted = wantedLines(document, { data, settings });
          const bare = wanted.find(({ product }) => !product);
          if (bare) throw new DataError(`Lot "${bare.lot}" has no product, which a price needs.`);
          task.changed = wanted.filter((line) => !isHeld(line, task, held));
          const names = new Set(wanted.map(({ lot }) => partId('price', document.key, lot)));
          task.gone = held.filter(({ externalId }) => !names.has(externalId));
          if (task.changed.length + task.gone.length === 0) return;
          task.action = held.length === 0 ? 'create' : 'amend';
          vendors.planMissing(task.vendor, task.steps);
          task.steps.push(
            ...task.changed.map(
              ({ lot, price, unit }) =>
                `Set the price of "${lot}" to ${price} ${document.currency}${unit ? ` for one ${unit.name}` : ''}.`,
            ),
            ...task.gone.map(deletion),
          );
        });
      });
      return { tasks, send: (signal) => send(tasks, signal) };
    },
    async lookup(documents, signal) {
      const prices = await find(documents, signal);
      return documents.flatMap(({ key }): Found[] =>
        prices.of(key).length > 0 ? [{ key, reference: referenceOf(key), contentHash: undefined }] : [],
      );
    },
  };
}

function deletion({ product_id, product_tmpl_id, price }: HeldPrice): string {
  return `Delete the price ${plainOf(price)} of "${(product_id ?? product_tmpl_id)?.name ?? ''}".`;
}

function daysOf(fields: Readonly<Record<string, string>> = {}): Record<string, string> {
  return Object.fromEntries(
    ['date_start', 'date_end'].flatMap((name) =>
      fields[name] === undefined ? [] : [[name, odooDay(fields[name], `The field ${name}`)]],
    ),
  );
}

function isHeld(
  line: WantedLine,
  { operation, vendor, currency, days }: PriceTask,
  held: readonly HeldPrice[],
): boolean {
  const name = partId('price', operation.document.key, line.lot);
  const own = held.find(({ externalId }) => externalId === name);
  return (
    own !== undefined &&
    own.partner_id?.id === vendor.id &&
    own.product_id?.id === line.product?.id &&
    own.product_uom_id?.id === line.unit?.id &&
    own.price === Number(line.price) &&
    own.discount === 0 &&
    own.currency_id?.id === currency &&
    Object.entries(days).every(([field, day]) => own[field as 'date_start'] === day)
  );
}
