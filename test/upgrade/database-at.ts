import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { createEmptyDatabase } from '../harness/test-database.ts';
import { loadTables, type Schema } from './release-state.ts';

/** An empty database with the migrations of the schema up to this one. */
export async function databaseAt(schema: Schema, last: string) {
  const db = await createEmptyDatabase();
  const names = await readdir(join(import.meta.dirname, '../../src', schema, 'migrations'));
  const migrations = names.filter((name) => name.slice(0, 3) <= last).sort();
  await loadTables(db.database, schema, { migrations, rows: {}, sequences: {} });
  return db;
}
