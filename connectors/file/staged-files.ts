/**
 * Staged files: the files of a batch while they wait for their names. They are in `<settings.journal>/staged`, under
 * `<number of the batch>-<random>.<index of the file>`, where no reader looks for them.
 */
import { createHash, randomBytes } from 'node:crypto';
import { type Content, type Folder, joinPath, NoSuchFile } from './folder.ts';
import type { Snapshot } from './journal.ts';
import type { Batch } from './journal-lines.ts';

export interface StagedFiles {
  /** Writes file `index` of the batch `id`; returns what the manifest says about it. */
  write(
    id: string,
    index: number,
    content: Content,
    signal: AbortSignal,
  ): Promise<{ readonly bytes: number; readonly sha256: string }>;
  /** Flushes the names of the staged files: what the journal records must exist after a power cut, too. */
  flush(): Promise<void>;
  /** Moves each file of a batch to its name, except those that have been moved already. */
  publish(batch: Batch): Promise<void>;
  /** Removes the first `count` files of a batch that was not recorded; what it misses, `finishInterrupted` removes. */
  discard(id: string, count: number): Promise<void>;
  /**
   * Publishes the files that an ended process has recorded and not moved, and removes those that no record names.
   * Leaves the files of numbers that are still free: another process may be writing them.
   */
  finishInterrupted(snapshot: Snapshot): Promise<void>;
}

const stagedName = /^((\d{12})-[0-9a-f]{16})\.\d+$/;

/** A new id for a batch with this number. */
export function newBatchId(sequence: number): string {
  return `${String(sequence).padStart(12, '0')}-${randomBytes(8).toString('hex')}`;
}

/** The staged files below the journal's folder. */
export function createStagedFiles(folder: Folder, journalPath: string): StagedFiles {
  const staged = joinPath(journalPath, 'staged');
  const pathOf = (id: string, index: number) => joinPath(staged, `${id}.${index}`);

  async function publish({ id, files }: Batch): Promise<void> {
    for (const [index, name] of files.entries())
      await folder.move(pathOf(id, index), name).catch((error: unknown) => {
        if (!(error instanceof NoSuchFile)) throw error;
      });
  }

  return {
    write: async (id, index, content, signal) => {
      const measured = { bytes: 0, hash: createHash('sha256') };
      await folder.write(pathOf(id, index), measure(content, measured), signal);
      return { bytes: measured.bytes, sha256: measured.hash.digest('hex') };
    },
    flush: () => folder.flush(staged),
    publish,
    discard: async (id, count) => {
      for (let index = 0; index < count; index += 1) await folder.remove(pathOf(id, index)).catch(() => undefined);
    },
    finishInterrupted: async ({ next, newestBatch }) => {
      const waiting = (await folder.list(staged)).flatMap((name) => {
        const [, id, sequence] = stagedName.exec(name) ?? [];
        return id !== undefined && Number(sequence) < next ? [{ name, id }] : [];
      });
      if (waiting.length === 0) return;
      const batch = await newestBatch();
      if (batch && waiting.some(({ id }) => id === batch.id)) await publish(batch);
      for (const { name, id } of waiting) if (id !== batch?.id) await folder.remove(joinPath(staged, name));
    },
  };
}

async function* measure(
  content: Content,
  measured: { bytes: number; hash: ReturnType<typeof createHash> },
): AsyncGenerator<Uint8Array> {
  for await (const chunk of content instanceof Uint8Array ? [content] : content) {
    measured.bytes += chunk.length;
    measured.hash.update(chunk);
    yield chunk;
  }
}
