/**
 * The layout `batch`: each write makes new files, which the reader imports and may then remove or move: an outbox
 * (batch-writer.ts says how). The files of a batch, in the order in which a reader gets them: the bytes of files, then
 * the table or the JSON Lines, then the manifest, which names all others.
 */
import { setImmediate } from 'node:timers/promises';
import {
  type ConnectorContext,
  type Document,
  type Found,
  fileBytes,
  type Operation,
  type Outcome,
  outcomeOf,
  TransientError,
} from 'sourcing-bridge/connector';
import { type BatchFile, type BatchId, type ComposedBatch, createBatchWriter, receiptsFolder } from './batch-writer.ts';
import { type Folder, sha256 } from './folder.ts';
import { batchName, bytesPath } from './names.ts';
import type { FileSettings } from './settings.ts';
import { createTable, type Entry, stateOf } from './table.ts';

/** The layout `batch` in a folder. */
export function createBatchLayout(folder: Folder, settings: FileSettings, context: ConnectorContext) {
  const writer = createBatchWriter<Operation>(folder, receiptsFolder, context, {
    compose: (operations, id, signal) => composeBatch(operations, id, settings, signal),
    outcomeOf: ({ action, document }, when) => {
      const reference = referenceOf(document);
      if (when === 'before') return { status: action === 'cancel' ? 'cancelled' : 'unchanged', reference };
      return { status: done[action], reference };
    },
  });
  return {
    write: writer.write,
    lookup: async (documents: readonly Document[]): Promise<Found[]> => {
      const known = await writer.lookup(documents);
      return documents.flatMap((document) => {
        const receipt = known.get(document);
        if (!receipt || receipt.state === 'withdrawn') return [];
        return [{ key: document.key, reference: referenceOf(document), contentHash: receipt.contentHash }];
      });
    },
  };
}

/** The files of a batch with operations of one kind. Throws TransientError once `signal` aborts. */
async function composeBatch(
  operations: readonly Operation[],
  id: BatchId,
  settings: FileSettings,
  signal: AbortSignal,
): Promise<ComposedBatch<Operation>> {
  const kind = operations[0]?.document.kind ?? 'award';
  const base = batchName(kind, id);
  const render = settings.format === 'csv' ? createTable(kind, settings) : undefined;
  const entries: Entry[] = [];
  const refused = new Map<Operation, Outcome>();
  const files: NamedFile[] = [];
  for (const operation of operations) {
    // Let other work of this process run between documents, so that an abort is noticed.
    await setImmediate();
    if (signal.aborted) throw new TransientError('stopped before it was written');
    const state = stateOf(operation);
    try {
      // One that no table can hold is refused alone.
      render?.([{ operation, state }]);
      const content = await fileBytes(operation, signal);
      if (content === undefined) entries.push({ operation, state });
      else {
        const name = operation.file?.name ?? '';
        const path = bytesPath(name, `-${id.sequence}-${entries.length + 1}`);
        const file = namedFile(path, content);
        files.push(file);
        const written = { name, path, bytes: content.length, sha256: file.sha256 };
        entries.push({ operation, state, file: written });
      }
    } catch (error) {
      refused.set(operation, outcomeOf(error));
    }
  }
  if (entries.length === 0) return { written: [], refused, files: [] };
  const { content, rows } = render?.(entries) ?? { content: jsonLines(entries), rows: entries.length };
  files.push(namedFile(`${base}.${settings.format}`, content, rows));
  const manifest = manifestOf(base, id.stampMs, entries, files);
  const written = entries.map(({ operation, state }) => ({
    item: operation,
    contentHash: operation.contentHash,
    state,
  }));
  return { written, refused, files: [...files, manifest] };
}

interface NamedFile extends BatchFile {
  readonly sha256: string;
  /** Of a table. */
  readonly rows: number | undefined;
}

function namedFile(name: string, content: Uint8Array, rows?: number): NamedFile {
  return { name, content, sha256: sha256(content), rows };
}

/** The last file of a batch: it names the others with their checksums. */
function manifestOf(base: string, stampMs: number, entries: readonly Entry[], files: readonly NamedFile[]): BatchFile {
  const documents = entries.map(({ operation: { document, action, contentHash, idempotencyKey }, state }) => ({
    id: idempotencyKey,
    kind: document.kind,
    key: document.key,
    action,
    state,
    content_hash: contentHash,
  }));
  const named = files.map(({ name, content, sha256: checksum, rows }) => ({
    name,
    bytes: content.length,
    sha256: checksum,
    rows,
  }));
  const content = { batch: base, written: new Date(stampMs).toISOString(), files: named, documents };
  return { name: `${base}.manifest.json`, content: Buffer.from(`${JSON.stringify(content, null, 2)}\n`) };
}

function jsonLines(entries: readonly Entry[]): Uint8Array {
  const lines = entries.map(({ operation: { document, action, contentHash }, state, file }) => {
    const named = file && { file_name: file.name, file: file.path, bytes: file.bytes, sha256: file.sha256 };
    return `${JSON.stringify({ action, state, content_hash: contentHash, ...named, ...document })}\n`;
  });
  return Buffer.from(lines.join(''));
}

/** The reference names the document: its files are new with each write, and the reader removes them. */
function referenceOf({ kind, key }: Document): string {
  return `${kind} ${key}`;
}

const done = { create: 'created', amend: 'updated', cancel: 'cancelled' } as const;
