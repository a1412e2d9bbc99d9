/** The program in a folder of its own, for what writes into its folders or loads what is installed beside it. */
import { cp, mkdir, readdir, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { scratchFolder } from './scratch-folder.ts';

const root = join(import.meta.dirname, '..', '..');

/** A copy of these files and folders of the repository, with links to its packages; removed after the test file. */
export async function copyProgram(names: readonly string[]): Promise<string> {
  const copy = await scratchFolder();
  for (const name of names) await cp(join(root, name), join(copy, name), { recursive: true });
  await mkdir(join(copy, 'node_modules'));
  // One by one, so that a test can add some.
  for (const name of await readdir(join(root, 'node_modules')))
    if (!name.startsWith('.vite')) await symlink(join(root, 'node_modules', name), join(copy, 'node_modules', name));
  return copy;
}
