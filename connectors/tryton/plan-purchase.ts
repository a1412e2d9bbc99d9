/**
 * What to do with the purchase of an award: make, amend or cancel it, or tell why none of this is possible. What Tryton
 * holds is compared with what was written last and with what is wanted, field by field and lot by lot: what users have
 * edited or added stays.
 */
import { type AwardLine, ConflictError } from 'sourcing-bridge/connector';
import {
  type HeldLine,
  type HeldPurchase,
  type HeldRow,
  isLive,
  isUnfinished,
  openStates,
  referenceOfPurchase,
  type Written,
} from './held-purchases.ts';
import { lotName, type WantedLine } from './lots.ts';
import { merge, type Values } from './merge.ts';
import {
  amendedNote,
  encodedLine,
  headValues,
  heldHeadValues,
  heldLineValues,
  lineValues,
  lotInNote,
  newLine,
  type Won,
} from './purchase-values.ts';
import {
  nameOf,
  shownField,
  shownHeldLine,
  shownHeldValue,
  shownLine,
  shownLineValue,
  shownWanted,
  shownWantedValue,
} from './purchase-words.ts';
import type { ReferenceData } from './reference-data.ts';
import type { Settings } from './settings.ts';
import type { Task } from './task.ts';

export interface PurchaseTask extends Task<'award'>, Won {
  purchase: PurchaseStep | undefined;
}

type PurchaseStep =
  | { readonly do: 'create' }
  | { readonly do: 'cancel'; readonly held: HeldPurchase }
  | {
      readonly do: 'write';
      readonly held: HeldPurchase;
      /** Of the purchase itself: those that change. */
      readonly fields: readonly string[];
      /** Commands for its lines. */
      readonly lines: readonly unknown[];
      /** To a draft, without which Tryton deletes no lines. */
      readonly toDraft: boolean;
      readonly quote: boolean;
    };

interface Known {
  readonly settings: Settings;
  readonly data: ReferenceData;
}

/** Decides what to do with the purchase, and says it in the plan's words. Throws ConflictError or DataError. */
export function planPurchase(task: PurchaseTask, found: readonly HeldPurchase[], known: Known): void {
  const live = found.filter(isLive);
  const [held] = live;
  if (live.length > 1)
    throw new ConflictError(
      `Tryton holds ${live.length} purchases for this award (${live.map(({ row }) => nameOf(row)).join(', ')}): cancel or delete those that are not right.`,
    );
  if (held) task.reference = referenceOfPurchase(held.row.id);
  if (task.operation.action === 'cancel') planCancel(task, held);
  else if (held) planAmend(task, held, known);
  else planCreate(task, found, known);
}

function planCancel(task: PurchaseTask, held: HeldPurchase | undefined): void {
  if (!held) return;
  if (!openStates.has(held.row.state))
    throw new ConflictError(
      `Nothing is awarded any more, but ${nameOf(held.row)} is ${held.row.state} in Tryton and was not changed: cancel it there.`,
    );
  task.purchase = { do: 'cancel', held };
  task.action = 'cancel';
  task.steps.push(`Cancel ${nameOf(held.row)}, which is a ${held.row.state}.`);
}

function planCreate(task: PurchaseTask, found: readonly HeldPurchase[], { settings, data }: Known): void {
  const cancelled = found.find(({ written }) => written !== undefined && !written.withdrawn);
  if (cancelled)
    throw new ConflictError(
      `${nameOf(cancelled.row)} was cancelled in Tryton, and the award stands: set it back to draft there and replay, or delete it and replay.`,
    );
  const { supplier, operation } = task;
  // What Tryton would not take is told before anything is sent.
  headValues(task, data);
  task.purchase = { do: 'create' };
  task.action = 'create';
  task.steps.push(
    `Make a purchase (${settings.purchase_state}) from ${supplier.code} "${supplier.name}" in ${operation.document.currency}.`,
    ...task.lines.map((line) => `Add a line: ${shownLine(line)}.`),
  );
}

function planAmend(task: PurchaseTask, held: HeldPurchase, { settings, data }: Known): void {
  const { row, written } = held;
  const head = merge(heldHeadValues(row), written?.head, headValues(task, data));
  const lines = compareLines(task, held);
  const steps = [
    ...head.changes.map(
      (one) =>
        `Change the ${shownField(one.field)} from ${shownHeldValue(one, row)} to ${shownWantedValue(one, task, data)}.`,
    ),
    ...lines.steps,
  ];
  const conflicts = [
    ...head.conflicts.map(
      (one) =>
        `The ${shownField(one.field)} is ${shownHeldValue(one, row)} in Tryton, and ${shownWantedValue(one, task, data)} asked for.`,
    ),
    ...lines.conflicts,
  ];
  const isOpen = openStates.has(row.state);
  if (!isOpen && steps.length + conflicts.length > 0)
    throw new ConflictError(
      `${nameOf(row)} is ${row.state} in Tryton and was not changed. What the award asks for: ${[...steps, ...conflicts].join(' ')} Make the change there.`,
    );
  if (conflicts.length > 0)
    throw new ConflictError(
      `${nameOf(row)} was edited in Tryton where the award has changed, too, and was not changed: ${conflicts.join(' ')} Set it to what the award says, or back, and replay.`,
    );
  const toDraft = row.state === 'quotation' && lines.deletes.length > 0;
  if (toDraft)
    steps.push('Make it a draft for this, as Tryton deletes lines of drafts only, and then a quotation again.');
  const isLeft = isUnfinished(held, settings);
  if (isLeft) steps.push('Make it a quotation.');
  const isNoted = written?.content_hash === task.operation.contentHash && !written.withdrawn;
  if (steps.length === 0 && isNoted) return;
  task.action = 'amend';
  task.steps.push(
    ...(steps.length === 0
      ? [`Note at ${nameOf(row)} that it holds the newest award.`]
      : [`Amend ${nameOf(row)}.`, ...steps]),
  );
  task.purchase = {
    do: 'write',
    held,
    fields: head.changes.map(({ field }) => field),
    lines: isOpen ? [...lines.writes, ...(lines.deletes.length === 0 ? [] : [['delete', lines.deletes]])] : [],
    toDraft,
    quote: toDraft || isLeft,
  };
}

/** What of the lines is to be written, by lot: lines that users added are left alone, and so is what they edited. */
function compareLines(task: PurchaseTask, { row, written }: HeldPurchase) {
  const { document } = task.operation;
  const steps: string[] = [];
  const conflicts: string[] = [];
  const writes: unknown[] = [];
  const creates: unknown[] = [];
  const deletes: number[] = [];
  const heldByLot = linesByLot(row, written, task.lines);
  for (const wanted of task.lines) {
    const line = heldByLot.get(wanted.lot);
    const before = written?.lines[wanted.lot];
    if (!line) {
      if (before === undefined) {
        creates.push(newLine(task, wanted));
        steps.push(`Add a line: ${shownLine(wanted)}.`);
      } else if (Object.entries(lineValues(wanted)).some(([field, value]) => (before[field] ?? null) !== value))
        conflicts.push(`Lot "${wanted.lot}": its line was removed, and the award asks for ${shownLine(wanted)}.`);
      // Else a user has removed it, and nothing that was awarded has changed since.
      continue;
    }
    const changes = compareLine(task, wanted, line, before);
    const note = amendedNote(line.note, document, wanted);
    steps.push(...changes.steps);
    conflicts.push(...changes.conflicts);
    // The note alone is no difference to tell of at a purchase that is confirmed.
    if (note !== line.note && changes.steps.length === 0 && openStates.has(row.state))
      steps.push(`Lot "${wanted.lot}": update the note on cost and savings.`);
    const values = { ...changes.values, ...(note === line.note ? {} : { note }) };
    if (Object.keys(values).length > 0) writes.push(['write', [line.id], values]);
  }
  const wantedLots = new Set(task.lines.map(({ lot }) => lot));
  for (const [lot, line] of heldByLot) {
    if (wantedLots.has(lot)) continue;
    const before = written?.lines[lot];
    const isEdited = before !== undefined && merge(heldLineValues(line), undefined, before).changes.length > 0;
    if (isEdited) conflicts.push(`Lot "${lot}" is no longer awarded, and its line was edited: ${shownHeldLine(line)}.`);
    else {
      deletes.push(line.id);
      steps.push(`Remove the line of the lot "${lot}": ${shownHeldLine(line)}.`);
    }
  }
  if (creates.length > 0) writes.push(['create', creates]);
  return { steps, conflicts, writes, deletes };
}

function compareLine(
  { supplier }: PurchaseTask,
  wanted: WantedLine<AwardLine>,
  line: HeldLine,
  before: Values | undefined,
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
      (one) =>
        `Lot "${wanted.lot}": change the ${shownField(one.field)} from ${shownLineValue(one, line)} to ${shownWanted(one, wanted)}.`,
    ),
    conflicts: merged.conflicts.map(
      (one) =>
        `Lot "${wanted.lot}": the ${shownField(one.field)} is ${shownLineValue(one, line)} in Tryton, and ${shownWanted(one, wanted)} awarded.`,
    ),
  };
}

/** The line of each lot that has one: it names the lot in its note, else it is the one that looks like it. */
function linesByLot(row: HeldRow, record: Written | undefined, wanted: readonly WantedLine[]): Map<string, HeldLine> {
  const named = new Map<string, HeldLine>();
  const nameless: HeldLine[] = [];
  for (const line of row['lines.']) {
    const lot = lotInNote(line.note);
    if (line.type !== 'line') continue;
    if (lot === undefined) nameless.push(line);
    // Of two the older one: users split lines by copying them.
    else if (!named.has(lot)) named.set(lot, line);
  }
  // Where nobody knows what was written, the notes say which lots there were.
  const before = record ? Object.keys(record.lines) : named.keys();
  const lots = new Set([...wanted.map(({ lot }) => lot), ...before]);
  const byLot = new Map<string, HeldLine>();
  for (const lot of lots) {
    const line = named.get(lot) ?? takeFirst(nameless, (one) => isLikely(one, lot, record));
    if (line) byLot.set(lot, line);
  }
  return byLot;
}

function takeFirst<T>(items: T[], fits: (item: T) => boolean): T | undefined {
  const index = items.findIndex(fits);
  return index === -1 ? undefined : items.splice(index, 1)[0];
}

/** Of a line whose note was removed: what else was written is still there. */
function isLikely(line: HeldLine, lot: string, record: Written | undefined): boolean {
  const before = record?.lines[lot];
  if (before === undefined) return record === undefined && lotName(line.description ?? '') === lot;
  return line.description === before['description'] && line.product === (before['product'] ?? null);
}
