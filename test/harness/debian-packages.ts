/**
 * Programs out of Debian's packages, unpacked into a folder: nothing of the system changes, and nobody has to be root.
 * The first time takes some seconds and a connection to Debian's servers; then the folder is there.
 */
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdir, mkdtemp, readdir, readFile, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);
const cache = join(import.meta.dirname, '../../node_modules/.cache/sourcing-bridge/debian');

/** Gives the folder that stands for `/`; rejects with the reason where it cannot be had. */
export async function unpackDebianPackages(packages: readonly string[]): Promise<string> {
  const release = await readFile('/etc/os-release', 'utf8').catch(() => '');
  const what = [process.platform, process.arch, release, ...packages].join('\n');
  const folder = join(cache, createHash('sha256').update(what).digest('hex').slice(0, 12));
  if ((await readdir(folder).catch(() => [])).length > 0) return folder;
  await mkdir(cache, { recursive: true });
  const work = await mkdtemp(join(cache, 'unfinished-'));
  try {
    const unpacked = join(work, 'root');
    for (const archive of await download(work, packages)) await run('dpkg-deb', ['-x', archive, unpacked]);
    // Of two who do it at once, one finds it there.
    await rename(unpacked, folder).catch(async (error: unknown) => {
      if ((await readdir(folder).catch(() => [])).length === 0) throw error;
    });
    return folder;
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}

/** By the system's lists of packages; by new ones of our own where it has none, or old ones. */
async function download(work: string, packages: readonly string[]): Promise<string[]> {
  const archives = join(work, 'archives');
  await mkdir(archives);
  const command = ['download', ...packages];
  try {
    await apt(work, command, archives);
  } catch {
    const lists = ['-o', `Dir::State::lists=${join(work, 'lists')}`];
    await mkdir(join(work, 'lists', 'partial'), { recursive: true });
    await apt(work, [...lists, 'update'], work).catch(() => undefined);
    await apt(work, [...lists, ...command], archives);
  }
  return (await readdir(archives)).filter((name) => name.endsWith('.deb')).map((name) => join(archives, name));
}

async function apt(work: string, command: readonly string[], cwd: string): Promise<void> {
  const options = ['Debug::NoLocking=true', 'APT::Sandbox::User=root', `Dir::Cache=${work}`];
  await run('apt-get', ['-qq', ...options.flatMap((option) => ['-o', option]), ...command], { cwd, timeout: 120_000 });
}
