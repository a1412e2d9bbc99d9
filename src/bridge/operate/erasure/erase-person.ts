/**
 * Erases a person from the bridge: takes the address out of every table, in small steps, until a search of all tables
 * finds nothing more. One that was killed is run again from the beginning. Hashes stay what they were: a record that its
 * source goes on to show unchanged is not stored again. What a source or an ERP shows in another version brings the
 * person back, so the person is erased there first. The ERPs keep what was delivered to them: it is listed.
 */
import type { Database } from '#platform/database/database.ts';
import type { Sql } from '#platform/database/sql.ts';
import { AppError } from '#platform/errors.ts';
import type { Person } from '#platform/person-data/person.ts';
import {
  type FoundRow,
  findRowsOf,
  findTextTables,
  type TextTable,
  takeOutOfRow,
} from '#platform/person-data/stored-text.ts';

/** A document that named the person when it was sent. */
export interface NamedDelivery {
  readonly flow: string;
  readonly kind: string;
  readonly key: string;
  /** The ERP's, where the bridge knows it. */
  readonly reference: string | null;
}

export interface ErasedPerson {
  /** How many rows were changed, by table. */
  readonly removed: Readonly<Record<string, number>>;
  /** What ERPs were sent that named the person, and still have. */
  readonly deliveries: readonly NamedDelivery[];
}

/** What is written while one pass runs is found by the next. */
const passesMax = 10;

/**
 * `onSearched` is called after each table of a pass, with how many rows were changed so far. Throws `unavailable` when
 * something goes on writing the address.
 */
export async function erasePersonFromBridge(
  database: Database,
  person: Person,
  onSearched: (tables: number, of: number, rows: number) => void = () => undefined,
): Promise<ErasedPerson> {
  const tables = inOrder(await findTextTables(database, 'bridge'));
  const deliveries = await readDeliveries(database, person);
  const removed: Record<string, number> = {};
  let changed = 0;
  for (let pass = 1; pass <= passesMax; pass += 1) {
    const before = changed;
    for (const [index, table] of tables.entries()) {
      for await (const rows of eraseFromTable(database, table, person)) {
        if (rows === 0) continue;
        removed[table.table] = (removed[table.table] ?? 0) + rows;
        changed += rows;
      }
      onSearched(index + 1, tables.length, changed);
    }
    if (changed === before) return { removed, deliveries };
  }
  throw new AppError(
    'unavailable',
    'Something goes on writing this address into the bridge: a source or an ERP shows it. Erase the person there first, and ' +
      'run the command again.',
  );
}

/**
 * A requisition's number may hold the address, and other tables refer to it: its own table comes first. What was sent
 * comes last: an erasure that is run again after a kill still finds it, and lists it.
 */
function inOrder(tables: readonly TextTable[]): TextTable[] {
  const order = ({ table }: TextTable) =>
    table === 'bridge.intake_records' ? 0 : table === 'bridge.document_versions' ? 2 : 1;
  return tables.toSorted((one, other) => order(one) - order(other));
}

async function readDeliveries(sql: Sql, { pattern }: Person): Promise<NamedDelivery[]> {
  return sql.query<NamedDelivery>(
    `select distinct v.flow, v.kind, v.key, d.reference from bridge.document_versions v
     left join bridge.flow_documents d on d.flow = v.flow and d.kind = v.kind and d.key = v.key
     where v.body ~* $1 or v.key ~* $1 order by v.flow, v.kind, v.key`,
    [pattern],
  );
}

/** Yields how many rows were changed at a time. */
async function* eraseFromTable(database: Database, table: TextTable, person: Person): AsyncGenerator<number> {
  if (table.table === 'bridge.actions') {
    // The one change that the audit log allows.
    const [row] = await database.query<{ entries: number }>('select bridge.erase_in_actions($1, $2)::int as entries', [
      person.address,
      person.placeholder,
    ]);
    yield row?.entries ?? 0;
    return;
  }
  const erase = ownSteps[table.table] ?? takeOutOfRow;
  for await (const row of findRowsOf(database, table, person)) yield (await erase(database, row, person)) ? 1 : 0;
}

/** Returns whether the row was as it was found, and is changed. */
type EraseFromRow = (sql: Sql, row: FoundRow, person: Person) => Promise<boolean>;

/** Tables whose rows go as a whole. */
const ownSteps: Readonly<Record<string, EraseFromRow>> = {
  // The account was the person's; its sessions and links go with it.
  'bridge.console_users': deleteRow,
  'bridge.console_tokens': deleteRow,
  'bridge.second_factors': deleteRow,
};

async function deleteRow(sql: Sql, { table, key }: FoundRow): Promise<boolean> {
  const where = Object.keys(key).map((name, index) => `"${name}"::text = $${index + 1}`);
  const rows = await sql.query(
    `delete from ${table.table} where ${where.join(' and ')} returning 1`,
    Object.values(key),
  );
  return rows.length > 0;
}
