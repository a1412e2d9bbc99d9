/**
 * A folder of copied files with their hashes, as a backup is kept: `SHA256SUMS` lists every file in the form of
 * `sha256sum`, so that anybody can check it. Each file is flushed to the disk before it is listed.
 */
import { createHash } from 'node:crypto';
import { type FileHandle, mkdir, open } from 'node:fs/promises';
import { dirname, isAbsolute, join, normalize, sep } from 'node:path';
import { flushDirectory } from './durable-file.ts';
import { AppError, hasErrorCode } from './errors.ts';

export const sumsFile = 'SHA256SUMS';

/** Copies into a folder; paths are relative to it. Two copies to the same path are an error, unless `once` is given. */
export interface FolderCopy {
  folder(path: string): Promise<void>;
  /** Returns the hash; undefined for a file that is gone, with `mayVanish`, or that was copied before, with `once`. */
  file(from: string, path: string, options?: { mayVanish?: boolean; once?: boolean }): Promise<string | undefined>;
  text(content: string, path: string): Promise<void>;
  /** The folders made so far: some of them may hold no file. */
  folders(): string[];
  /** Writes the list of the hashes so far, and returns it. */
  list(): Promise<Buffer>;
  /** Flushes every folder to the disk, and says how much was copied. */
  flush(): Promise<{ files: number; bytes: number }>;
}

/** Creates the copier for an empty folder that exists. `onBytes` gets how many bytes were copied so far. */
export function createFolderCopy(target: string, onBytes?: (bytes: number) => void): FolderCopy {
  const sums = new Map<string, string>();
  const folders = new Set<string>(['.']);
  let bytes = 0;

  async function folder(path: string): Promise<void> {
    if (folders.has(path)) return;
    await mkdir(join(target, path), { recursive: true, mode: 0o700 });
    for (let each = path; each !== '.' && each !== ''; each = dirname(each)) folders.add(each);
  }

  async function write(path: string, chunks: AsyncIterable<Buffer> | Iterable<Buffer>): Promise<string> {
    if (/[\n\\]/.test(path)) throw new AppError('internal', `A file has a name that no list can hold: ${path}`);
    await folder(dirname(path));
    const hash = createHash('sha256');
    const handle = await open(join(target, path), 'wx', 0o600);
    try {
      for await (const chunk of chunks) {
        hash.update(chunk);
        bytes += chunk.length;
        await writeAll(handle, chunk);
        onBytes?.(bytes);
      }
      await handle.sync();
    } finally {
      await handle.close();
    }
    const sum = hash.digest('hex');
    sums.set(path, sum);
    return sum;
  }

  return {
    folder,
    async file(from, path, { mayVanish = false, once = false } = {}) {
      if (once && sums.has(path)) return undefined;
      // Opened before the copy is made: a file that is gone leaves no empty one.
      const source = await open(from, 'r').catch((error: unknown) => {
        if (mayVanish && hasErrorCode(error, 'ENOENT')) return undefined;
        throw error;
      });
      if (!source) return undefined;
      return write(path, source.createReadStream({ highWaterMark: 1024 * 1024 }) as AsyncIterable<Buffer>);
    },
    text: async (content, path) => void (await write(path, [Buffer.from(content)])),
    folders: () => [...folders].filter((path) => path !== '.').sort(),
    async list() {
      const lines = [...sums]
        .sort(([a], [b]) => (a < b ? -1 : 1))
        .map(([path, sum]) => `${sum}  ${path.split(sep).join('/')}\n`);
      const list = Buffer.from(lines.join(''));
      await write(sumsFile, [list]);
      return list;
    },
    async flush() {
      for (const path of folders) await flushDirectory(join(target, path));
      return { files: sums.size, bytes };
    },
  };
}

async function writeAll(handle: FileHandle, chunk: Buffer): Promise<void> {
  for (let at = 0; at < chunk.length; ) at += (await handle.write(chunk, at)).bytesWritten;
}

/** Reads such a list: path and hash of each file. Throws `invalid` when it names a path outside of the folder. */
export function parseSums(list: Buffer): Map<string, string> {
  const sums = new Map<string, string>();
  for (const line of list.toString().split('\n').slice(0, -1)) {
    const [, sum, path] = /^([0-9a-f]{64}) {2}(.+)$/.exec(line) ?? [];
    if (sum === undefined || path === undefined || leadsOut(path))
      throw new AppError('invalid', `${sumsFile} of the backup has a line that is none of a backup.`);
    sums.set(path, sum);
  }
  return sums;
}

/** Whether a path of a list leads out of its folder. */
export function leadsOut(path: string): boolean {
  return isAbsolute(path) || normalize(path).split(sep)[0] === '..';
}
