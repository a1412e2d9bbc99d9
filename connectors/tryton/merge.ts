/**
 * What to write where somebody may have edited what was written before. Three values of a field are compared: what the
 * ERP holds, what was written last (undefined: not known), and what is wanted. An edit stays as long as what is wanted
 * does not change; where both have changed, nobody's change is lost: that is a conflict for a person.
 */
import type { Value } from './values.ts';

export type Values = Readonly<Record<string, Value>>;

export interface Difference {
  readonly field: string;
  readonly held: Value;
  readonly wanted: Value;
}

export interface Merged {
  /** To be written. */
  readonly changes: readonly Difference[];
  /** Edited in the ERP, and changed by what is wanted, too. */
  readonly conflicts: readonly Difference[];
}

export function merge(held: Values, written: Values | undefined, wanted: Values): Merged {
  const changes: Difference[] = [];
  const conflicts: Difference[] = [];
  for (const [field, value] of Object.entries(wanted)) {
    const now = held[field] ?? null;
    const before = written === undefined ? now : (written[field] ?? null);
    if (now === value || before === value) continue;
    (before === now ? changes : conflicts).push({ field, held: now, wanted: value });
  }
  return { changes, conflicts };
}
