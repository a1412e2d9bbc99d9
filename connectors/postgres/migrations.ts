/**
 * Brings the connector's own schema to the state that this version expects. The migrations are numbered SQL files. Each
 * is applied once, and records itself in the schema's table `migration`, so an administrator may run it, too. Several
 * processes may start at the same time: they wait for each other on an advisory lock and apply all missing files in one
 * transaction.
 */
import { readdir, readFile } from 'node:fs/promises';
import { DatabaseError, escapeIdentifier } from 'pg';
import { ConfigError, ConnectorError, TransientError, UnknownOutcome } from 'sourcing-bridge/connector';
import type { Connections, Tx } from './connections.ts';

/** The connector's schema, and which of its parts is meant: each has its own tables and migrations. */
export interface SchemaPart {
  readonly schema: string;
  readonly part: 'tables' | 'function' | 'news';
}

export interface SchemaState {
  /** The files that are not applied yet. */
  readonly missing: readonly string[];
  /** Whether no file is applied: then no document can have been written. */
  readonly isNew: boolean;
  /** What is wrong and what to do; undefined when this version can use the schema. */
  readonly fault: string | undefined;
}

const folder = new URL('migrations/', import.meta.url);

/** Reads which migrations the schema has; changes nothing. */
export async function readSchemaState(tx: Tx, { schema, part }: SchemaPart): Promise<SchemaState> {
  const files = (await readdir(new URL(`${part}/`, folder))).filter((name) => name.endsWith('.sql')).sort();
  // Read from the catalog's tables: the result of to_regclass() may be older than a wait for a lock.
  const there = await tx.query('select from pg_tables where schemaname = $1 and tablename = $2', [schema, 'migration']);
  if (there.length === 0) return { missing: files, isNew: true, fault: undefined };
  const applied = await tx.query<{ number: number; name: string }>(
    `select number, name from ${escapeIdentifier(schema)}.migration where part = $1 order by number`,
    [part],
  );
  const unknown = applied.find(({ number }) => number > files.length);
  return {
    missing: files.slice(applied.length),
    isNew: applied.length === 0,
    fault:
      unknown &&
      `The schema ${schema} was created by a newer version of this connector: it has ${unknown.name}, which this version ` +
        'does not know. Run the newer version, or set another schema.',
  };
}

/**
 * Applies missing migrations. Throws ConfigError, which says what to grant, to run or to set; no document is written
 * then.
 */
export async function migrate(connections: Connections, of: SchemaPart, signal: AbortSignal): Promise<void> {
  const { schema } = of;
  const found = await connections.read({ signal }, (tx) => readSchemaState(tx, of));
  if (found.fault !== undefined) throw new ConfigError(found.fault);
  if (found.missing.length === 0) return;
  const lock = { name: `migrations of ${schema}`, exclusive: true };
  try {
    await connections.transaction({ signal, lock }, async (tx) => {
      const { missing, fault } = await readSchemaState(tx, of);
      if (fault !== undefined) throw new ConfigError(fault);
      // Check first: CREATE SCHEMA IF NOT EXISTS needs the right to create even where the schema exists.
      const known = await tx.query('select from pg_namespace where nspname = $1', [schema]);
      if (missing.length > 0 && known.length === 0) await tx.query(`create schema ${escapeIdentifier(schema)}`);
      await tx.query(`set local search_path to ${escapeIdentifier(schema)}`);
      for (const file of missing) await tx.query(await readFile(new URL(`${of.part}/${file}`, folder), 'utf8'));
    });
  } catch (error) {
    // The next attempt sees whether the tables exist.
    if (error instanceof UnknownOutcome) throw new TransientError(error.message, { cause: error });
    if (error instanceof ConnectorError) throw error;
    const reason = error instanceof Error ? error.message : String(error);
    if (error instanceof DatabaseError && error.code === '42501')
      throw new ConfigError(`The tables in the schema ${schema} cannot be created: ${reason}. ${howToCreate(of)}`, {
        cause: error,
      });
    if (error instanceof DatabaseError && /^42(P07|710)/.test(error.code ?? ''))
      throw new ConfigError(
        `The schema ${schema} has an object of another owner under a name that the connector needs: ${reason}. ` +
          'Set another schema (settings.schema).',
        { cause: error },
      );
    throw error;
  }
}

/** Instructions for a user without the right to create the tables. */
export function howToCreate({ schema, part }: SchemaPart): string {
  return (
    `Either let this user create them (GRANT CREATE ON DATABASE … TO …, or a schema of its own: CREATE SCHEMA ${schema} ` +
    `AUTHORIZATION …), or let an administrator run the files in connectors/postgres/migrations/${part}, as their first ` +
    `lines explain, and then: ${grants(schema)}`
  );
}

/** The statements that let a user write the tables. */
export function grants(schema: string): string {
  const name = escapeIdentifier(schema);
  return `GRANT USAGE ON SCHEMA ${name} TO …; GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA ${name} TO …`;
}
