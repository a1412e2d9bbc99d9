/**
 * Small files that exist completely or not at all, at whatever instant the process or the machine stops, and whichever
 * other process writes at the same time. Each write goes to a temporary file beside it, which is flushed before it gets
 * the final name. A kill in between leaves at most that temporary file, which no code reads.
 */
import { randomBytes } from 'node:crypto';
import { link, mkdir, open, readFile, rename, unlink } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { hasErrorCode } from './errors.ts';

/**
 * Creates the file with the content if it does not exist yet; never changes an existing one. Of several processes that
 * create it at once exactly one succeeds. Returns false when it existed already; rejects with the file system's error.
 */
export async function createFileOnce(file: string, content: string, mode: number): Promise<boolean> {
  const temporary = await writeTemporary(file, content, mode);
  try {
    // Unlike rename, link fails when the name is taken; unlike open with O_EXCL, the name never shows half a file.
    await link(temporary, file);
  } catch (error) {
    if (hasErrorCode(error, 'EEXIST')) return false;
    throw error;
  } finally {
    await unlink(temporary);
  }
  await flushDirectory(dirname(file));
  return true;
}

/** Replaces the file's content and mode in one step; the last of several writers wins. */
export async function replaceFile(file: string, content: string | Uint8Array, mode: number): Promise<void> {
  const temporary = await writeTemporary(file, content, mode);
  try {
    await rename(temporary, file);
  } catch (error) {
    await unlink(temporary);
    throw error;
  }
  await flushDirectory(dirname(file));
}

/** The file's text, or undefined when there is no file; rejects with the file system's error for anything else. */
export async function readFileIfAny(file: string): Promise<string | undefined> {
  try {
    return await readFile(file, 'utf8');
  } catch (error) {
    if (hasErrorCode(error, 'ENOENT')) return undefined;
    throw error;
  }
}

async function writeTemporary(file: string, content: string | Uint8Array, mode: number): Promise<string> {
  await mkdir(dirname(file), { recursive: true });
  const temporary = join(dirname(file), `.${basename(file)}.${randomBytes(8).toString('hex')}.tmp`);
  const handle = await open(temporary, 'wx', mode);
  try {
    await handle.writeFile(content);
    await handle.sync();
  } catch (error) {
    await unlink(temporary);
    throw error;
  } finally {
    await handle.close();
  }
  return temporary;
}

/**
 * Makes the names in a folder durable. Without it a power cut can undo a new name after other processes have acted on
 * it.
 */
export async function flushDirectory(directory: string): Promise<void> {
  const handle = await open(directory, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}
