/** The rows of `bridge.supplier_sweeps`. One operation a function. */
import type { Timestamp } from '#contract/timestamp.ts';
import type { Sql } from '#platform/database/database.ts';
import { storableText } from '../../storable-text.ts';

/** Makes the source's sweep if there is none; it is due now, or at `latest` where it would be due later than that. */
export async function openSupplierSweep(
  sql: Sql,
  source: string,
  { now, latest }: { now: Timestamp; latest: Timestamp },
): Promise<void> {
  await sql.query(
    `insert into bridge.supplier_sweeps (source, next_sweep) values ($1, $2)
     on conflict (source) do update set next_sweep = least(bridge.supplier_sweeps.next_sweep, $3)`,
    [source, now, latest],
  );
}

/** The sources whose list is to be read now. */
export async function supplierSweepsDue(sql: Sql, now: Timestamp): Promise<string[]> {
  const rows = await sql.query<{ source: string }>('select source from bridge.supplier_sweeps where next_sweep <= $1', [
    now,
  ]);
  return rows.map(({ source }) => source);
}

export async function isSweepDue(sql: Sql, source: string, now: Timestamp): Promise<boolean> {
  const rows = await sql.query('select from bridge.supplier_sweeps where source = $1 and next_sweep <= $2', [
    source,
    now,
  ]);
  return rows.length > 0;
}

/** The list has been read to its end. */
export async function finishSweep(
  tx: Sql,
  source: string,
  { now, next }: { now: Timestamp; next: Timestamp },
): Promise<void> {
  await tx.query(
    `update bridge.supplier_sweeps set next_sweep = $2, last_sweep = $3, failures = 0, last_error = null
     where source = $1`,
    [source, next, now],
  );
}

/** How many sweeps in a row have failed. */
export async function readSweepFailures(sql: Sql, source: string): Promise<number> {
  const [row] = await sql.query<{ failures: number }>('select failures from bridge.supplier_sweeps where source = $1', [
    source,
  ]);
  return row?.failures ?? 0;
}

export async function failSweep(
  tx: Sql,
  source: string,
  { error, next }: { error: string; next: Timestamp },
): Promise<void> {
  await tx.query(
    `update bridge.supplier_sweeps set next_sweep = $2, failures = failures + 1, last_error = $3 where source = $1`,
    [source, next, storableText(error)],
  );
}
