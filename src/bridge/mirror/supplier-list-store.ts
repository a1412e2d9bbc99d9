/** The rows of `bridge.supplier_lists`: when each source's supplier list is pulled. One operation a function. */

import type { Timestamp } from '#contract/timestamp.ts';
import type { Sql } from '#platform/database/sql.ts';
import { storableText } from '#platform/database/storable-text.ts';

/** Makes the source's row if there is none, due now; makes an existing one due at `latest` if it would be due later. */
export async function openSupplierList(
  sql: Sql,
  source: string,
  { now, latest }: { now: Timestamp; latest: Timestamp },
): Promise<void> {
  await sql.query(
    `insert into bridge.supplier_lists (source, next_pull) values ($1, $2)
     on conflict (source) do update set next_pull = least(bridge.supplier_lists.next_pull, $3)`,
    [source, now, latest],
  );
}

/** Returns the sources whose supplier list is due. */
export async function readDueSupplierLists(sql: Sql, now: Timestamp): Promise<string[]> {
  const rows = await sql.query<{ source: string }>('select source from bridge.supplier_lists where next_pull <= $1', [
    now,
  ]);
  return rows.map(({ source }) => source);
}

export async function isListDue(sql: Sql, source: string, now: Timestamp): Promise<boolean> {
  const rows = await sql.query('select from bridge.supplier_lists where source = $1 and next_pull <= $2', [
    source,
    now,
  ]);
  return rows.length > 0;
}

/** Stores that the list has been read to its end. */
export async function finishListPull(
  tx: Sql,
  source: string,
  { now, next }: { now: Timestamp; next: Timestamp },
): Promise<void> {
  await tx.query(
    `update bridge.supplier_lists set next_pull = $2, last_pull = $3, failures = 0, last_error = null
     where source = $1`,
    [source, next, now],
  );
}

/** Returns how many pulls of the list in a row have failed. */
export async function readListFailures(sql: Sql, source: string): Promise<number> {
  const [row] = await sql.query<{ failures: number }>('select failures from bridge.supplier_lists where source = $1', [
    source,
  ]);
  return row?.failures ?? 0;
}

/** Stores a failure; the list is tried again at `next`. */
export async function failListPull(
  tx: Sql,
  source: string,
  { error, next }: { error: string; next: Timestamp },
): Promise<void> {
  await tx.query(
    `update bridge.supplier_lists set next_pull = $2, failures = failures + 1, last_error = $3 where source = $1`,
    [source, next, storableText(error)],
  );
}
