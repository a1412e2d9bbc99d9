/** What of a purchase's lines is to be written, told apart by lot. */
import type { AwardLine } from 'sourcing-bridge/connector';
import { merge } from './merge.ts';
import { encodedLine, heldLineValues, lineValues, lotInNote, newLine, noteOf, withNote } from './order-lines.ts';
import type { PurchaseTask } from './prepare-purchase.ts';
import { lotName, type WantedLine } from './purchase-lines.ts';
import { shownField, shownHeldLine, shownLine, shownLineValue, shownWanted } from './purchase-words.ts';
import { type HeldLine, type HeldPurchase, type HeldRow, openStates, type Written } from './purchases.ts';

/** By lot: lines that users added are left alone, and so is what they edited. */
export function compareLines(task: PurchaseTask, { row, written }: HeldPurchase) {
  const steps: string[] = [];
  const conflicts: string[] = [];
  const writes: unknown[] = [];
  const creates: unknown[] = [];
  const deletes: number[] = [];
  const heldByLot = linesByLot(row, written, task.lines);
  for (const [index, wanted] of task.lines.entries()) {
    const line = heldByLot.get(wanted.lot);
    const before = written?.lines[wanted.lot];
    const wantedValues = lineValues(wanted);
    if (!line) {
      if (
        before !== undefined &&
        Object.entries(wantedValues).every(([field, value]) => (before[field] ?? null) === value)
      )
        // A user has removed it, and nothing that was awarded has changed since.
        continue;
      if (before !== undefined)
        conflicts.push(`Lot "${wanted.lot}": its line was removed, and the award asks for ${shownLine(wanted)}.`);
      else {
        creates.push(
          newLine(
            wanted,
            noteOf(task.operation.document.lines[index] as AwardLine, task.operation.document),
            task.supplier,
          ),
        );
        steps.push(`Add a line: ${shownLine(wanted)}.`);
      }
      continue;
    }
    const merged = merge(heldLineValues(line), before, wantedValues);
    const changed: Record<string, unknown> = {};
    for (const { field, held, wanted: value } of merged.changes) {
      Object.assign(changed, encodedLine(field, value));
      if (field === 'product')
        changed['taxes'] = [
          ['remove', line.taxes],
          ['add', wanted.product?.taxes ?? []],
        ];
      steps.push(
        `Lot "${wanted.lot}": change the ${shownField(field)} from ${shownLineValue(field, held, line)} to ${shownWanted(field, value, wanted)}.`,
      );
    }
    for (const { field, held, wanted: value } of merged.conflicts)
      conflicts.push(
        `Lot "${wanted.lot}": the ${shownField(field)} is ${shownLineValue(field, held, line)} in Tryton, and ${shownWanted(field, value, wanted)} awarded.`,
      );
    const note = withNote(
      line.note,
      noteOf(task.operation.document.lines[index] as AwardLine, task.operation.document),
    );
    if (note !== line.note) {
      changed['note'] = note;
      // Alone it is no difference to tell of.
      if (merged.changes.length === 0 && openStates.has(row.state))
        steps.push(`Lot "${wanted.lot}": update the note on cost and savings.`);
    }
    if (Object.keys(changed).length > 0) writes.push(['write', [line.id], changed]);
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
  const commands = [
    ...writes,
    ...(creates.length === 0 ? [] : [['create', creates]]),
    ...(deletes.length === 0 ? [] : [['delete', deletes]]),
  ];
  return { steps, conflicts, commands };
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
