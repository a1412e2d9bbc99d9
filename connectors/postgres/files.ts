/** Downloads the bytes of files in groups, because a batch may have hundreds of files of any size. */
import { createHash } from 'node:crypto';
import { fileBytes, type Operation, type Outcome, outcomeOf, stopped } from 'sourcing-bridge/connector';

export interface LoadedFile {
  readonly name: string;
  /** Undefined, like the next two, when the settings do not want the bytes. */
  readonly bytes: Uint8Array | undefined;
  readonly byteCount: string | undefined;
  readonly sha256: string | undefined;
}

/** A group is written once it has this many bytes, so at most this and one more file are in memory. */
const groupBytesMax = 8 * 2 ** 20;

/**
 * Calls `write` with groups of operations and their downloaded files, in the order of the operations. Returns an
 * outcome for each; an operation whose file cannot be downloaded fails alone.
 */
export async function withFiles(
  operations: readonly Operation[],
  { loads, signal }: { loads: boolean; signal: AbortSignal },
  write: (group: readonly { operation: Operation; file: LoadedFile | undefined }[]) => Promise<readonly Outcome[]>,
): Promise<Outcome[]> {
  const outcomes: Outcome[] = operations.map(() => stopped);
  let group: { index: number; operation: Operation; file: LoadedFile | undefined }[] = [];
  let groupBytes = 0;
  const flush = async () => {
    const written = group;
    group = [];
    groupBytes = 0;
    for (const [place, outcome] of (await write(written)).entries()) outcomes[written[place]?.index ?? -1] = outcome;
  };
  for (const [index, operation] of operations.entries()) {
    if (signal.aborted) break;
    try {
      const file = await load(operation, loads, signal);
      group.push({ index, operation, file });
      groupBytes += file?.bytes?.byteLength ?? 0;
    } catch (error) {
      outcomes[index] = outcomeOf(error);
    }
    if (groupBytes >= groupBytesMax) await flush();
  }
  if (group.length > 0 && !signal.aborted) await flush();
  return outcomes;
}

async function load(operation: Operation, loads: boolean, signal: AbortSignal): Promise<LoadedFile | undefined> {
  const { document, action, file } = operation;
  if (!loads && file && document.kind === 'file' && action !== 'cancel')
    return { name: file.name, bytes: undefined, byteCount: undefined, sha256: undefined };
  const bytes = await fileBytes(operation, signal);
  if (!bytes || !file) return undefined;
  const sha256 = createHash('sha256').update(bytes).digest('hex');
  return { name: file.name, bytes, byteCount: String(bytes.byteLength), sha256 };
}
