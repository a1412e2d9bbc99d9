/**
 * A Tryton server for the tests: the one that is installed, else Debian's own packages of it, unpacked into a folder. That
 * changes nothing of the system and needs no root. Where it is impossible the answer says why, and tests are skipped.
 */
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { access, constants, mkdir, mkdtemp, readdir, readFile, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { errorText, hasErrorCode } from '#platform/errors.ts';

const run = promisify(execFile);

export interface Tryton {
  /** `trytond` and `trytond-admin`, to be run by `python`. */
  readonly trytond: string;
  readonly admin: string;
  readonly python: string;
  /** For every process of it: nothing of the tests' own environment reaches it. */
  readonly environment: Readonly<Record<string, string>>;
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
const root = join(import.meta.dirname, '..', '..');

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
  const cache = process.env['TRYTON_CACHE'] ?? join(root, 'node_modules/.cache/sourcing-bridge/tryton');
  const cacheFolder = join(cache, await hashOfPlatform());
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
    await unpackPackages(folder, cacheFolder);
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

function environmentFor(folder: string): Record<string, string> {
  const plain = { PATH: '/usr/bin:/bin', HOME: '/nonexistent', LANG: 'C.UTF-8', PYTHONUNBUFFERED: '1' };
  if (folder === '/') return plain;
  const libraries = { x64: 'x86_64-linux-gnu', arm64: 'aarch64-linux-gnu' }[process.arch as string];
  return {
    ...plain,
    PYTHONPATH: join(folder, 'usr/lib/python3/dist-packages'),
    ...(libraries === undefined ? {} : { LD_LIBRARY_PATH: join(folder, 'usr/lib', libraries) }),
  };
}

/**
 * Unpacks the packages and what they need beyond what is installed. They come in under another name and are renamed when
 * they are complete: of two that do it at once, one is thrown away.
 */
async function unpackPackages(folder: string, cacheFolder: string): Promise<void> {
  const work = await mkdtemp(join(cacheFolder, 'unfinished-'));
  try {
    const archives = await downloadPackages(work);
    const unpacked = join(work, 'root');
    for (const archive of archives) await run('dpkg-deb', ['-x', archive, unpacked]);
    await rename(unpacked, folder).catch(async () => {
      // Another process was quicker, unless what is there does not run.
      if (await ask(folder, cacheFolder)) return;
      await rm(folder, { recursive: true, force: true });
      await rename(unpacked, folder);
    });
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}

/** With the system's lists of packages; with newer ones of our own where it has none, or old ones. */
async function downloadPackages(work: string): Promise<string[]> {
  try {
    return await downloadWith(work, []);
  } catch {
    const lists = join(work, 'lists');
    await mkdir(join(lists, 'partial'), { recursive: true });
    const options = ['-o', `Dir::State::lists=${lists}`];
    // It also fails when one of the lists cannot be had that we do not need.
    const update = apt(work, [...options, '-o', 'APT::Update::Error-Mode=any', 'update']);
    const trouble = await update.then(
      () => undefined,
      (error: unknown) => error,
    );
    return await downloadWith(work, options).catch((error: unknown) => {
      throw trouble ?? error;
    });
  }
}

async function downloadWith(work: string, options: readonly string[]): Promise<string[]> {
  const archives = join(work, 'archives');
  await rm(archives, { recursive: true, force: true });
  await mkdir(archives);
  const plan = await apt(work, [...options, 'install', '--simulate', '--no-install-recommends', ...packages]);
  const names = [...plan.matchAll(/^Inst (\S+)/gm)].map(([, name]) => name ?? '');
  await apt(work, [...options, 'download', ...names], archives);
  return (await readdir(archives)).filter((name) => name.endsWith('.deb')).map((name) => join(archives, name));
}

/** Gives what it printed; rejects with what it complained of. Everything that it writes is in `work`. */
async function apt(work: string, command: readonly string[], cwd = work): Promise<string> {
  const settings = ['Debug::NoLocking=true', 'APT::Sandbox::User=root', `Dir::Cache=${work}`, 'APT::Color=0'];
  // Nobody waits minutes for a network that is not there.
  const patience = ['Acquire::Retries=1', 'Acquire::http::Timeout=15', 'Acquire::https::Timeout=15'];
  const options = [...settings, ...patience].flatMap((setting) => ['-o', setting]);
  try {
    const { stdout } = await run('apt-get', [...options, ...command], {
      cwd,
      env: { ...process.env, LC_ALL: 'C.UTF-8', DEBIAN_FRONTEND: 'noninteractive' },
      maxBuffer: 64 * 1024 ** 2,
      timeout: 120_000,
    });
    return stdout;
  } catch (error) {
    if (hasErrorCode(error, 'ENOENT')) throw new Error('there is no apt-get: this is no Debian', { cause: error });
    const complaint = typeof error === 'object' && error && 'stderr' in error ? String(error.stderr) : '';
    const lines = complaint.split('\n').filter((line) => line.startsWith('E:'));
    throw new Error(lines.length > 0 ? lines.join(' ') : errorText(error), { cause: error });
  }
}

/** One folder for each distribution: a home folder may be shared by several. */
async function hashOfPlatform(): Promise<string> {
  const release = await readFile('/etc/os-release', 'utf8').catch(() => '');
  const platform = [process.platform, process.arch, release, ...packages].join('\n');
  return createHash('sha256').update(platform).digest('hex').slice(0, 12);
}

async function isExecutable(file: string): Promise<boolean> {
  return access(file, constants.X_OK).then(
    () => true,
    () => false,
  );
}
