/**
 * A Tryton server for the tests: the one that is installed, else Debian's own packages of it, unpacked into a folder. That
 * changes nothing of the system and needs no root. Where it is impossible the answer says why, and tests are skipped.
 */
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { access, constants, mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { errorText } from '#platform/errors.ts';
import { hashOfPackages, programCache, unpackDebianPackages, withLibraries } from '../harness/debian-packages.ts';

const run = promisify(execFile);

export interface Tryton {
  /** `trytond` and `trytond-admin`, to be run by `python`. */
  readonly trytond: string;
  readonly admin: string;
  readonly python: string;
  /** For every process of it: nothing of the tests' own environment reaches it. */
  readonly environment: Readonly<NodeJS.ProcessEnv>;
  /** As 6.0.29. */
  readonly version: string;
  /** A hash of the versions of everything that was installed with it. */
  readonly packages: string;
  /** Kept from run to run. */
  readonly cacheFolder: string;
}

/** Why there is no Tryton here. */
export interface NoTryton {
  readonly missing: string;
}

const packages = [
  'tryton-server',
  'tryton-proteus',
  'tryton-modules-purchase',
  'tryton-modules-purchase-request-quotation',
  'tryton-modules-purchase-requisition',
  'python3-psycopg2',
];
/** Debian's packages are made for Debian's Python, whatever other one comes first in the PATH. */
const python = '/usr/bin/python3';
/** What the tests and the connector know. */
const series = '6.0';

let found: Promise<Tryton | NoTryton> | undefined;

/**
 * Finds Tryton or installs it, once for a process; the first time in a cache folder takes some seconds, and a connection
 * to Debian's servers. TRYTON_CACHE names another folder. With REQUIRE_TRYTON=1 it rejects where there is none.
 */
export async function installTryton(): Promise<Tryton | NoTryton> {
  found ??= findOrInstall();
  const tryton = await found;
  if ('missing' in tryton && process.env['REQUIRE_TRYTON'] === '1')
    throw new Error(`REQUIRE_TRYTON is set, and there is no Tryton: ${tryton.missing}`);
  return tryton;
}

async function findOrInstall(): Promise<Tryton | NoTryton> {
  if (!(await isExecutable(python))) return { missing: `it needs ${python}, as Debian's package python3 brings it.` };
  const cache = process.env['TRYTON_CACHE'] ?? join(programCache, 'tryton');
  const cacheFolder = join(cache, await hashOfPackages(packages));
  try {
    await mkdir(cacheFolder, { recursive: true });
    await access(cacheFolder, constants.W_OK);
  } catch (error) {
    return { missing: `the folder for it cannot be written (${errorText(error)}); TRYTON_CACHE can name another.` };
  }
  const system = await ask('/', cacheFolder);
  if (system) return system;
  const folder = join(cacheFolder, 'packages');
  const unpacked = await ask(folder, cacheFolder);
  if (unpacked) return unpacked;
  try {
    await unpackDebianPackages(packages, folder, async () => (await ask(folder, cacheFolder)) !== undefined);
  } catch (error) {
    return { missing: `Debian's packages of it could not be had: ${errorText(error)}` };
  }
  const tryton = await ask(folder, cacheFolder);
  return (
    tryton ?? { missing: `Debian's packages of it were unpacked to ${folder}, and do not run as Tryton ${series}.` }
  );
}

/** What is in that folder, if it runs: looked at in a process, as only that tells. */
async function ask(folder: string, cacheFolder: string): Promise<Tryton | undefined> {
  const environment = environmentFor(folder);
  const look = `
import importlib.metadata as metadata
import proteus, psycopg2, trytond
import trytond.modules.purchase_request_quotation, trytond.modules.purchase_requisition
print(trytond.__version__)
print(sorted((str(each.metadata['Name']), each.version) for each in metadata.distributions()))`;
  const answer = await run(python, ['-s', '-c', look], { env: environment }).catch(() => undefined);
  const version = /^\d+\.\d+\.\d+$/m.exec(answer?.stdout ?? '')?.[0];
  if (answer === undefined || version === undefined || !version.startsWith(`${series}.`)) return undefined;
  return {
    trytond: join(folder, 'usr/bin/trytond'),
    admin: join(folder, 'usr/bin/trytond-admin'),
    python,
    environment,
    version,
    packages: createHash('sha256').update(answer.stdout).digest('hex').slice(0, 12),
    cacheFolder,
  };
}

function environmentFor(folder: string): NodeJS.ProcessEnv {
  const plain = { PATH: '/usr/bin:/bin', HOME: '/nonexistent', LANG: 'C.UTF-8', PYTHONUNBUFFERED: '1' };
  if (folder === '/') return plain;
  return withLibraries(folder, { ...plain, PYTHONPATH: join(folder, 'usr/lib/python3/dist-packages') });
}

async function isExecutable(file: string): Promise<boolean> {
  return access(file, constants.X_OK).then(
    () => true,
    () => false,
  );
}
