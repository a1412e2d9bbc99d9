/**
 * Programs out of Debian's packages, unpacked into a folder: nothing of the system changes, and nobody has to be root.
 * The first time takes some seconds and a connection to Debian's servers; then the folder is there.
 */
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdir, mkdtemp, readdir, readFile, rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { errorText, hasErrorCode } from '#platform/errors.ts';

const run = promisify(execFile);

/** Where programs are kept from run to run. */
export const programCache = join(import.meta.dirname, '../../node_modules/.cache/sourcing-bridge');

/** One for each distribution and choice of packages: a home folder may be shared by several. */
export async function hashOfPackages(packages: readonly string[]): Promise<string> {
  const release = await readFile('/etc/os-release', 'utf8').catch(() => '');
  const what = [process.platform, process.arch, release, ...packages].join('\n');
  return createHash('sha256').update(what).digest('hex').slice(0, 12);
}

/**
 * Makes `folder` stand for `/`, with the packages and what they need beyond what is installed. It comes in under another
 * name and is renamed when it is complete: of two that do it at once, one is thrown away. `works` says of a folder that is
 * there already whether it will do. Rejects with the reason where the packages cannot be had.
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
      // Another process was quicker, unless what is there does not work.
      if (await works()) return;
      await rm(folder, { recursive: true, force: true });
      await rename(unpacked, folder);
    });
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}

/** For processes of programs in that folder: where their libraries are, and else what is in `environment`. */
export function withLibraries(folder: string, environment: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const triplet = { x64: 'x86_64-linux-gnu', arm64: 'aarch64-linux-gnu' }[process.arch as string];
  if (folder === '/' || triplet === undefined) return environment;
  return { ...environment, LD_LIBRARY_PATH: join(folder, 'usr/lib', triplet) };
}

/** With the system's lists of packages; with newer ones of our own where it has none, or old ones. */
async function downloadPackages(packages: readonly string[], work: string): Promise<string[]> {
  try {
    return await downloadWith(packages, work, []);
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
    return await downloadWith(packages, work, options).catch((error: unknown) => {
      throw trouble ?? error;
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
