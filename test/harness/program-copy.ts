/**
 * A copy of the program, for tests of code that writes into its folders or loads packages that are installed beside it.
 */
import { cp, mkdir, readdir, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { scratchFolder } from './scratch-folder.ts';

const root = join(import.meta.dirname, '..', '..');

/** Copies these files and folders of the repository, with links to its packages; the copy is removed after the file. */
export async function copyProgram(names: readonly string[]): Promise<string> {
  const copy = await scratchFolder();
  for (const name of names) await cp(join(root, name), join(copy, name), { recursive: true });
  await mkdir(join(copy, 'node_modules'));
  // One link for each package, so that a test can add packages.
  for (const name of await readdir(join(root, 'node_modules')))
    if (!name.startsWith('.vite')) await symlink(join(root, 'node_modules', name), join(copy, 'node_modules', name));
  return copy;
}
