/**
 * Decides what to do with the purchase of an award: create, amend or cancel it, or fail with the reason why none of
 * this is possible. It compares what Tryton holds with what was written last and with what is wanted, field by field
 * and lot by lot, so that users' edits and additions stay.
 */
import { type AwardLine, ConflictError, type Task } from 'sourcing-bridge/connector';
import {
  dueSteps,
  type HeldPurchase,
  isLive,
  type LastWritten,
  openPurchaseStates,
  type PurchaseLine,
  type PurchaseRow,
  referenceOfPurchase,
} from './held-purchases.ts';
import { lotName, type WantedLine } from './lots.ts';
import { type FieldValues, merge } from './merge.ts';
import {
  fieldText,
  heldLineText,
  heldLineValueText,
  heldValueText,
  purchaseName,
  wantedLineText,
  wantedLineValueText,
  wantedValueText,
} from './purchase-texts.ts';
import {
  amendedNote,
  encodedLine,
  headValues,
  heldHeadValues,
  heldLineValues,
  lineValues,
  lotInNote,
  newPurchaseLine,
  type SupplierAward,
} from './purchase-values.ts';
import type { ReferenceData } from './reference-data.ts';
import { type HeldRequisitions, planLinks, type RequisitionNeed } from './requisition-requests.ts';
import type { Settings } from './settings.ts';

export interface PurchaseTask extends Task<'award'>, SupplierAward {
  purchase: PurchaseStep | undefined;
  /** The lots that were made of requisitions of this Tryton. */
  needs: readonly RequisitionNeed[];
}

type PurchaseStep =
  | { readonly do: 'create' }
  | { readonly do: 'cancel'; readonly held: HeldPurchase }
  | {
      readonly do: 'write';
      readonly held: HeldPurchase;
      /** The fields of the purchase itself that change. */
      readonly fields: readonly string[];
      /** Tryton's commands for the lines of the purchase. */
      readonly lines: readonly unknown[];
      /** Whether to make it a draft first: Tryton deletes lines of drafts only. */
      readonly toDraft: boolean;
      /** The steps of Tryton's workflow afterwards. */
      readonly workflow: readonly ('quote' | 'confirm')[];
    };

interface PlanContext {
  readonly settings: Settings;
  readonly data: ReferenceData;
  readonly requisitions: HeldRequisitions;
  /** The numbers of requisitions that are bought as a whole, and that Tryton shows as open. */
  readonly bought: ReadonlySet<string>;
}

/**
 * Sets the task's `purchase` step and adds the plan's sentences. Throws ConflictError if a user's decision or edit
 * contradicts the award, DataError if Tryton would refuse a value.
 */
export function planPurchase(task: PurchaseTask, found: readonly HeldPurchase[], context: PlanContext): void {
  const live = found.filter(isLive);
  const [held] = live;
  if (live.length > 1)
    throw new ConflictError(
      `Tryton holds ${live.length} purchases for this award (${live.map(({ row }) => purchaseName(row)).join(', ')}): cancel or delete the wrong ones.`,
    );
  if (held) task.reference = referenceOfPurchase(held.row.id);
  if (task.operation.action === 'cancel') planCancel(task, held);
  else if (held) planAmend(task, held, context);
  else planCreate(task, found, context);
}

function planCancel(task: PurchaseTask, held: HeldPurchase | undefined): void {
  if (!held) return;
  if (!openPurchaseStates.has(held.row.state))
    throw new ConflictError(
      `The award was withdrawn, but ${purchaseName(held.row)} is ${held.row.state} in Tryton and was not changed: cancel it there.`,
    );
  task.purchase = { do: 'cancel', held };
  task.action = 'cancel';
  task.steps.push(`Cancel ${purchaseName(held.row)}, which is a ${held.row.state}.`);
}

function planCreate(task: PurchaseTask, found: readonly HeldPurchase[], context: PlanContext): void {
  const { settings, data, requisitions } = context;
  const cancelled = found.find(({ lastWritten }) => lastWritten !== undefined && !lastWritten.withdrawn);
  if (cancelled)
    throw new ConflictError(
      `${purchaseName(cancelled.row)} was cancelled in Tryton, but the award is still valid: set it back to draft there and replay, or delete it and replay.`,
    );
  const { supplier, operation } = task;
  // Throws, before anything is sent, for values that Tryton would refuse.
  headValues(task, data);
  const links = planLinks(task.needs, requisitions, () => 'new');
  task.purchase = { do: 'create' };
  task.action = 'create';
  task.steps.push(
    `Make a purchase (${settings.purchase_state}) from ${supplier.code} "${supplier.name}" in ${operation.document.currency}.`,
    ...task.lines.map((line) => `Add a line: ${wantedLineText(line)}.`),
    ...links.steps,
  );
}

function planAmend(task: PurchaseTask, held: HeldPurchase, context: PlanContext): void {
  const { settings, data, requisitions, bought } = context;
  const { row, lastWritten } = held;
  const head = merge(heldHeadValues(row), lastWritten?.head, headValues(task, data));
  const lines = compareLines(task, held);
  const steps = [
    ...head.changes.map(
      (change) =>
        `Change the ${fieldText(change.field)} from ${heldValueText(change, row)} to ${wantedValueText(change, task, data)}.`,
    ),
    ...lines.steps,
  ];
  const conflicts = [
    ...head.conflicts.map(
      (conflict) =>
        `The ${fieldText(conflict.field)} is ${heldValueText(conflict, row)} in Tryton, but the award asks for ${wantedValueText(conflict, task, data)}.`,
    ),
    ...lines.conflicts,
  ];
  const isOpen = openPurchaseStates.has(row.state);
  if (!isOpen && steps.length + conflicts.length > 0)
    throw new ConflictError(
      `${purchaseName(row)} is ${row.state} in Tryton and was not changed. What the award asks for: ${[...steps, ...conflicts].join(' ')} Make the change there.`,
    );
  if (conflicts.length > 0)
    throw new ConflictError(
      `${purchaseName(row)} was edited in Tryton where the award has changed, too, and was not changed: ${conflicts.join(' ')} Set these values as the award asks, or undo the edit, and replay.`,
    );
  const toDraft = row.state === 'quotation' && lines.deletes.length > 0;
  if (toDraft)
    steps.push('Make it a draft for this, as Tryton deletes lines of drafts only, and then a quotation again.');
  steps.push(...planLinks(task.needs, requisitions, (lot) => lines.lineIds.get(lot)).steps);
  const due = dueSteps(held, settings);
  const workflow = toDraft && due.length === 0 ? (['quote'] as const) : due;
  if (due.includes('quote')) steps.push('Make it a quotation.');
  if (due.includes('confirm')) steps.push('Confirm it.');
  for (const number of new Set(task.needs.map(({ requisition }) => requisition)))
    if (bought.has(number)) steps.push(`Show the requisition ${number} as done, as all of it is bought.`);
  const isRecorded = lastWritten?.content_hash === task.operation.contentHash && !lastWritten.withdrawn;
  if (steps.length === 0 && isRecorded) return;
  task.action = 'amend';
  task.steps.push(
    ...(steps.length === 0
      ? [`Record at ${purchaseName(row)} that it holds the newest award.`]
      : [`Amend ${purchaseName(row)}.`, ...steps]),
  );
  task.purchase = {
    do: 'write',
    held,
    fields: head.changes.map(({ field }) => field),
    lines: isOpen ? [...lines.writes, ...(lines.deletes.length === 0 ? [] : [['delete', lines.deletes]])] : [],
    toDraft,
    workflow,
  };
}

/** Compares the lines lot by lot. Lines that users added, and values that they edited, are left alone. */
function compareLines(task: PurchaseTask, { row, lastWritten }: HeldPurchase) {
  const { document } = task.operation;
  const steps: string[] = [];
  const conflicts: string[] = [];
  const writes: unknown[] = [];
  const creates: unknown[] = [];
  const deletes: number[] = [];
  const heldByLot = linesByLot(row, lastWritten, task.lines);
  const lineIds = new Map<string, number | 'new'>();
  for (const wanted of task.lines) {
    const line = heldByLot.get(wanted.lot);
    if (line) lineIds.set(wanted.lot, line.id);
    const before = lastWritten?.lines[wanted.lot];
    if (!line) {
      if (before === undefined) {
        creates.push(newPurchaseLine(task, wanted));
        lineIds.set(wanted.lot, 'new');
        steps.push(`Add a line: ${wantedLineText(wanted)}.`);
      } else if (Object.entries(lineValues(wanted)).some(([field, value]) => (before[field] ?? null) !== value))
        conflicts.push(
          `Lot "${wanted.lot}": its line was removed in Tryton, but the award asks for ${wantedLineText(wanted)}.`,
        );
      // Else a user has removed the line, and the award of this lot has not changed since: it stays removed.
      continue;
    }
    const changes = compareLine(task, wanted, line, before);
    const note = amendedNote(line.note, document, wanted);
    steps.push(...changes.steps);
    conflicts.push(...changes.conflicts);
    // In a confirmed purchase, a different note alone is no reason for a conflict.
    if (note !== line.note && changes.steps.length === 0 && openPurchaseStates.has(row.state))
      steps.push(`Lot "${wanted.lot}": update the note on cost and savings.`);
    const values = { ...changes.values, ...(note === line.note ? {} : { note }) };
    if (Object.keys(values).length > 0) writes.push(['write', [line.id], values]);
  }
  const wantedLots = new Set(task.lines.map(({ lot }) => lot));
  for (const [lot, line] of heldByLot) {
    if (wantedLots.has(lot)) continue;
    const before = lastWritten?.lines[lot];
    const isEdited = before !== undefined && merge(heldLineValues(line), undefined, before).changes.length > 0;
    if (isEdited) conflicts.push(`Lot "${lot}" is no longer awarded, and its line was edited: ${heldLineText(line)}.`);
    else {
      deletes.push(line.id);
      steps.push(`Remove the line of the lot "${lot}": ${heldLineText(line)}.`);
    }
  }
  if (creates.length > 0) writes.push(['create', creates]);
  return { steps, conflicts, writes, deletes, lineIds };
}

function compareLine(
  { supplier }: PurchaseTask,
  wanted: WantedLine<AwardLine>,
  line: PurchaseLine,
  before: FieldValues | undefined,
) {
  const merged = merge(heldLineValues(line), before, lineValues(wanted));
  const changed = Object.fromEntries(merged.changes.map(({ field, wanted: value }) => [field, value]));
  const taxes = supplier.hasTaxRule ? [] : (wanted.product?.taxes ?? []);
  return {
    values: {
      ...encodedLine(changed),
      ...('product' in changed
        ? {
            taxes: [
              ['remove', line.taxes],
              ['add', taxes],
            ],
          }
        : {}),
    },
    steps: merged.changes.map(
      (change) =>
        `Lot "${wanted.lot}": change the ${fieldText(change.field)} from ${heldLineValueText(change, line)} to ${wantedLineValueText(change, wanted)}.`,
    ),
    conflicts: merged.conflicts.map(
      (conflict) =>
        `Lot "${wanted.lot}": the ${fieldText(conflict.field)} is ${heldLineValueText(conflict, line)} in Tryton, but ${wantedLineValueText(conflict, wanted)} is awarded.`,
    ),
  };
}

/**
 * The line of each lot that has one: the line whose note names the lot, else the line with the values written for it.
 */
export function linesByLot(
  row: PurchaseRow,
  record: LastWritten | undefined,
  wanted: readonly { readonly lot: string }[],
): Map<string, PurchaseLine> {
  const named = new Map<string, PurchaseLine>();
  const nameless: PurchaseLine[] = [];
  for (const line of row['lines.']) {
    const lot = lotInNote(line.note);
    if (line.type !== 'line') continue;
    if (lot === undefined) nameless.push(line);
    // If two lines name the lot, the older one counts: users split a line by copying it.
    else if (!named.has(lot)) named.set(lot, line);
  }
  // If it is not known what was written last, the notes say which lots there were.
  const before = record ? Object.keys(record.lines) : named.keys();
  const lots = new Set([...wanted.map(({ lot }) => lot), ...before]);
  const byLot = new Map<string, PurchaseLine>();
  for (const lot of lots) {
    const line = named.get(lot) ?? takeFirst(nameless, (candidate) => isLikely(candidate, lot, record));
    if (line) byLot.set(lot, line);
  }
  return byLot;
}

function takeFirst<T>(items: T[], fits: (item: T) => boolean): T | undefined {
  const index = items.findIndex(fits);
  return index === -1 ? undefined : items.splice(index, 1)[0];
}

/** Whether a line whose note was removed belongs to the lot, judged by the other values that were written. */
function isLikely(line: PurchaseLine, lot: string, record: LastWritten | undefined): boolean {
  const before = record?.lines[lot];
  if (before === undefined) return record === undefined && lotName(line.description ?? '') === lot;
  return line.description === before['description'] && line.product === (before['product'] ?? null);
}
