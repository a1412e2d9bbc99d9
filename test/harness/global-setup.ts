/**
 * The resources that all tests of a run share: certificates for localhost, and one PostgreSQL server. That is the
 * server of DATABASE_URL, else an embedded one in its own folder under `.test`, in memory when there is enough, with
 * fsync off. At the end of the run its databases are dropped, or the embedded server and its folder are removed.
 */
import { randomBytes } from 'node:crypto';
import { mkdir, mkdtemp, readdir, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client, escapeIdentifier } from 'pg';
import type { TestProject } from 'vitest/node';
import { systemClock } from '#platform/clock.ts';
import { parseDatabaseUrl } from '#platform/database/database-url.ts';
import { startEmbeddedPostgres } from '#platform/database/embedded-postgres.ts';
import { ensureLocalCertificates, type LocalCertificates } from '#platform/local-ca.ts';
import { silentLogger } from '#platform/log.ts';
import { collectConformance } from './conformance-results.ts';
import { isRunning } from './is-running.ts';
import { findScratchRoot } from './scratch-root.ts';

declare module 'vitest' {
  interface ProvidedContext {
    /** The server of this run, as a user who may create databases. */
    databaseUrl: string;
    /** The beginning of the names of this run's databases. */
    databasePrefix: string;
    certificates: LocalCertificates;
  }
}

const root = join(import.meta.dirname, '..', '..');

/**
 * Starts or finds the server and returns the function that cleans up after the run; rejects when there is no server.
 */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  // Tests start programs hundreds of times: without this cache each program compiles all of its code again.
  process.env['NODE_COMPILE_CACHE'] ??= join(tmpdir(), 'node-compile-cache');
  const databasePrefix = `sourcing_test_${randomBytes(6).toString('hex')}_`;
  const named = process.env['DATABASE_URL'];
  const server = named === undefined || named === '' ? await startScratchServer() : useServer(named, databasePrefix);
  const certificateFolder = await mkdtemp(join(tmpdir(), 'sourcing-test-'));
  project.provide('certificates', await makeCertificates(certificateFolder));
  project.provide('databaseUrl', server.url);
  project.provide('databasePrefix', databasePrefix);
  console.log(`Tests use ${server.description}.`);
  const endConformance = await collectConformance(project.vitest);
  return async () => {
    try {
      await endConformance();
    } finally {
      await rm(certificateFolder, { recursive: true });
      await server.stop();
    }
  };
}

function makeCertificates(directory: string): Promise<LocalCertificates> {
  const hostnames = ['localhost', '127.0.0.1', '::1'];
  return ensureLocalCertificates({ directory, hostnames, clock: systemClock, log: silentLogger });
}

interface Server {
  url: string;
  description: string;
  stop(): Promise<void>;
}

async function startScratchServer(): Promise<Server> {
  const found = await findScratchRoot(root);
  const scratchRoot = join(found, found === root ? '' : `sourcing-bridge-${process.getuid?.()}`, '.test');
  await mkdir(scratchRoot, { recursive: true, mode: 0o700 });
  await removeKilledRuns(scratchRoot);
  const folder = join(scratchRoot, `run-${process.pid}-${randomBytes(4).toString('hex')}`);
  const server = await startEmbeddedPostgres({ dataDir: folder, log: silentLogger, scratch: true });
  return {
    url: server.url,
    description: 'an embedded PostgreSQL of their own',
    stop: async () => {
      await server.stop();
      await rm(folder, { recursive: true });
    },
  };
}

/** A run that was killed could not stop its server: this becomes its owner, and stops it. */
async function removeKilledRuns(scratchRoot: string): Promise<void> {
  for (const name of await readdir(scratchRoot)) {
    const pid = /^run-(\d+)-/.exec(name)?.[1];
    if (pid === undefined || isRunning(Number(pid))) continue;
    const folder = join(scratchRoot, name);
    // Two runs that start together may find the same folder: the other one may have removed it meanwhile.
    if (await stat(join(folder, 'postgres', 'postmaster.pid')).catch(() => undefined)) {
      const server = await startEmbeddedPostgres({ dataDir: folder, log: silentLogger, scratch: true }).catch(
        async (error: unknown) => {
          if (await stat(folder).catch(() => undefined)) throw error;
        },
      );
      await server?.stop();
    }
    await rm(folder, { recursive: true, force: true });
  }
}

function useServer(url: string, databasePrefix: string): Server {
  const { host, pathname } = parseDatabaseUrl(url);
  return { url, description: `the server ${host}${pathname}`, stop: () => dropDatabases(url, databasePrefix) };
}

async function dropDatabases(url: string, prefix: string): Promise<void> {
  const admin = new Client({ connectionString: url });
  await admin.connect();
  try {
    const found = await admin.query<{ datname: string }>(
      'select datname from pg_database where starts_with(datname, $1)',
      [prefix],
    );
    for (const { datname } of found.rows)
      await admin.query(`drop database if exists ${escapeIdentifier(datname)} with (force)`);
  } finally {
    await admin.end();
  }
}
