/**
 * What one pull remembers of the suppliers' names in `bridge.subjects`: most events of a first read name suppliers that
 * were written before, and each look at one costs more than to store it. Every transaction that writes such names leaves
 * another mark in `bridge.supplier_marks`. Example, of pages that name supplier S:
 *
 * | mark in SQL | page shows | what happens                                                                |
 * |-------------|------------|-----------------------------------------------------------------------------|
 * | none        | S "Meyer"  | S is written with mark 1                                                    |
 * | 1           | S "Meyer"  | nothing: the transaction with mark 1 was committed, and none has come since |
 * | 2           | S "Meyer"  | another process has written names: all are looked at again, with mark 3     |
 * | 2           | S "Meyer"  | mark 3 was rolled back: the same                                            |
 */
import { randomUUID } from 'node:crypto';
import type { Sql } from '#platform/database/sql.ts';
import { type NamedSubject, subjectsOfSupplier, suppliersOf } from './subjects.ts';

type Fields = Readonly<Record<string, unknown>>;

export interface KnownSuppliers {
  /**
   * Returns the suppliers of these events whose names have to be written, with the mark to leave. `current`: what
   * `readSupplierMark` returns in this transaction.
   */
  unknownOf(events: readonly Fields[], current: string | null): { suppliers: NamedSubject[]; mark: string };
}

/** Some 3 MB. */
const suppliersMax = 10_000;

/** The mark of the source, under its lock; null: none yet. */
export async function readSupplierMark(tx: Sql, source: string): Promise<string | null> {
  const [row] = await tx.query<{ mark: string }>('select mark from bridge.supplier_marks where source = $1', [source]);
  return row?.mark ?? null;
}

export function createKnownSuppliers(): KnownSuppliers {
  const known = new Map<unknown, NamedSubject>();
  let knownMark: string | null | undefined;
  /** What the last transaction has written: whether it was committed is seen by the mark. */
  let pending: { mark: string; suppliers: ReadonlyMap<unknown, NamedSubject> } | undefined;

  function settle(current: string | null): void {
    if (pending?.mark === current) for (const [id, supplier] of pending.suppliers) known.set(id, supplier);
    else if (current !== knownMark) known.clear();
    if (known.size > suppliersMax) known.clear();
    knownMark = current;
    pending = undefined;
  }

  return {
    unknownOf(events, current) {
      settle(current);
      const mark = randomUUID();
      const suppliers = new Map<unknown, NamedSubject>();
      for (const event of events)
        for (const entry of suppliersOf(event)) {
          const id = entry['id'];
          // Of two names on one page the later one counts, also when it is the one that is known.
          if (!suppliers.has(id) && isSame(known.get(id), entry)) continue;
          // A source may write an id in other letters: then only an entry with the id as it is written is known again.
          for (const supplier of subjectsOfSupplier(entry)) suppliers.set(supplier.id, supplier);
        }
      if (suppliers.size > 0) pending = { mark, suppliers };
      return { suppliers: [...suppliers.values()], mark };
    },
  };
}

/** A name that was cut never is. */
function isSame(known: NamedSubject | undefined, { name = '', external_id: reference = '' }: Fields): boolean {
  return known !== undefined && known.name === name && known.reference === reference;
}
