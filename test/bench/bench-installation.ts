/**
 * What a benchmark runs on: the program's own installation over a folder that is removed afterwards, with the embedded
 * PostgreSQL as production runs it, or a database of its own on the server of DATABASE_URL.
 */
import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client, escapeIdentifier } from 'pg';
import { configuration } from '#cli/configuration.ts';
import { type Installation, openInstallation } from '#cli/installation.ts';
import { parseDatabaseUrl } from '#platform/database/database-url.ts';

/** Lends an installation to `use`, and takes everything away that it left. */
export async function withInstallation(use: (installation: Installation) => Promise<void>): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'sourcing-bench-'));
  const server = process.env['DATABASE_URL'];
  const database = server ? await createDatabaseOn(server) : undefined;
  try {
    const settings = {
      ...configuration.parse({
        data_dir: folder,
        ...(database ? { database_url: database.url } : {}),
        ...(process.env['REDIS_URL'] ? { redis_url: process.env['REDIS_URL'] } : {}),
      }),
      fromEnvironment: [],
    };
    const installation = await openInstallation(settings, { name: 'bench', logLevel: 'error' });
    try {
      await use(installation);
    } finally {
      await installation.close();
    }
  } finally {
    await database?.drop();
    await rm(folder, { recursive: true, force: true });
  }
}

/** Which database it is, and whether it keeps what it acknowledges. */
export async function describeDatabase({ open }: Installation): Promise<string> {
  const [row] = await open.database.query<{ version: string; fsync: string; commit: string }>(
    `select current_setting('server_version') as version, current_setting('fsync') as fsync,
       current_setting('synchronous_commit') as commit`,
  );
  const kind = open.kind === 'embedded' ? 'embedded PostgreSQL' : 'PostgreSQL server';
  return `${kind} ${row?.version}, fsync ${row?.fsync}, synchronous_commit ${row?.commit}`;
}

async function createDatabaseOn(server: string): Promise<{ url: string; drop: () => Promise<void> }> {
  const name = `sourcing_bench_${randomBytes(6).toString('hex')}`;
  const url = parseDatabaseUrl(server);
  url.pathname = `/${name}`;
  await asAdmin(server, `create database ${escapeIdentifier(name)}`);
  return { url: url.href, drop: () => asAdmin(server, `drop database ${escapeIdentifier(name)} with (force)`) };
}

async function asAdmin(url: string, statement: string): Promise<void> {
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    await client.query(statement);
  } finally {
    await client.end();
  }
}
