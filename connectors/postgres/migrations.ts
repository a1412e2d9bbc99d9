/**
 * Brings the connector's own schema to the state that this version expects: numbered SQL files, each applied once and
 * noted in the schema's table `migration` by the file itself, so that a person may run them, too. Any number of processes
 * may start at once: they wait for each other on an advisory lock, and apply all that is missing in one transaction.
 */
import { readdir, readFile } from 'node:fs/promises';
import { DatabaseError, escapeIdentifier } from 'pg';
import { ConfigError, ConnectorError, TransientError, UnknownOutcome } from 'sourcing-bridge/connector';
import type { Connections, Tx } from './connections.ts';
import type { Settings } from './settings.ts';

export interface SchemaState {
  /** Files that are still to be applied. */
  readonly missing: readonly string[];
  /** Whether none was: then nothing can have been written. */
  readonly isNew: boolean;
  /** Undefined when it fits this version, or what is to be done about it. */
  readonly fault: string | undefined;
}

const folder = new URL('migrations/', import.meta.url);

/** What the schema has; changes nothing. */
export async function readSchemaState(tx: Tx, { schema, mode }: Settings): Promise<SchemaState> {
  const files = (await readdir(new URL(`${mode}/`, folder))).filter((name) => name.endsWith('.sql')).sort();
  // Out of the catalog's tables: what to_regclass() says may be from before a wait for a lock.
  const there = await tx.query('select from pg_tables where schemaname = $1 and tablename = $2', [schema, 'migration']);
  if (there.length === 0) return { missing: files, isNew: true, fault: undefined };
  const applied = await tx.query<{ number: number; name: string }>(
    `select number, name from ${escapeIdentifier(schema)}.migration where part = $1 order by number`,
    [mode],
  );
  const unknown = applied.find(({ number }) => number > files.length);
  return {
    missing: files.slice(applied.length),
    isNew: applied.length === 0,
    fault:
      unknown &&
      `The schema ${schema} was made by a newer version of this connector: it has ${unknown.name}, which this version ` +
        'does not know. Run the newer version, or set another schema.',
  };
}

/** Throws ConfigError that says what to grant, to run or to set. No document is written. */
export async function migrate(connections: Connections, settings: Settings, signal: AbortSignal): Promise<void> {
  const { schema } = settings;
  const found = await connections.read({ signal }, (tx) => readSchemaState(tx, settings));
  if (found.fault !== undefined) throw new ConfigError(found.fault);
  if (found.missing.length === 0) return;
  const lock = { name: `migrations of ${schema}`, alone: true };
  try {
    await connections.transaction({ signal, lock }, async (tx) => {
      const { missing, fault } = await readSchemaState(tx, settings);
      if (fault !== undefined) throw new ConfigError(fault);
      // Asked for first: CREATE SCHEMA IF NOT EXISTS needs the right to create even where there is nothing to do.
      const known = await tx.query('select from pg_namespace where nspname = $1', [schema]);
      if (missing.length > 0 && known.length === 0) await tx.query(`create schema ${escapeIdentifier(schema)}`);
      await tx.query(`set local search_path to ${escapeIdentifier(schema)}`);
      for (const file of missing) await tx.query(await readFile(new URL(`${settings.mode}/${file}`, folder), 'utf8'));
    });
  } catch (error) {
    // The next try sees whether the tables are there.
    if (error instanceof UnknownOutcome) throw new TransientError(error.message, { cause: error });
    if (error instanceof ConnectorError) throw error;
    const reason = error instanceof Error ? error.message : String(error);
    if (error instanceof DatabaseError && error.code === '42501')
      throw new ConfigError(`The tables in the schema ${schema} cannot be made: ${reason}. ${howToMake(settings)}`, {
        cause: error,
      });
    if (error instanceof DatabaseError && /^42(P07|710)/.test(error.code ?? ''))
      throw new ConfigError(
        `The schema ${schema} has something of somebody else's that has a name which the connector needs: ${reason}. ` +
          'Set another schema (settings.schema).',
        { cause: error },
      );
    throw error;
  }
}

/** For a user who may not. */
export function howToMake({ schema, mode }: Settings): string {
  return (
    `Either let this user make them (GRANT CREATE ON DATABASE … TO …, or a schema of its own: CREATE SCHEMA ${schema} ` +
    `AUTHORIZATION …), or let an administrator run the files in connectors/postgres/migrations/${mode}, as they say ` +
    `themselves, and then: ${grants(schema)}`
  );
}

export function grants(schema: string): string {
  const name = escapeIdentifier(schema);
  return `GRANT USAGE ON SCHEMA ${name} TO …; GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA ${name} TO …`;
}
