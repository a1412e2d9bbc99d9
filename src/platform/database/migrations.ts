/**
 * Brings a schema to the state that the code expects: numbered SQL files, each applied once, in order, in a transaction
 * of its own, and recorded with its hash. Any number of processes may start at once: they wait for each other on an
 * advisory lock. Written by hand, because the well-known libraries fail instead of waiting when another process holds
 * the lock, or do not notice that an applied file was edited.
 */

import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { DatabaseError, escapeIdentifier } from 'pg';
import { AppError, errorText, hasErrorCode } from '#platform/errors.ts';
import { commandLine } from '#platform/own-package.ts';
import type { Database } from './database.ts';
import type { Sql } from './sql.ts';

interface Migration {
  number: number;
  file: string;
  sql: string;
  sha256: string;
  /** Programs of the versions before cannot work with what it makes: its first line begins with `-- breaking`. */
  breaking: boolean;
}

interface Applied {
  number: number;
  name: string;
  sha256: string;
  breaking: boolean;
}

/** The column `breaking` is younger than the table. */
const applied = (table: string) =>
  `select number, name, sha256, coalesce((to_jsonb(m)->>'breaking')::boolean, false) as breaking
   from ${table} m order by number`;

/**
 * Creates the schema if it is missing and applies the files of `directory` that were not applied yet: `001_name.sql`,
 * `002_name.sql`, …, which name the schema in their statements and cannot hold COMMIT. Returns the names of the files
 * that this call applied. The files of a newer version that are there already are no obstacle, unless one is breaking: so
 * two versions work beside each other while one replaces the other. Throws an `internal` AppError that names the file and
 * what to do, with the schema left as after the last good file: when a file fails, was changed after it was applied, is
 * missing or numbered twice, when it is breaking and programs of before run, when the database is newer than the code and
 * does not fit it, or when it holds the tables of an unreleased version.
 */
export async function migrate(
  database: Database,
  options: { schema: string; directory: string },
): Promise<readonly string[]> {
  const migrations = await readMigrations(options.directory);
  const done: string[] = [];
  for (;;) {
    const applied = await database
      .transaction((tx) => applyNext(tx, options.schema, migrations))
      .catch((error: unknown) => {
        throw mayNotMigrate(error, options.schema, options.schema) ?? error;
      });
    if (applied === undefined) return done;
    done.push(applied);
  }
}

/** The error for a role that may not change the tables of a schema; undefined for any other error. */
export function mayNotMigrate(error: unknown, schema: string, program: string): AppError | undefined {
  const refused = error instanceof AppError ? error.cause : error;
  if (!hasErrorCode(refused, '42501')) return undefined;
  return new AppError(
    'internal',
    `The database role may not make or change the tables of the schema ${schema}, which this version needs ` +
      `(${errorText(refused)}). Run this under the role that owns them: ${commandLine} migrate ${program}`,
    { cause: error },
  );
}

/**
 * Returns the names of the files that `migrate` would apply, and changes nothing. Throws as `migrate` does for a schema
 * that does not fit.
 */
export async function pendingMigrations(
  sql: Sql,
  { schema, directory }: { schema: string; directory: string },
): Promise<readonly string[]> {
  const migrations = await readMigrations(directory);
  const table = `${escapeIdentifier(schema)}.migrations`;
  const [existing] = await sql.query<{ found: boolean }>('select to_regclass($1) is not null as found', [table]);
  const records = existing?.found ? await sql.query<Applied>(applied(table)) : [];
  for (const [index, record] of records.entries()) checkApplied(schema, record, index, migrations);
  return migrations.slice(records.length).map(({ file }) => file);
}

/**
 * Applies the next file and returns its name; undefined when all are applied. The advisory lock lasts as long as the
 * transaction, and the list of applied files is read under it: two processes may take turns, and each file runs once.
 */
async function applyNext(tx: Sql, schema: string, migrations: readonly Migration[]): Promise<string | undefined> {
  await tx.query("select pg_advisory_xact_lock(hashtextextended('migrations of schema ' || $1, 0))", [schema]);
  const table = `${escapeIdentifier(schema)}.migrations`;
  await createTable(tx, schema, table);
  const records = await tx.query<Applied>(applied(table));
  for (const [index, record] of records.entries()) checkApplied(schema, record, index, migrations);
  const next = migrations[records.length];
  if (!next) return undefined;
  if (next.breaking) await requireAlone(tx, schema, next);
  try {
    await tx.query(next.sql);
  } catch (error) {
    if (error instanceof AppError) throw error;
    const where =
      error instanceof DatabaseError && error.position ? ` at line ${lineOf(next.sql, error.position)}` : '';
    throw new AppError('internal', `The migration ${next.file} failed${where}: ${errorText(error)}`, { cause: error });
  }
  await tx.query(`alter table ${table} add column if not exists breaking boolean not null default false`);
  await tx.query(`insert into ${table} (number, name, sha256, breaking) values ($1, $2, $3, $4)`, [
    next.number,
    next.file,
    next.sha256,
    next.breaking,
  ]);
  return next.file;
}

/** Throws when a program of this schema runs, by its heartbeat (`platform/heartbeat.ts`): it would fail from now on. */
async function requireAlone(tx: Sql, schema: string, { file }: Migration): Promise<void> {
  const processes = `${escapeIdentifier(schema)}.processes`;
  const [existing] = await tx.query<{ found: boolean }>('select to_regclass($1) is not null as found', [processes]);
  if (!existing?.found) return;
  const running = await tx.query<{ name: string }>(
    `select name from ${processes} where abs(extract(epoch from clock_timestamp() - beat)) < 30 order by name`,
  );
  if (running.length > 0)
    throw new AppError(
      'internal',
      `The programs of the version before cannot work with the tables of this one (${file}). Stop them first: ` +
        `${running.map(({ name }) => name).join(', ')}. One that was killed counts as stopped after 30 s.`,
    );
}

/** Looks first: CREATE … IF NOT EXISTS needs the right to create even when there is nothing to do. */
async function createTable(tx: Sql, schema: string, table: string): Promise<void> {
  // From the catalog's tables: the answer of to_regclass() may be older than the wait for the lock.
  const [existing] = await tx.query<{ table: boolean }>(
    `select exists (
       select from pg_catalog.pg_class c where c.relnamespace = n.oid and c.relname = 'migrations'
     ) as table from pg_catalog.pg_namespace n where n.nspname = $1`,
    [schema],
  );
  if (existing?.table) return;
  if (!existing) await tx.query(`create schema if not exists ${escapeIdentifier(schema)}`);
  await tx.query(`create table ${table} (
    number int primary key,
    name text not null,
    sha256 text not null,
    applied timestamptz not null default now()
  )`);
}

function checkApplied(schema: string, record: Applied, index: number, migrations: readonly Migration[]): void {
  const file = migrations[record.number - 1];
  if (!file && record.breaking)
    throw new AppError(
      'internal',
      `The schema ${schema} was migrated by newer code: it holds ${record.name}, with which this version cannot work. ` +
        'Start the newer version again, or restore a backup from before it.',
    );
  if (record.number !== index + 1)
    throw new AppError(
      'internal',
      `The schema ${schema} holds ${record.name} without the migration before it (number ${index + 1}). ` +
        'Rows were removed from its table "migrations": put them back, or restore a backup.',
    );
  if (!file) return;
  if (record.name !== file.file)
    throw new AppError(
      'internal',
      `The schema ${schema} holds tables of an earlier, unreleased version (${record.name}), which cannot be upgraded: ` +
        'use an empty database, which for the embedded one means another data folder (DATA_DIR or --data) or deleting ' +
        'the old one.',
    );
  if (record.sha256 !== file.sha256)
    throw new AppError(
      'internal',
      `The migration ${file.file} was changed after it was applied to the schema ${schema}. ` +
        'Restore the file as it was, and make the change in a new file with the next number.',
    );
}

async function readMigrations(directory: string): Promise<Migration[]> {
  const names = (await readdir(directory)).filter((name) => name.endsWith('.sql')).sort();
  const migrations: Migration[] = [];
  for (const file of names) {
    const digits = /^(\d{3,})_[A-Za-z0-9_-]+\.sql$/.exec(file)?.[1];
    if (digits === undefined)
      throw new AppError(
        'internal',
        `The migration ${join(directory, file)} must be named like 001_name.sql: rename it.`,
      );
    // A checkout on Windows may have other line ends; that is not a change.
    const sql = (await readFile(join(directory, file), 'utf8')).replaceAll('\r\n', '\n');
    const sha256 = createHash('sha256').update(sql).digest('hex');
    migrations.push({ number: Number(digits), file, sql, sha256, breaking: sql.startsWith('-- breaking') });
  }
  migrations.sort((a, b) => a.number - b.number);
  for (const [index, migration] of migrations.entries())
    checkNumber(directory, migration, index, migrations[index - 1]);
  return migrations;
}

function checkNumber(directory: string, migration: Migration, index: number, before: Migration | undefined): void {
  if (migration.number === index + 1) return;
  const problem =
    before?.number === migration.number
      ? `has the same number as ${before.file}: give the newer one the next free number`
      : `has no migration number ${index + 1} before it: restore the missing file, or renumber this one`;
  throw new AppError('internal', `The migration ${migration.file} in ${directory} ${problem}.`);
}

function lineOf(sql: string, position: string): number {
  return sql.slice(0, Number(position)).split('\n').length;
}
