/**
 * The files of a batch, in the order in which a reader gets them: the bytes of files, then the tables or the JSON
 * Lines, then the manifest, which names all others.
 */
import { setImmediate } from 'node:timers/promises';
import { fileBytes, type Operation, type Outcome, outcomeOf, TransientError } from 'sourcing-bridge/connector';
import { bytesPath, stateOf } from './documents.ts';
import type { Content } from './folder.ts';
import { fillTemplate, timeInName } from './names.ts';
import type { FileSettings } from './settings.ts';
import { type Entry, tablesOf } from './table.ts';

export const defaultBatchName = '{kind}_{time}_{sequence}';
const defaultFilesFolder = 'files';

/** A file of a batch; `name` is the name that it gets once it is complete. */
export interface BatchFile {
  readonly name: string;
  readonly bytes: number;
  readonly sha256: string;
  readonly rows: number | undefined;
}

/** Writes a file of the batch; `rows` is called after the file was written. */
export type WriteFile = (name: string, content: Content, rows?: () => number) => Promise<BatchFile>;

export interface BatchContent {
  /** The documents in the batch; empty when none could be written, and then there is no table. */
  readonly entries: readonly Entry[];
  /** The outcomes of documents that the tables cannot hold, and of files whose bytes cannot be downloaded. */
  readonly refused: ReadonlyMap<Operation, Outcome>;
  /** In the order in which the reader may see them: the manifest last. */
  readonly files: readonly BatchFile[];
  /** The name of the table, or of the JSON Lines. */
  readonly main: string;
}

/**
 * Writes the files of a batch, with operations of one kind. Throws what `write` throws, and TransientError once
 * `signal` aborts.
 */
export async function writeBatchFiles(
  operations: readonly Operation[],
  { sequence, now }: { sequence: number; now: Date },
  settings: FileSettings,
  write: WriteFile,
  signal: AbortSignal,
): Promise<BatchContent> {
  const kind = operations[0]?.document.kind ?? 'award';
  const base = fillTemplate(settings.name ?? defaultBatchName, (placeholder) => {
    if (placeholder === 'kind') return kind;
    return placeholder === 'sequence' ? digits(sequence) : timeInName(placeholder, now);
  });
  const tables = settings.format === 'csv' ? tablesOf(kind, settings) : [];
  const entries: Entry[] = [];
  const refused = new Map<Operation, Outcome>();
  const files: BatchFile[] = [];
  for (const operation of operations) {
    // Let other work of this process run between documents, so that an abort is noticed.
    await setImmediate();
    if (signal.aborted) throw new TransientError('stopped before it was written');
    const state = stateOf(operation);
    let bytes: Uint8Array | undefined;
    try {
      // Before anything of the document is written.
      for (const table of tables) table.check({ operation, state });
      bytes = await fileBytes(operation, signal);
    } catch (error) {
      refused.set(operation, outcomeOf(error));
      continue;
    }
    if (bytes === undefined) entries.push({ operation, state });
    else {
      const path = bytesPathIn(operation, settings, now, `${digits(sequence)}-${entries.length + 1}`);
      const file = await write(path, bytes);
      files.push(file);
      const written = { name: operation.file?.name ?? '', path, bytes: file.bytes, sha256: file.sha256 };
      entries.push({ operation, state, file: written });
    }
  }
  if (entries.length === 0) return { entries, refused, files, main: '' };
  if (settings.format === 'jsonl')
    files.push(await write(`${base}.jsonl`, asAsync(jsonLines(entries)), () => entries.length));
  // The main table is the last one.
  for (const table of tables.toReversed()) {
    const { parts, rows } = table.render(entries);
    files.push(await write(`${base}${table.suffix}.csv`, asAsync(parts), rows));
  }
  const main = files.at(-1)?.name ?? '';
  if (settings.manifest === 'json')
    files.push(await write(`${base}.manifest.json`, manifestOf({ base, now, entries, files })));
  else if (settings.manifest !== 'none') files.push(await write(`${base}.${settings.manifest}`, checksumsOf(files)));
  return { entries, refused, files, main };
}

/** The path of a file's bytes; `suffix` makes it unique among files of the same name. */
export function bytesPathIn(operation: Operation, settings: FileSettings, now: Date, suffix: string): string {
  return bytesPath(operation, settings.file_folder ?? defaultFilesFolder, now, `-${suffix}`);
}

function digits(sequence: number): string {
  return String(sequence).padStart(8, '0');
}

function manifestOf({
  base,
  now,
  entries,
  files,
}: {
  base: string;
  now: Date;
  entries: readonly Entry[];
  files: readonly BatchFile[];
}): Uint8Array {
  const documents = entries.map(({ operation: { document, action, contentHash, idempotencyKey }, state }) => ({
    id: idempotencyKey,
    kind: document.kind,
    key: document.key,
    action,
    state,
    content_hash: contentHash,
  }));
  // JSON.stringify leaves out `rows` where it is undefined.
  return Buffer.from(`${JSON.stringify({ batch: base, written: now.toISOString(), files, documents }, null, 2)}\n`);
}

/** In the format that `sha256sum --check` reads. */
function checksumsOf(files: readonly BatchFile[]): Uint8Array {
  return Buffer.from(files.map(({ sha256, name }) => `${sha256}  ${name}\n`).join(''));
}

function* jsonLines(entries: readonly Entry[]): Iterable<Uint8Array> {
  for (const { operation, state, file } of entries) {
    const { document, action, contentHash } = operation;
    const named = file && { file_name: file.name, file: file.path, bytes: file.bytes, sha256: file.sha256 };
    yield Buffer.from(`${JSON.stringify({ action, state, content_hash: contentHash, ...named, ...document })}\n`);
  }
}

async function* asAsync(parts: Iterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  yield* parts;
}
