/**
 * Finds a Tryton server for the tests: the one that is installed, else Debian's packages, which it unpacks into a
 * folder. That changes nothing in the system and needs no root. If there is no Tryton, the result says why, and the
 * tests are skipped.
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
  /** The scripts `trytond` and `trytond-admin`, to be run by `python`. */
  readonly trytond: string;
  readonly admin: string;
  readonly python: string;
  /** The environment of all its processes. It contains nothing of the tests' own environment. */
  readonly environment: Readonly<NodeJS.ProcessEnv>;
  /** Such as 6.0.29. */
  readonly version: string;
  /** A hash of the versions of all installed Python packages. */
  readonly packages: string;
  /** A folder that is kept between test runs. */
  readonly cacheFolder: string;
}

/** There is no Tryton, for this reason. */
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
/** Debian's packages run only with Debian's Python, even if the PATH has another one first. */
const python = '/usr/bin/python3';
/** The series that the tests and the connector support. */
const series = '6.0';

let found: Promise<Tryton | NoTryton> | undefined;

/**
 * Finds or installs Tryton, once per process. The first call for a cache folder takes some seconds and needs a
 * connection to Debian's servers. TRYTON_CACHE sets another cache folder. With REQUIRE_TRYTON=1, it rejects if there is
 * no Tryton.
 */
export async function installTryton(): Promise<Tryton | NoTryton> {
  found ??= findOrInstall();
  const tryton = await found;
  if ('missing' in tryton && process.env['REQUIRE_TRYTON'] === '1')
    throw new Error(`REQUIRE_TRYTON is set, but there is no Tryton: ${tryton.missing}`);
  return tryton;
}

async function findOrInstall(): Promise<Tryton | NoTryton> {
  if (!(await isExecutable(python))) return { missing: `it needs ${python} of Debian's package python3.` };
  const cache = process.env['TRYTON_CACHE'] ?? join(programCache, 'tryton');
  const cacheFolder = join(cache, await hashOfPackages(packages));
  try {
    await mkdir(cacheFolder, { recursive: true });
    await access(cacheFolder, constants.W_OK);
  } catch (error) {
    return { missing: `its cache folder cannot be written (${errorText(error)}). Set TRYTON_CACHE to another folder.` };
  }
  const system = await findIn('/', cacheFolder);
  if (system) return system;
  const folder = join(cacheFolder, 'packages');
  const unpacked = await findIn(folder, cacheFolder);
  if (unpacked) return unpacked;
  try {
    await unpackDebianPackages(packages, folder, async () => (await findIn(folder, cacheFolder)) !== undefined);
  } catch (error) {
    return { missing: `Debian's packages of Tryton could not be downloaded or unpacked: ${errorText(error)}` };
  }
  const tryton = await findIn(folder, cacheFolder);
  return (
    tryton ?? { missing: `Debian's packages of Tryton were unpacked to ${folder}, but do not run as Tryton ${series}.` }
  );
}

/** The Tryton in that folder, if it runs: only starting a process with it can show that. */
async function findIn(folder: string, cacheFolder: string): Promise<Tryton | undefined> {
  const environment = environmentFor(folder);
  const script = `
import importlib.metadata as metadata
import proteus, psycopg2, trytond
import trytond.modules.purchase_request_quotation, trytond.modules.purchase_requisition
print(trytond.__version__)
print(sorted((str(package.metadata['Name']), package.version) for package in metadata.distributions()))`;
  const answer = await run(python, ['-s', '-c', script], { env: environment }).catch(() => undefined);
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
