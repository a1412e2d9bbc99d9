/** The rows of `bridge.erasures`: how far an erasure has come, and what it has removed where. */
import type { Timestamp } from '#contract/timestamp.ts';
import type { Database } from '#platform/database/database.ts';
import type { Sql } from '#platform/database/sql.ts';
import { timeOrderedId } from '#platform/time-ordered-id.ts';

export interface Erasure {
  readonly id: string;
  /** The last table that it has finished; empty: none. */
  readonly done: string;
  /** How many rows were changed, by table. */
  readonly removed: Readonly<Record<string, number>>;
}

const columns = 'id, done, removed';

/** Returns the erasure of this person that was interrupted, or begins one. */
export function openErasure(database: Database, mark: string, { now, nowMs }: { now: Timestamp; nowMs: number }) {
  return database.transaction(async (tx) => {
    await tx.query(
      'insert into bridge.erasures (id, mark, started) values ($1, $2, $3) on conflict (mark) where ended is null do nothing',
      [timeOrderedId(nowMs), mark, now],
    );
    const [open] = await tx.query<Erasure>(`select ${columns} from bridge.erasures where mark = $1 and ended is null`, [
      mark,
    ]);
    return open as Erasure;
  });
}

/** Counts changed rows, in the transaction that changes them where there is one. */
export async function countErased(sql: Sql, id: string, table: string, rows: number): Promise<void> {
  if (rows === 0) return;
  await sql.query(
    `update bridge.erasures
     set removed = jsonb_set(removed, array[$2], to_jsonb(coalesce((removed ->> $2)::bigint, 0) + $3::bigint))
     where id = $1`,
    [id, table, rows],
  );
}

/** Stores that all rows of the table were looked at. */
export async function storeDone(sql: Sql, id: string, table: string): Promise<void> {
  await sql.query('update bridge.erasures set done = $2 where id = $1', [id, table]);
}

/** Returns the erasure as it ended. */
export async function endErasure(sql: Sql, id: string, now: Timestamp): Promise<Erasure> {
  const [ended] = await sql.query<Erasure>(`update bridge.erasures set ended = $2 where id = $1 returning ${columns}`, [
    id,
    now,
  ]);
  return ended as Erasure;
}

/** A document that named the person when it was sent. */
export interface NamedDelivery {
  readonly flow: string;
  readonly kind: string;
  readonly key: string;
  /** The ERP's, where the bridge knows it. */
  readonly reference: string | null;
}

/** Returns what the ERPs were sent of the person, in all erasures of that person. */
export async function readDeliveries(sql: Sql, mark: string): Promise<NamedDelivery[]> {
  return sql.query<NamedDelivery>(
    `select n.flow, n.kind, n.key, d.reference from bridge.erasure_deliveries n
     left join bridge.flow_documents d on d.flow = n.flow and d.kind = n.kind and d.key = n.key
     where n.mark = $1 order by n.flow, n.kind, n.key`,
    [mark],
  );
}
