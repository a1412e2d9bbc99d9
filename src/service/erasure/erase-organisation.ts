/**
 * Erases an organisation: first its keys are refused and its webhooks stop, then everything that belongs to it is deleted
 * in small steps, the bytes of its files too, and at last the organisation. Others are not touched. Every step may be
 * interrupted: run again, it goes on. The audit log keeps its entries, which have names of keys and no contents.
 */
import { type Clock, timestampNow } from '#platform/clock.ts';
import type { Database } from '#platform/database/database.ts';
import type { Sql } from '#platform/database/sql.ts';
import { AppError, hasErrorCode } from '#platform/errors.ts';
import type { FileStorage } from '../files/storage/file-storage.ts';
import { findOwnedTables, type OwnedTable } from './organisation-tables.ts';

const batchSize = 500;
/** What was under way while one pass ran is found by the next. */
const passesMax = 5;

interface Deps {
  readonly database: Database;
  readonly storage: Pick<FileStorage, 'remove'>;
  readonly clock: Clock;
}

/**
 * Returns how many rows of which table were deleted, also before an interruption. Throws `not-found` for an organisation
 * that there is not, and `unavailable` while the file storage cannot remove its files.
 */
export async function eraseOrganisation(
  { database, storage, clock }: Deps,
  id: string,
  onDeleted: (rows: number) => void = () => undefined,
): Promise<Readonly<Record<string, number>>> {
  await closeDoors(database, id, clock);
  const tables = await findOwnedTables(database);
  let deleted = 0;
  const told = (rows: number) => {
    deleted += rows;
    onDeleted(deleted);
  };
  for (let pass = 1; pass <= passesMax; pass += 1) {
    await eraseFiles({ database, storage }, id, told);
    for (const table of tables.slice(0, -1)) await deleteRows(database, table, id, told);
    const removed = await end(database, id);
    if (removed) return removed;
  }
  throw new AppError(
    'unavailable',
    'Something of this organisation is still being worked on: run the command again in a minute.',
  );
}

/** Returns the organisations that there are, without those that are being erased. */
export async function listOrganisations(sql: Sql): Promise<{ id: string; name: string }[]> {
  return sql.query('select id, name from service.organisations where erasing is null order by name, id limit 1000');
}

async function closeDoors(database: Database, id: string, clock: Clock): Promise<void> {
  const now = timestampNow(clock);
  await database.transaction(async (tx) => {
    const found = await tx.query(
      'update service.organisations set erasing = coalesce(erasing, $2) where id = $1 returning id',
      [id, now],
    );
    if (found.length === 0) throw new AppError('not-found', `There is no organisation with the id ${id}.`);
    await tx.query('update service.api_keys set revoked_at = coalesce(revoked_at, $2) where organisation_id = $1', [
      id,
      now,
    ]);
    await tx.query('update service.webhooks set is_active = false where organisation_id = $1', [id]);
  });
}

/**
 * A file is abandoned and counted, in one transaction; then its bytes are removed, then its row. So there are never bytes
 * without a row.
 */
async function eraseFiles(
  { database, storage }: Omit<Deps, 'clock'>,
  id: string,
  onDeleted: (rows: number) => void,
): Promise<void> {
  for (;;) {
    const files = await database.transaction(async (tx) => {
      const abandoned = await tx.query(
        `update service.files set state = 'abandoned' where id = any(array(
           select id from service.files where organisation_id = $1 and state <> 'abandoned' limit 100 for update))
         returning 1`,
        [id],
      );
      await countDeleted(tx, id, 'service.files', abandoned.length);
      return abandoned.length;
    });
    onDeleted(files);
    const left = await database.query<{ id: string }>(
      'select id from service.files where organisation_id = $1 order by id limit 100',
      [id],
    );
    if (left.length === 0) return;
    for (const file of left) {
      await storage.remove(file.id);
      await database.query('delete from service.files where id = $1', [file.id]);
    }
  }
}

async function deleteRows(
  database: Database,
  { table, owned }: OwnedTable,
  id: string,
  onDeleted: (rows: number) => void,
): Promise<void> {
  for (;;) {
    const rows = await database.transaction(async (tx) => {
      const deleted = await tx.query(
        `delete from ${table} where ctid = any(array(select ctid from ${table} where ${owned} limit ${batchSize}))
         returning 1`,
        [id],
      );
      await countDeleted(tx, id, table, deleted.length);
      return deleted.length;
    });
    onDeleted(rows);
    if (rows < batchSize) return;
  }
}

async function countDeleted(tx: Sql, id: string, table: string, rows: number): Promise<void> {
  if (rows === 0) return;
  await tx.query(
    `update service.organisations
     set removed = jsonb_set(removed, array[$2], to_jsonb(coalesce((removed ->> $2)::bigint, 0) + $3::bigint))
     where id = $1`,
    [id, table, rows],
  );
}

/** Deletes the organisation itself; returns undefined when something still belongs to it. */
async function end(database: Database, id: string): Promise<Record<string, number> | undefined> {
  try {
    const [row] = await database.query<{ removed: Record<string, number> }>(
      'delete from service.organisations where id = $1 returning removed',
      [id],
    );
    return { ...row?.removed, 'service.organisations': 1 };
  } catch (error) {
    if (hasErrorCode(error, foreignKeyViolation)) return undefined;
    throw error;
  }
}

/** SQLSTATE */
const foreignKeyViolation = '23503';
