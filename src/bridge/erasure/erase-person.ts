/**
 * Erases a person from the bridge: takes the address out of every table, in small steps. A tombstone is laid first, so that
 * nothing that is read meanwhile or later brings the address back. It ends when a search of all tables finds nothing more.
 * One that was killed goes on where it was. The ERPs keep what was delivered to them: it is listed.
 */
import { type Clock, timestampNow } from '#platform/clock.ts';
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
import type { FlowSettings } from '../settings.ts';
import { eraseFromRecord, keyAfter, noteDelivery, recordTables, renameVersion, whereKey } from './erase-records.ts';
import {
  countErased,
  type Erasure,
  endErasure,
  type NamedDelivery,
  openErasure,
  readDeliveries,
  storeDone,
} from './erasure-store.ts';
import { layTombstone, waitForLeases } from './tombstones.ts';

export interface ErasedPerson {
  readonly person: Person;
  /** How many rows were changed, by table, also before an interruption. */
  readonly removed: Readonly<Record<string, number>>;
  /** What ERPs were sent that named the person, and still have. */
  readonly deliveries: readonly NamedDelivery[];
}

interface ErasureDeps {
  readonly database: Database;
  readonly clock: Clock;
  /** Those that are configured here. */
  readonly flows: readonly FlowSettings[];
}

/** What is written while one pass runs is found by the next. */
const passesMax = 10;
/** Rows in a transaction. */
const rowsAtOnce = 50;

/**
 * `mark`: 12 hexadecimal digits that stand for the person, unless an earlier erasure has given another one. `onChanged`
 * gets how many rows were changed so far. Throws `unavailable` when something goes on writing the address.
 */
export async function erasePersonFromBridge(
  deps: ErasureDeps,
  { address, mark: given }: { address: string; mark: string },
  onChanged: (rows: number) => void = () => undefined,
): Promise<ErasedPerson> {
  const { database, clock } = deps;
  const person = await layTombstone(database, { address, mark: given }, timestampNow(clock));
  await waitForLeases(database);
  const mark = person.placeholder.slice('erased-'.length, -'@erased.invalid'.length);
  const run = await openErasure(database, mark, { now: timestampNow(clock), nowMs: clock.nowMs() });
  const tables = inOrder(await findTextTables(database, 'bridge'));
  let changed = 0;
  const count = (rows: number) => {
    changed += rows;
    onChanged(changed);
  };
  for (let pass = 1; pass <= passesMax; pass += 1) {
    const before = changed;
    const isResumed = pass === 1 && run.done !== '';
    const from = isResumed ? tables.findIndex(({ table }) => table === run.done) + 1 : 0;
    for (const table of tables.slice(from)) {
      await eraseFromTable(deps, run, table, { person, mark }, count);
      await storeDone(database, run.id, table.table);
    }
    // A pass from the beginning that has found nothing.
    if (changed === before && !isResumed) {
      const { removed } = await endErasure(database, run.id, timestampNow(clock));
      return { person, removed, deliveries: await readDeliveries(database, mark) };
    }
  }
  throw new AppError(
    'unavailable',
    'Something goes on writing this address into the bridge, such as a process of an earlier version: stop that, and run ' +
      'the command again.',
  );
}

/** What the others are made of comes first. */
function inOrder(tables: readonly TextTable[]): TextTable[] {
  const first: readonly string[] = [...recordTables, 'bridge.intake_records', 'bridge.document_versions'];
  const place = ({ table }: TextTable) => (first.indexOf(table) + first.length + 1) % (first.length + 1);
  return tables.toSorted((one, other) => place(one) - place(other));
}

interface Erased {
  readonly person: Person;
  readonly mark: string;
}

async function eraseFromTable(
  { database, flows }: ErasureDeps,
  run: Erasure,
  table: TextTable,
  erased: Erased,
  onChanged: (rows: number) => void,
): Promise<void> {
  const { person } = erased;
  const name = table.table;
  if (name === 'bridge.actions') {
    const [row] = await database.query<{ entries: number }>('select bridge.erase_in_actions($1, $2)::int as entries', [
      person.address,
      person.placeholder,
    ]);
    await countErased(database, run.id, name, row?.entries ?? 0);
    onChanged(row?.entries ?? 0);
    return;
  }
  if ((recordTables as readonly string[]).includes(name)) {
    for await (const row of findRowsOf(database, table, person)) {
      if (!(await eraseFromRecord(database, flows, row, erased))) continue;
      await countErased(database, run.id, name, 1);
      onChanged(1);
    }
    return;
  }
  const erase = ownSteps[name] ?? takeOutOfRow;
  for await (const rows of chunksOf(findRowsOf(database, table, person))) {
    const done = await database.transaction(async (tx) => {
      let changed = 0;
      for (const row of rows) changed += (await erase(tx, row, person, erased.mark)) ? 1 : 0;
      await countErased(tx, run.id, name, changed);
      return changed;
    });
    onChanged(done);
  }
}

async function* chunksOf(rows: AsyncIterable<FoundRow>): AsyncGenerator<FoundRow[]> {
  let chunk: FoundRow[] = [];
  for await (const row of rows) {
    chunk.push(row);
    if (chunk.length < rowsAtOnce) continue;
    yield chunk;
    chunk = [];
  }
  if (chunk.length > 0) yield chunk;
}

/** Returns whether the row was as it was found, and is changed. */
type EraseFromRow = (tx: Sql, row: FoundRow, person: Person, mark: string) => Promise<boolean>;

/** Tables whose rows have hashes of their text, and those whose rows go as a whole. */
const ownSteps: Readonly<Record<string, EraseFromRow>> = {
  // Two versions may have differed by the person alone.
  'bridge.mirror_history': async (tx, row, person) => {
    if (!(await takeOutOfRow(tx, row, person))) return false;
    const { content_hash: hash, ...key } = keyAfter(row.key, person);
    const params = [...Object.values(key), hash];
    const ofThis = `${whereKey(key, 1)} and content_hash::text = $${params.length}`;
    await tx.query(
      `delete from bridge.mirror_history other where ${whereKey(key, 1)} and content_hash::text <> $${params.length}
         and content_hash = (select sha256(convert_to(body, 'UTF8')) from bridge.mirror_history where ${ofThis})`,
      params,
    );
    await tx.query(
      `update bridge.mirror_history set content_hash = sha256(convert_to(body, 'UTF8')) where ${ofThis}`,
      params,
    );
    return true;
  },
  'bridge.document_versions': async (tx, row, person, mark) => {
    if (!(await takeOutOfRow(tx, row, person))) return false;
    const { flow, kind, key, content_hash: hash } = keyAfter(row.key, person);
    const place = [flow, kind, key];
    await noteDelivery(tx, mark, place);
    const [version] = await tx.query<{ hash: string | null }>(
      `select encode(sha256(convert_to(body, 'UTF8')), 'hex') as hash from bridge.document_versions
       where flow = $1 and kind = $2 and key = $3 and content_hash = $4`,
      [...place, hash],
    );
    if (!version?.hash || version.hash === hash) return true;
    await tx.query(
      'delete from bridge.document_versions where flow = $1 and kind = $2 and key = $3 and content_hash = $4',
      [...place, version.hash],
    );
    await tx.query(
      `update bridge.document_versions set content_hash = $5
       where flow = $1 and kind = $2 and key = $3 and content_hash = $4`,
      [...place, hash, version.hash],
    );
    await renameVersion(tx, place, String(hash), version.hash);
    return true;
  },
  'bridge.intake_records': async (tx, row, person) => {
    if (!(await takeOutOfRow(tx, row, person))) return false;
    const key = keyAfter(row.key, person);
    await tx.query(
      `update bridge.intake_records set content_hash = sha256(convert_to(body, 'UTF8')) where ${whereKey(key, 1)}`,
      Object.values(key),
    );
    return true;
  },
  // Its text is signed: it is deleted as after its time, and its hash stays in the chain.
  'bridge.reports': async (tx, { key }) => {
    const rows = await tx.query(
      `update bridge.reports set body = null where ${whereKey(key, 1)} returning 1`,
      Object.values(key),
    );
    return rows.length > 0;
  },
  // The account was the person's; its sessions go with it.
  'bridge.console_users': deleteRow,
  'bridge.console_sessions': deleteRow,
};

async function deleteRow(tx: Sql, { table, key }: FoundRow): Promise<boolean> {
  const rows = await tx.query(`delete from ${table.table} where ${whereKey(key, 1)} returning 1`, Object.values(key));
  return rows.length > 0;
}
