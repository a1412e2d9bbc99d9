/**
 * The columns of the database that hold sealed secrets, as a whole: whether the keys at hand open all of them, and
 * sealing all of them anew under another master key. A value names its key in bytes 2 to 5 (`secrets.ts`).
 */
import type { Database } from './database/database.ts';
import type { Sql } from './database/sql.ts';
import { AppError } from './errors.ts';
import type { SecretBox } from './secrets.ts';

export interface SealedColumn {
  /** With its schema; its primary key is `id`. */
  readonly table: string;
  readonly column: string;
  /** The context with which the value of the row is sealed. */
  readonly context: (id: string) => string;
}

const batchSize = 100;

/**
 * Throws an `internal` AppError that says what to do when a secret was sealed under a key that is not at hand: a program
 * with another master key than the one of its data would run, and fail at each secret. Tables that do not exist hold no
 * secret.
 */
export async function checkSealedColumns(
  sql: Sql,
  secrets: Pick<SecretBox, 'knownKeyIds'>,
  columns: readonly SealedColumn[],
): Promise<void> {
  for (const { table, column } of await existing(sql, columns)) {
    const [found] = await sql.query<{ count: number }>(
      `select count(*)::int as count from ${table}
       where ${column} is not null and substring(${column} from 2 for 4) <> all ($1::bytea[])`,
      [secrets.knownKeyIds],
    );
    if (found && found.count > 0)
      throw new AppError(
        'internal',
        `The master key is not the one that sealed ${found.count} secrets in ${table}. Start with that key ` +
          '(SOURCING_MASTER_KEY, or the file master-key in the data folder), or name it in previous_keys.',
      );
  }
}

/**
 * Seals everything anew that is sealed under a previous key, some rows in each transaction: a process that dies leaves
 * each row under one of the two keys, and the next call goes on. Returns how many values it has sealed. `onSealed` is
 * called after each transaction. Throws as `checkSealedColumns` does, before it changes anything.
 */
export async function rotateSealedColumns(
  database: Database,
  secrets: SecretBox,
  columns: readonly SealedColumn[],
  onSealed: (count: number) => void = () => undefined,
): Promise<number> {
  await checkSealedColumns(database, secrets, columns);
  let count = 0;
  for (const column of await existing(database, columns))
    for (;;) {
      const sealed = await database.transaction((tx) => rotateSome(tx, secrets, column));
      if (sealed === 0) break;
      count += sealed;
      onSealed(count);
    }
  return count;
}

/** How many values are sealed under another key than the one that seals now. */
export async function countOldSeals(
  sql: Sql,
  secrets: Pick<SecretBox, 'keyId'>,
  columns: readonly SealedColumn[],
): Promise<number> {
  let count = 0;
  for (const { table, column } of await existing(sql, columns)) {
    const [found] = await sql.query<{ count: number }>(
      `select count(*)::int as count from ${table}
       where ${column} is not null and substring(${column} from 2 for 4) <> $1`,
      [secrets.keyId],
    );
    count += found?.count ?? 0;
  }
  return count;
}

async function rotateSome(tx: Sql, secrets: SecretBox, { table, column, context }: SealedColumn): Promise<number> {
  const rows = await tx.query<{ id: string; sealed: Buffer }>(
    `select id::text, ${column} as sealed from ${table}
     where ${column} is not null and substring(${column} from 2 for 4) <> $1
     order by id limit ${batchSize} for update`,
    [secrets.keyId],
  );
  if (rows.length === 0) return 0;
  await tx.query(
    `update ${table} as sealed set ${column} = renewed.value
     from unnest($1::text[], $2::bytea[]) as renewed (id, value) where sealed.id::text = renewed.id`,
    [
      rows.map(({ id }) => id),
      rows.map(({ id, sealed }) => secrets.seal(secrets.open(sealed, context(id)), context(id))),
    ],
  );
  return rows.length;
}

async function existing(sql: Sql, columns: readonly SealedColumn[]): Promise<SealedColumn[]> {
  const found: SealedColumn[] = [];
  for (const column of columns) {
    const [row] = await sql.query<{ there: boolean }>('select to_regclass($1) is not null as there', [column.table]);
    if (row?.there === true) found.push(column);
  }
  return found;
}
