/**
 * What a version leaves behind: the rows of its tables, written by its own programs, and what its ERP holds. It is kept
 * as rows and as names of migrations, whose files never change: together they are the tables as that version had them.
 */
import { readdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { gunzipSync, gzipSync } from 'node:zlib';
import { Client, escapeIdentifier } from 'pg';
import { z } from 'zod';
import type { Database } from '#platform/database/database.ts';
import { migrate } from '#platform/database/migrations.ts';
import { scratchFolder } from '../harness/scratch-folder.ts';

const tables = z.strictObject({
  /** The files that had been applied, in order. */
  migrations: z.array(z.string()),
  /** The rows of each table, as JSON text: a number keeps its digits, a time its microseconds. */
  rows: z.record(z.string(), z.string()),
  /** Where each sequence stands. */
  sequences: z.record(z.string(), z.string()),
});

const releaseState = z.strictObject({
  version: z.string(),
  service: tables,
  bridge: tables,
  /** What the ERP had carried out: the lines of ledger-connector.ts. */
  ledger: z.string(),
  apiKey: z.string(),
  /** Of the service. The bridge of the story has nothing sealed. */
  masterKey: z.string(),
});

export type Schema = 'service' | 'bridge';
export type ReleaseState = z.infer<typeof releaseState>;

const folder = join(import.meta.dirname, 'releases');
const migrationsOf = (schema: Schema) => join(import.meta.dirname, '../../src', schema, 'migrations');

export async function keptVersions(): Promise<string[]> {
  return (await readdir(folder)).map((name) => name.replace('.json.gz', ''));
}

export async function readReleaseState(version: string): Promise<ReleaseState> {
  const text = gunzipSync(await readFile(join(folder, `${version}.json.gz`))).toString();
  return releaseState.parse(JSON.parse(text));
}

export async function writeReleaseState(state: ReleaseState): Promise<void> {
  await writeFile(join(folder, `${state.version}.json.gz`), gzipSync(JSON.stringify(state), { level: 9 }));
}

/** Reads all rows of a schema, of which no program may write any meanwhile. */
export async function readTables(url: string, schema: Schema): Promise<z.infer<typeof tables>> {
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    // Times as they are in every zone, and dates that JSON can hold.
    await client.query("set timezone to 'UTC'; set datestyle to 'ISO'");
    const names = await client.query<{ name: string }>(
      "select relname as name from pg_class where relnamespace = $1::regnamespace and relkind = 'r' order by relname",
      [schema],
    );
    const rows: Record<string, string> = {};
    for (const { name } of names.rows) {
      if (name === 'migrations') continue;
      const table = `${escapeIdentifier(schema)}.${escapeIdentifier(name)}`;
      const found = await client.query<{ rows: string }>(
        `select coalesce(json_agg(t), '[]')::text as rows from ${table} t`,
      );
      rows[name] = found.rows[0]?.rows ?? '[]';
    }
    const applied = await client.query<{ name: string }>(
      `select name from ${escapeIdentifier(schema)}.migrations order by number`,
    );
    const sequences = await client.query<{ name: string; last: string }>(
      'select sequencename as name, last_value::text as last from pg_sequences where schemaname = $1 and last_value is not null',
      [schema],
    );
    return {
      migrations: applied.rows.map(({ name }) => name),
      rows,
      sequences: Object.fromEntries(sequences.rows.map(({ name, last }) => [name, last])),
    };
  } finally {
    await client.end();
  }
}

/** Makes the tables of a schema as that version had them, with its rows, in a database that lacks them. */
export async function loadTables(database: Database, schema: Schema, kept: z.infer<typeof tables>): Promise<void> {
  const directory = await scratchFolder();
  for (const name of kept.migrations) await symlink(join(migrationsOf(schema), name), join(directory, name));
  await migrate(database, { schema, directory });
  await database.transaction(async (tx) => {
    let waiting = Object.entries(kept.rows);
    // A table comes after those to which its rows refer.
    while (waiting.length > 0) {
      const refused: typeof waiting = [];
      for (const [name, rows] of waiting) {
        const table = `${escapeIdentifier(schema)}.${escapeIdentifier(name)}`;
        await tx.query('savepoint before_table');
        try {
          // The database computes generated columns anew, and takes no values for them.
          const [columns] = await tx.query<{ names: string }>(
            `select string_agg(quote_ident(attname), ', ') as names from pg_attribute
             where attrelid = $1::regclass and attnum > 0 and not attisdropped and attgenerated = ''`,
            [table],
          );
          await tx.query(
            `insert into ${table} (${columns?.names}) overriding system value
             select ${columns?.names} from json_populate_recordset(null::${table}, $1)`,
            [rows],
          );
        } catch (error) {
          await tx.query('rollback to savepoint before_table');
          refused.push([name, rows]);
          if (refused.length === waiting.length) throw error;
        }
      }
      waiting = refused;
    }
    for (const [name, last] of Object.entries(kept.sequences))
      await tx.query('select setval($1::regclass, $2)', [`${schema}.${escapeIdentifier(name)}`, last]);
  });
}

/** How many rows each table holds. */
export const countRows = ({ rows }: z.infer<typeof tables>): Record<string, number> =>
  Object.fromEntries(Object.entries(rows).map(([name, text]) => [name, (JSON.parse(text) as unknown[]).length]));
