/** What to do with the quotation of a supplier's bids: its lines are told apart by the purchase request that they answer. */
import { ConflictError } from 'sourcing-bridge/connector';
import { type HeldLine, type HeldQuotation, type HeldRow, referenceOfQuotation } from './held-quotations.ts';
import type { WantedLine } from './lots.ts';
import type { Supplier } from './parties.ts';
import type { Bid } from './purchase-requests.ts';
import type { ReferenceData } from './reference-data.ts';
import type { Settings } from './settings.ts';
import type { Task } from './task.ts';
import { dateOf, decimalOf } from './values.ts';

export interface QuotationTask extends Task<'quotation'> {
  readonly supplier: Supplier;
  held: HeldQuotation | undefined;
  bids: readonly Bid[];
}

/** The one quotation that Tryton holds. Throws ConflictError where there are several. */
export function onlyOne(found: readonly HeldQuotation[]): HeldQuotation | undefined {
  if (found.length > 1)
    throw new ConflictError(
      `Tryton holds ${found.length} quotations for these bids (ids ${found.map(({ row }) => row.id).join(', ')}): cancel those that are not right.`,
    );
  return found[0];
}

export function planWithdrawal(task: QuotationTask): void {
  if (!task.held) return;
  const { state, number, id } = task.held.row;
  task.reference = referenceOfQuotation(id);
  task.action = 'cancel';
  task.steps.push(
    `${state === 'received' || state === 'rejected' ? 'Reject' : 'Cancel'} the quotation ${number ?? id}, which is ${state}.`,
  );
}

/** Decides what to do with the quotation, and says it in the plan's words. Throws DataError. */
export function planQuotation(
  task: QuotationTask,
  { settings, data }: { settings: Settings; data: ReferenceData },
): void {
  const { held, supplier, operation, bids, steps } = task;
  const { currency } = operation.document;
  // What Tryton does not have is told before anything is sent.
  const currencyId = data.currency(currency);
  const warehouse = data.warehouse(operation.document);
  const shown = ({ lot, quantity, unit, unitPrice }: WantedLine) =>
    `lot "${lot}", ${[quantity, ...(unit ? [unit.symbol] : [])].join(' ')} at ${unitPrice} ${currency}.`;
  const requested = () =>
    bids.flatMap(({ request, wanted }) =>
      request.id === undefined ? [`Make a purchase request for the lot "${wanted.lot}".`] : [],
    );
  if (!held) {
    task.action = 'create';
    steps.push(
      ...requested(),
      `Make a quotation (${settings.quotation_state}) of ${supplier.code} "${supplier.name}".`,
      ...bids.map(({ wanted }) => `Add a line: ${shown(wanted)}`),
    );
    return;
  }
  const { row } = held;
  task.reference = referenceOfQuotation(row.id);
  const changes = headChanges(task, row, data);
  if ('supplier' in changes) steps.push(`Change the supplier from ${row['supplier.'].name} to ${supplier.name}.`);
  if ('warehouse' in changes) steps.push(`Change the warehouse to ${data.warehouseName(warehouse ?? -1)}.`);
  steps.push(...requested());
  for (const { wanted, request } of bids) {
    const own = row['lines.'].find((line) => line.request === request.id);
    if (!own) steps.push(`Add a line: ${shown(wanted)}`);
    else if (Object.keys(lineChanges(own, wanted, currencyId)).length > 0)
      steps.push(`Change the line: ${shown(wanted)}`);
  }
  for (const { unit_price } of goneLines(row, bids))
    steps.push(`Remove the line of a lot without a bid, at ${unit_price ?? 'no price'}.`);
  if (held.attachment === undefined) steps.push('Attach to it what it is found again by.');
  if (stepsToState(row, settings).length > 0) steps.push(`Make it ${settings.quotation_state}.`);
  if (steps.length > 0) task.action = 'amend';
}

/** What leads to the state that is set, unless a user has taken it elsewhere. */
export function stepsToState(
  { state, number }: Pick<HeldRow, 'state' | 'number'>,
  { quotation_state: wanted }: Settings,
): readonly ('send' | 'receive')[] {
  if (state === 'draft' && number === null)
    return wanted === 'received' ? ['send', 'receive'] : wanted === 'sent' ? ['send'] : [];
  return state === 'sent' && wanted === 'received' ? ['receive'] : [];
}

export function newQuotation(task: QuotationTask, data: ReferenceData): Record<string, unknown> {
  const { supplier, operation, bids } = task;
  const currency = data.currency(operation.document.currency);
  return {
    supplier: supplier.id,
    supplier_address: supplier.address ?? null,
    company: data.company,
    warehouse: data.warehouse(operation.document),
    lines: [['create', bids.map((bid) => newLine(bid, currency))]],
  };
}

/** Fields that differ, with commands for the lines; none: nothing is to be written. */
export function quotationChanges(task: QuotationTask, row: HeldRow, data: ReferenceData): Record<string, unknown> {
  const currency = data.currency(task.operation.document.currency);
  const commands: unknown[] = [];
  const created: unknown[] = [];
  for (const bid of task.bids) {
    const own = row['lines.'].find(({ request }) => request === bid.request.id);
    const changes = own && lineChanges(own, bid.wanted, currency);
    if (!changes) created.push(newLine(bid, currency));
    else if (Object.keys(changes).length > 0) commands.push(['write', [own.id], changes]);
  }
  if (created.length > 0) commands.push(['create', created]);
  const gone = goneLines(row, task.bids).map(({ id }) => id);
  if (gone.length > 0) commands.push(['delete', gone]);
  return { ...headChanges(task, row, data), ...(commands.length === 0 ? {} : { lines: commands }) };
}

/** A warehouse that the mapping does not name is the users'. */
function headChanges(
  { supplier, operation: { document } }: QuotationTask,
  row: HeldRow,
  data: ReferenceData,
): Record<string, unknown> {
  const warehouse = data.warehouse(document);
  return {
    ...(row.supplier === supplier.id ? {} : { supplier: supplier.id, supplier_address: supplier.address ?? null }),
    ...(document.fields?.['warehouse'] === undefined || row.warehouse === warehouse ? {} : { warehouse }),
  };
}

function newLine({ wanted, request }: Bid, currency: number): Record<string, unknown> {
  return {
    request: request.id,
    quantity: wanted.quantity,
    unit: wanted.unit?.id ?? null,
    unit_price: decimalOf(wanted.unitPrice),
    currency,
    description: wanted.description,
    ...(wanted.date === undefined ? {} : { supply_date: dateOf(wanted.date) }),
  };
}

/** Fields that differ. */
function lineChanges(held: HeldLine, wanted: WantedLine, currency: number): Record<string, unknown> {
  const changes: Record<string, unknown> = {};
  if (held.quantity !== wanted.quantity) changes['quantity'] = wanted.quantity;
  if (held.unit !== (wanted.unit?.id ?? null)) changes['unit'] = wanted.unit?.id ?? null;
  if (held.unit_price !== wanted.unitPrice) changes['unit_price'] = decimalOf(wanted.unitPrice);
  if (held.currency !== currency) changes['currency'] = currency;
  if (held.description !== wanted.description) changes['description'] = wanted.description;
  if (wanted.date !== undefined && held.supply_date !== wanted.date) changes['supply_date'] = dateOf(wanted.date);
  return changes;
}

/** Those of lots that have no bid any more. */
function goneLines(row: HeldRow, bids: readonly Bid[]): readonly HeldLine[] {
  const wanted = new Set(bids.map(({ request }) => request.id));
  return row['lines.'].filter(({ request }) => !wanted.has(request));
}
