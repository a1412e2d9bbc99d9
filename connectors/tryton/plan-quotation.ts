/**
 * Decides what to do with the quotation of a supplier's bids. A line belongs to a lot if it answers the lot's purchase
 * request.
 */
import { ConflictError, type Task } from 'sourcing-bridge/connector';
import {
  type HeldQuotation,
  type QuotationLineRow,
  type QuotationRow,
  referenceOfQuotation,
} from './held-quotations.ts';
import type { WantedLine } from './lots.ts';
import type { Supplier } from './parties.ts';
import type { Bid } from './purchase-requests.ts';
import type { ReferenceData } from './reference-data.ts';
import type { Settings } from './settings.ts';
import { dateOf, decimalOf } from './values.ts';

export interface QuotationTask extends Task<'quotation'> {
  readonly supplier: Supplier;
  held: HeldQuotation | undefined;
  bids: readonly Bid[];
}

/** The only quotation that Tryton holds; undefined if there is none. Throws ConflictError if there are several. */
export function singleQuotation(found: readonly HeldQuotation[]): HeldQuotation | undefined {
  if (found.length > 1)
    throw new ConflictError(
      `Tryton holds ${found.length} quotations for these bids (ids ${found.map(({ row }) => row.id).join(', ')}): cancel the wrong ones.`,
    );
  return found[0];
}

/** Plans the end of a quotation whose bids were withdrawn. */
export function planWithdrawal(task: QuotationTask): void {
  if (!task.held) return;
  const { state, number, id } = task.held.row;
  task.reference = referenceOfQuotation(id);
  task.action = 'cancel';
  task.steps.push(
    `${state === 'received' || state === 'rejected' ? 'Reject' : 'Cancel'} the quotation ${number ?? id}, which is ${state}.`,
  );
}

/** Sets the task's action and adds the plan's sentences. Throws DataError for what Tryton does not have. */
export function planQuotation(
  task: QuotationTask,
  { settings, data }: { settings: Settings; data: ReferenceData },
): void {
  const { held, supplier, operation, bids, steps } = task;
  const { currency } = operation.document;
  // Throws, before anything is sent, for a currency or warehouse that Tryton does not have.
  const currencyId = data.currency(currency);
  const warehouse = data.warehouse(operation.document);
  const lineText = ({ lot, quantity, unit, unitPrice }: WantedLine) =>
    `lot "${lot}", ${[quantity, ...(unit ? [unit.symbol] : [])].join(' ')} at ${unitPrice} ${currency}.`;
  const requestSteps = () =>
    bids.flatMap(({ request, wanted }) =>
      request.id === undefined ? [`Make a purchase request for the lot "${wanted.lot}".`] : [],
    );
  if (!held) {
    task.action = 'create';
    steps.push(
      ...requestSteps(),
      `Make a quotation (${settings.quotation_state}) of ${supplier.code} "${supplier.name}".`,
      ...bids.map(({ wanted }) => `Add a line: ${lineText(wanted)}`),
    );
    return;
  }
  const { row } = held;
  task.reference = referenceOfQuotation(row.id);
  const changes = headChanges(task, row, data);
  if ('supplier' in changes) steps.push(`Change the supplier from ${row['supplier.'].name} to ${supplier.name}.`);
  if ('warehouse' in changes) steps.push(`Change the warehouse to ${data.warehouseName(warehouse ?? -1)}.`);
  steps.push(...requestSteps());
  for (const { wanted, request } of bids) {
    const own = row['lines.'].find((line) => line.request === request.id);
    if (!own) steps.push(`Add a line: ${lineText(wanted)}`);
    else if (Object.keys(lineChanges(own, wanted, currencyId)).length > 0)
      steps.push(`Change the line: ${lineText(wanted)}`);
  }
  for (const { unit_price } of goneLines(row, bids))
    steps.push(`Remove the line of a lot without a bid, at ${unit_price ?? 'no price'}.`);
  if (held.attachment === undefined) steps.push('Attach the marker by which the bridge finds the quotation.');
  if (stepsToState(row, settings).length > 0) steps.push(`Make it ${settings.quotation_state}.`);
  if (steps.length > 0) task.action = 'amend';
}

/** The workflow steps to the state of the settings; none if a user has moved the quotation to another state. */
export function stepsToState(
  { state, number }: Pick<QuotationRow, 'state' | 'number'>,
  { quotation_state: wanted }: Settings,
): readonly ('send' | 'receive')[] {
  if (state === 'draft' && number === null)
    return wanted === 'received' ? ['send', 'receive'] : wanted === 'sent' ? ['send'] : [];
  return state === 'sent' && wanted === 'received' ? ['receive'] : [];
}

/** The values of a new quotation, without its reference. */
export function newQuotation(task: QuotationTask, data: ReferenceData): Record<string, unknown> {
  const { supplier, operation, bids } = task;
  const currency = data.currency(operation.document.currency);
  return {
    supplier: supplier.id,
    supplier_address: supplier.address ?? null,
    company: data.company,
    warehouse: data.warehouse(operation.document),
    lines: [['create', bids.map((bid) => newQuotationLine(bid, currency))]],
  };
}

/** The fields that differ, with commands for the lines. Empty: there is nothing to write. */
export function quotationChanges(task: QuotationTask, row: QuotationRow, data: ReferenceData): Record<string, unknown> {
  const currency = data.currency(task.operation.document.currency);
  const commands: unknown[] = [];
  const created: unknown[] = [];
  for (const bid of task.bids) {
    const own = row['lines.'].find(({ request }) => request === bid.request.id);
    const changes = own && lineChanges(own, bid.wanted, currency);
    if (!changes) created.push(newQuotationLine(bid, currency));
    else if (Object.keys(changes).length > 0) commands.push(['write', [own.id], changes]);
  }
  if (created.length > 0) commands.push(['create', created]);
  const gone = goneLines(row, task.bids).map(({ id }) => id);
  if (gone.length > 0) commands.push(['delete', gone]);
  return { ...headChanges(task, row, data), ...(commands.length === 0 ? {} : { lines: commands }) };
}

/** Leaves the warehouse to users unless the mapping names one. */
function headChanges(
  { supplier, operation: { document } }: QuotationTask,
  row: QuotationRow,
  data: ReferenceData,
): Record<string, unknown> {
  const warehouse = data.warehouse(document);
  return {
    ...(row.supplier === supplier.id ? {} : { supplier: supplier.id, supplier_address: supplier.address ?? null }),
    ...(document.fields?.['warehouse'] === undefined || row.warehouse === warehouse ? {} : { warehouse }),
  };
}

function newQuotationLine({ wanted, request }: Bid, currency: number): Record<string, unknown> {
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

/** The fields of the line that differ. */
function lineChanges(held: QuotationLineRow, wanted: WantedLine, currency: number): Record<string, unknown> {
  const changes: Record<string, unknown> = {};
  if (held.quantity !== wanted.quantity) changes['quantity'] = wanted.quantity;
  if (held.unit !== (wanted.unit?.id ?? null)) changes['unit'] = wanted.unit?.id ?? null;
  if (held.unit_price !== wanted.unitPrice) changes['unit_price'] = decimalOf(wanted.unitPrice);
  if (held.currency !== currency) changes['currency'] = currency;
  if (held.description !== wanted.description) changes['description'] = wanted.description;
  if (wanted.date !== undefined && held.supply_date !== wanted.date) changes['supply_date'] = dateOf(wanted.date);
  return changes;
}

/** The lines of lots that have no bid any more. */
function goneLines(row: QuotationRow, bids: readonly Bid[]): readonly QuotationLineRow[] {
  const wanted = new Set(bids.map(({ request }) => request.id));
  return row['lines.'].filter(({ request }) => !wanted.has(request));
}
