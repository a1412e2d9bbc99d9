/** What to do with the purchase of an award: make, amend or cancel it, or tell why none of this is possible. */
import { ConflictError, DataError, type Operation } from 'sourcing-bridge/connector';
import { markerOf, type Prepared } from './batch.ts';
import { compareLines } from './compare-lines.ts';
import { merge, type Values } from './merge.ts';
import { lineValues } from './order-lines.ts';
import type { Supplier } from './parties.ts';
import type { WantedLine } from './purchase-lines.ts';
import { nameOf, shownConflict, shownField, shownLine, shownValue } from './purchase-words.ts';
import {
  type HeldPurchase,
  type HeldRow,
  isLive,
  isUnfinished,
  openStates,
  referenceOfPurchase,
  type Written,
} from './purchases.ts';
import type { ReferenceData } from './reference-data.ts';
import type { Tryton } from './rpc.ts';
import type { Settings } from './settings.ts';
import { dateOf, isDate, oneLine, type Value } from './values.ts';

export interface PurchaseTask {
  readonly operation: Operation<'award'>;
  readonly prepared: Prepared;
  readonly supplier: Supplier;
  readonly lines: readonly WantedLine[];
  purchase?: PurchaseStep;
}

export type PurchaseStep =
  | { readonly do: 'create'; readonly head: Values }
  | { readonly do: 'cancel'; readonly held: HeldPurchase }
  | {
      readonly do: 'write';
      readonly held: HeldPurchase;
      readonly changes: Readonly<Record<string, unknown>>;
      readonly record: Written;
      readonly quote: boolean;
    };

export interface Tools {
  readonly tryton: Tryton;
  readonly settings: Settings;
  readonly data: ReferenceData;
}

/** Decides what to do with the purchase, and says it in the plan's words. Throws ConflictError or DataError. */
export function preparePurchase(task: PurchaseTask, found: readonly HeldPurchase[], tools: Tools): void {
  const { operation, prepared, supplier } = task;
  const live = found.filter(isLive);
  const [held] = live;
  if (live.length > 1)
    throw new ConflictError(
      `Tryton holds ${live.length} purchases for this award (${live.map(({ row }) => nameOf(row)).join(', ')}): cancel or delete those that are not right.`,
    );
  if (held) prepared.reference = referenceOfPurchase(held.row.id);
  if (operation.action === 'cancel') {
    if (!held) return;
    if (!openStates.has(held.row.state))
      throw new ConflictError(
        `Nothing is awarded any more, but ${nameOf(held.row)} is ${held.row.state} in Tryton and was not changed: cancel it there.`,
      );
    task.purchase = { do: 'cancel', held };
    prepared.action = 'cancel';
    prepared.steps.push(`Cancel ${nameOf(held.row)}, which is a ${held.row.state}.`);
    return;
  }
  if (!held) {
    const cancelled = found.find(({ written }) => written !== undefined && !written.withdrawn);
    if (cancelled)
      throw new ConflictError(
        `${nameOf(cancelled.row)} was cancelled in Tryton, and the award stands: set it back to draft there and replay, or delete it and replay.`,
      );
    task.purchase = { do: 'create', head: headOf(task, tools.data) };
    prepared.action = 'create';
    prepared.steps.push(
      `Make a purchase (${tools.settings.purchase_state}) from ${supplier.code} "${supplier.name}" in ${operation.document.currency}.`,
      ...task.lines.map((line) => `Add a line: ${shownLine(line)}.`),
    );
    return;
  }
  prepareAmend(task, held, tools);
}

function prepareAmend(task: PurchaseTask, held: HeldPurchase, tools: Tools): void {
  const { operation, prepared, supplier } = task;
  const { row, written } = held;
  const head = headOf(task, tools.data);
  const record = recordOf(task, head);
  const steps: string[] = [];
  const conflicts: string[] = [];

  const heldHead: Values = { ...pick(row), party: row.party };
  const mergedHead = merge(heldHead, written?.head, { ...head, party: supplier.id ?? -1 });
  const changes: Record<string, unknown> = {};
  for (const { field, held: now, wanted } of mergedHead.changes) {
    changes[field] = encoded(field, wanted);
    if (field === 'party') changes['invoice_address'] = supplier.address ?? null;
    steps.push(`Change the ${shownField(field)} from ${shownValue(now)} to ${shownValue(wanted)}.`);
  }
  for (const one of mergedHead.conflicts) conflicts.push(shownConflict(one));

  const lines = compareLines(task, held);
  steps.push(...lines.steps);
  conflicts.push(...lines.conflicts);

  if (!openStates.has(row.state) && steps.length + conflicts.length > 0)
    throw new ConflictError(
      `${nameOf(row)} is ${row.state} in Tryton and was not changed. What the award asks for: ${[...steps, ...conflicts].join(' ')} Make the change there.`,
    );
  if (conflicts.length > 0)
    throw new ConflictError(
      `${nameOf(row)} was edited in Tryton where the award has changed, too, and was not changed: ${conflicts.join(' ')} Set it to what the award says, or back, and replay.`,
    );
  if (openStates.has(row.state) && lines.commands.length > 0) changes['lines'] = lines.commands;
  const quote = isUnfinished(row, tools.settings);
  if (quote) steps.push('Make it a quotation.');
  const isRecorded = written?.content_hash === operation.contentHash && !written.withdrawn;
  if (steps.length === 0 && isRecorded) return;
  prepared.action = 'amend';
  prepared.steps.push(
    ...(steps.length === 0
      ? [`Note at ${nameOf(row)} that it holds the newest award.`]
      : [`Amend ${nameOf(row)}.`, ...steps]),
  );
  task.purchase = { do: 'write', held, changes, record, quote };
}

function headOf({ operation, supplier }: PurchaseTask, data: ReferenceData): Values {
  const { document } = operation;
  const { fields = {} } = document;
  const head: Record<string, Value> = {
    party: supplier.id ?? -1,
    currency: data.currency(document.currency),
    warehouse:
      (fields['warehouse'] === undefined ? data.defaultWarehouse : data.warehouse(fields['warehouse'])) ?? null,
    reference: fields['reference'] === undefined ? markerOf('award', document.key) : oneLine(fields['reference']),
    description: oneLine(fields['description'] ?? document.event.name),
  };
  for (const name of ['purchase_date', 'delivery_date']) {
    const value = fields[name];
    if (value === undefined) continue;
    if (!isDate(value)) throw new DataError(`The field ${name} is "${value}" and not a date as 2030-12-31.`);
    head[name] = value;
  }
  if (fields['comment'] !== undefined) head['comment'] = fields['comment'];
  return head;
}

export function recordOf({ operation, lines }: PurchaseTask, head: Values): Written {
  return {
    content_hash: operation.contentHash,
    head: { ...head },
    lines: Object.fromEntries(lines.map((line) => [line.lot, { ...lineValues(line) }])),
  };
}

function pick(row: HeldRow): Values {
  const { currency, warehouse, reference, description, comment, purchase_date, delivery_date } = row;
  return { currency, warehouse, reference, description, comment, purchase_date, delivery_date };
}

export function encoded(field: string, value: Value): unknown {
  return field.endsWith('_date') && typeof value === 'string' ? dateOf(value) : value;
}
