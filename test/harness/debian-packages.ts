/**
 * Programs from Debian's packages, unpacked into a folder: this changes nothing in the system and does not need root.
 * The first time it takes some seconds and a connection to Debian's servers; later runs use the folder.
 */
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdir, mkdtemp, readdir, readFile, rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { errorText, hasErrorCode } from '#platform/errors.ts';

const run = promisify(execFile);

/** The folder in which programs are kept from run to run. */
export const programCache = join(import.meta.dirname, '../../node_modules/.cache/sourcing-bridge');

/** One hash for each distribution and list of packages: several systems may share a home folder. */
export async function hashOfPackages(packages: readonly string[]): Promise<string> {
  const release = await readFile('/etc/os-release', 'utf8').catch(() => '');
  const what = [process.platform, process.arch, release, ...packages].join('\n');
  return createHash('sha256').update(what).digest('hex').slice(0, 12);
}

/**
 * Unpacks the packages, with the dependencies that are not installed, into `folder`, as into `/`. The folder is made
 * under another name and renamed when it is complete: when two processes do so at once, one result is discarded.
 * `works` says whether an existing folder can be used. Rejects with the reason when the packages cannot be downloaded.
 */
export async function unpackDebianPackages(
  packages: readonly string[],
  folder: string,
  works: () => Promise<boolean>,
): Promise<void> {
  await mkdir(dirname(folder), { recursive: true });
  const work = await mkdtemp(join(dirname(folder), 'unfinished-'));
  try {
    const unpacked = join(work, 'root');
    for (const archive of await downloadPackages(packages, work)) await run('dpkg-deb', ['-x', archive, unpacked]);
    await rename(unpacked, folder).catch(async () => {
      // Another process was quicker, unless the existing folder does not work.
      if (await works()) return;
      await rm(folder, { recursive: true, force: true });
      await rename(unpacked, folder);
    });
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}

/** The environment for programs in that folder: `environment`, and where their libraries are. */
export function withLibraries(folder: string, environment: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const triplet = { x64: 'x86_64-linux-gnu', arm64: 'aarch64-linux-gnu' }[process.arch as string];
  if (folder === '/' || triplet === undefined) return environment;
  return { ...environment, LD_LIBRARY_PATH: join(folder, 'usr/lib', triplet) };
}

/** Uses the system's lists of packages, or newly downloaded ones when the system has none or outdated ones. */
async function downloadPackages(packages: readonly string[], work: string): Promise<string[]> {
  try {
    return await downloadWith(packages, work, []);
  } catch {
    const lists = join(work, 'lists');
    await mkdir(join(lists, 'partial'), { recursive: true });
    const options = ['-o', `Dir::State::lists=${lists}`];
    // The update also fails for a list that is not needed here, so its error counts only when the download fails, too.
    const update = apt(work, [...options, '-o', 'APT::Update::Error-Mode=any', 'update']);
    const updateError = await update.then(
      () => undefined,
      (error: unknown) => error,
    );
    return await downloadWith(packages, work, options).catch((error: unknown) => {
      throw updateError ?? error;
    });
  }
}

async function downloadWith(packages: readonly string[], work: string, options: readonly string[]): Promise<string[]> {
  const archives = join(work, 'archives');
  await rm(archives, { recursive: true, force: true });
  await mkdir(archives);
  const plan = await apt(work, [...options, 'install', '--simulate', '--no-install-recommends', ...packages]);
  const names = [...plan.matchAll(/^Inst (\S+)/gm)].map(([, name]) => name ?? '');
  await apt(work, [...options, 'download', ...names], archives);
  return (await readdir(archives)).filter((name) => name.endsWith('.deb')).map((name) => join(archives, name));
}

/** Returns the output of apt-get; rejects with its error messages. It writes only into `work`. */
async function apt(work: string, command: readonly string[], cwd = work): Promise<string> {
  const settings = ['Debug::NoLocking=true', 'APT::Sandbox::User=root', `Dir::Cache=${work}`, 'APT::Color=0'];
  // Short time limits, so that a missing network does not cost minutes.
  const timeouts = ['Acquire::Retries=1', 'Acquire::http::Timeout=15', 'Acquire::https::Timeout=15'];
  const options = [...settings, ...timeouts].flatMap((setting) => ['-o', setting]);
  try {
    const { stdout } = await run('apt-get', [...options, ...command], {
      cwd,
      env: { ...process.env, LC_ALL: 'C.UTF-8', DEBIAN_FRONTEND: 'noninteractive' },
      maxBuffer: 64 * 1024 ** 2,
      timeout: 120_000,
    });
    return stdout;
  } catch (error) {
    if (hasErrorCode(error, 'ENOENT')) throw new Error('there is no apt-get: this is not Debian', { cause: error });
    const output = typeof error === 'object' && error && 'stderr' in error ? String(error.stderr) : '';
    const lines = output.split('\n').filter((line) => line.startsWith('E:'));
    throw new Error(lines.length > 0 ? lines.join(' ') : errorText(error), { cause: error });
  }
}
