/**
 * The layout `document`: each document is one JSON file with its companion (a CSV of its lines, or the bytes of a
 * file), under names that follow from its key, so writing the same document again makes the same files. A withdrawn
 * document stays with the state `withdrawn`, because a reader that has imported it must learn of the withdrawal.
 *
 * All are written beside their names first. The companion gets its name, then the JSON, which names it with its
 * checksum. What a kill leaves, by the line at which it comes:
 *
 *     write .award_e1_s1.csv.5f….tmp, .award_e1_s1.json.9c….tmp   temporary files, removed after a day
 *     move the CSV to award_e1_s1.csv                             the old JSON, whose checksum does not fit
 *     move the JSON to award_e1_s1.json                           the new document
 *
 * After the second line a reader waits, and `lookup` reports neither the old nor the new content hash: the bridge writes
 * the document again.
 */
import {
  type Document,
  type Found,
  fileBytes,
  lookupEach,
  type Operation,
  type Outcome,
  type ReadBack,
  readBackEach,
  type TakenDocument,
  UnknownOutcome,
  writeEach,
} from 'sourcing-bridge/connector';
import { type Deadline, dropFiles, type Folder, readJson, sha256, temporaryNameOf } from './folder.ts';
import { companionsFit, type HeldJson, heldForm, readBackFrom } from './held-document.ts';
import { baseName, bytesPath } from './names.ts';
import type { FileSettings } from './settings.ts';
import { createTable, stateOf } from './table.ts';

/** How many documents are written or looked up at once: what takes time is waiting for the disk or the server. */
export const documentsAtOnce = 8;

/** A file beside the JSON, and the members of the JSON that name it. */
interface Companion {
  readonly path: string;
  readonly content: Uint8Array;
  readonly named: Readonly<Record<string, unknown>>;
}

/** The files of a document. `held` is undefined when there is no JSON, null when it is not one of ours. */
interface Place {
  readonly base: string;
  readonly held: HeldJson | undefined | null;
}

interface Deps {
  readonly folder: Folder;
  readonly settings: FileSettings;
}

/** The layout `document` in a folder. */
export function createDocumentLayout(folder: Folder, settings: FileSettings) {
  const deps: Deps = { folder, settings };
  return {
    write: (operations: readonly Operation[], signal: AbortSignal, deadline: Deadline): Promise<Outcome[]> => {
      const keys = new Set(operations.map(({ document }) => document.key));
      // Suppliers are written one after another, because `placeOf` looks whether a name is free before it is taken.
      const isSequential = operations[0]?.document.kind === 'supplier' || keys.size < operations.length;
      const atOnce = isSequential ? 1 : documentsAtOnce;
      return writeEach(operations, (operation) => writeOne(deps, operation, signal, deadline), { signal, atOnce });
    },
    lookup: (documents: readonly Document[], signal: AbortSignal) =>
      lookupEach(documents, (document) => lookupOne(folder, document), { signal, atOnce: documentsAtOnce }),
    readBack: (deliveries: readonly TakenDocument[], signal: AbortSignal): Promise<ReadBack[]> => {
      const read = async ({ document }: TakenDocument): Promise<ReadBack> => {
        const { base, held } = await placeOf(folder, document);
        return held === undefined
          ? { key: document.key, status: 'missing' }
          : readBackFrom(folder, document, `${base}.json`, held);
      };
      return readBackEach(deliveries, read, { signal, atOnce: documentsAtOnce });
    },
  };
}

async function readAt(folder: Folder, base: string): Promise<Place> {
  const json = await readJson(folder, `${base}.json`);
  return { base, held: json === undefined ? undefined : (heldForm.safeParse(json).data ?? null) };
}

/**
 * Keys of suppliers may differ only in case, and some file systems do not distinguish such names. A supplier whose
 * name belongs to another key gets a name with its checksum.
 */
async function placeOf(folder: Folder, document: Document): Promise<Place> {
  const place = await readAt(folder, baseName(document));
  if (document.kind !== 'supplier' || !place.held || place.held.key === document.key) return place;
  return readAt(folder, `${place.base.slice(0, 135)}_${sha256(document.key)}`);
}

async function companionOf(
  { settings }: Deps,
  operation: Operation,
  { base, held }: Place,
  signal: AbortSignal,
): Promise<Companion | undefined> {
  const { document, file } = operation;
  if ('lines' in document) {
    const { content } = createTable(document.kind, settings)([{ operation, state: stateOf(operation) }]);
    const path = `${base}.csv`;
    return { path, content, named: { lines_file: path, lines_sha256: sha256(content) } };
  }
  const content = await fileBytes(operation, signal);
  if (!content || !file) return undefined;
  const path = held?.bytes_file ?? bytesPath(file.name, `-${sha256(document.key).slice(0, 16)}`);
  const named = { file_name: file.name, bytes_file: path, bytes: content.length, bytes_sha256: sha256(content) };
  return { path, content, named };
}

async function writeOne(deps: Deps, operation: Operation, signal: AbortSignal, deadline: Deadline): Promise<Outcome> {
  const { folder } = deps;
  const { document, action, contentHash } = operation;
  const place = await placeOf(folder, document);
  const companion = await companionOf(deps, operation, place, signal);
  const content = { state: stateOf(operation), content_hash: contentHash, ...companion?.named, ...document };
  const json = { path: `${place.base}.json`, content: Buffer.from(`${JSON.stringify(content, null, 2)}\n`) };
  const files = [...(companion ? [companion] : []), json].map((file) => ({
    ...file,
    temporary: temporaryNameOf(file.path),
  }));
  let isChanged = false;
  try {
    for (const { temporary, content: bytes } of files) await folder.write(temporary, bytes);
    deadline();
    // The bytes of a withdrawn file go before the JSON that says so.
    if (action === 'cancel' && place.held?.bytes_file !== undefined) {
      await folder.remove(place.held.bytes_file);
      isChanged = true;
    }
    for (const { temporary, path } of files) {
      await folder.move(temporary, path);
      isChanged = true;
    }
  } catch (error) {
    await dropFiles(
      folder,
      files.map(({ temporary }) => temporary),
      error,
    );
    if (!isChanged) throw error;
    // The companion is in place already: `lookup` has to find out what the folder holds now.
    throw new UnknownOutcome(error instanceof Error ? error.message : String(error), { cause: error });
  }
  // A create for which there is a JSON already is an amend.
  const isAmend = action === 'create' && place.held !== undefined;
  return { status: done[isAmend ? 'amend' : action], reference: json.path };
}

/** A withdrawn document is not found. Without a content hash: files that do not fit together, or a foreign JSON. */
async function lookupOne(folder: Folder, document: Document): Promise<Found[]> {
  const { base, held } = await placeOf(folder, document);
  if (held === undefined) return [];
  const fits = held !== null && (await companionsFit(folder, held));
  if (fits && held.state === 'withdrawn') return [];
  return [{ key: document.key, reference: `${base}.json`, contentHash: fits ? held.content_hash : undefined }];
}

const done = { create: 'created', amend: 'updated', cancel: 'cancelled' } as const;
