/**
 * A three-way merge, for records that users may have edited in the ERP. It compares three values of each field: the one
 * that the ERP holds, the one that the bridge wrote last, and the one that is wanted now. A user's edit stays as long
 * as the wanted value does not change. If both have changed, neither is overwritten: the field is a conflict, for an
 * operator.
 */
import type { FieldValue } from './values.ts';

export type FieldValues = Readonly<Record<string, FieldValue>>;

export interface Difference {
  readonly field: string;
  readonly held: FieldValue;
  readonly wanted: FieldValue;
}

export interface Merged {
  /** The fields to write. */
  readonly changes: readonly Difference[];
  /** The fields that a user edited in the ERP although the wanted value changed, too. */
  readonly conflicts: readonly Difference[];
}

/** Merges the fields of `wanted`. `lastWritten`: undefined if it is not known; then every difference is a change. */
export function merge(held: FieldValues, lastWritten: FieldValues | undefined, wanted: FieldValues): Merged {
  const changes: Difference[] = [];
  const conflicts: Difference[] = [];
  for (const [field, value] of Object.entries(wanted)) {
    const now = held[field] ?? null;
    const before = lastWritten === undefined ? now : (lastWritten[field] ?? null);
    if (now === value || before === value) continue;
    (before === now ? changes : conflicts).push({ field, held: now, wanted: value });
  }
  return { changes, conflicts };
}
