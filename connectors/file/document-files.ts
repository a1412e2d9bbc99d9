/**
 * The files of a document in the layout `document`: the JSON, and its companions, which are the CSV of its lines, the
 * CSV of its bid sheet, or the bytes of a file. The JSON names each companion with its checksum.
 */
import { type Clock, type Document, fileBytes, type Operation, z } from 'sourcing-bridge/connector';
import { parseJson } from './document-names.ts';
import { bytesPath, stateOf } from './documents.ts';
import { checksumOf, type Folder, readText, sha256 } from './folder.ts';
import type { FileSettings } from './settings.ts';
import { tablesOf } from './table.ts';

/** A file beside the JSON. */
export interface Companion {
  readonly path: string;
  /** Undefined: the file is to be removed. */
  readonly content: Uint8Array | undefined;
  /** The members of the JSON that name it. */
  readonly named: Readonly<Record<string, unknown>>;
}

const heldForm = z.looseObject({
  key: z.string(),
  state: z.string(),
  content_hash: z.string(),
  lines_sha256: z.string().optional(),
  bid_sheet_sha256: z.string().optional(),
  bytes_sha256: z.string().optional(),
  // Only a path that this connector can have written, not one that leaves the folder.
  bytes_file: z
    .string()
    .refine((path) => !path.startsWith('/') && !path.split('/').includes('..'))
    .optional(),
});
/** The members of a document's JSON that the connector reads. */
export type HeldJson = z.output<typeof heldForm>;

export interface DocumentFiles {
  /**
   * The JSON of a base name. `held` is undefined when it is not one of ours; undefined as a whole when there is no
   * JSON.
   */
  readJson(base: string): Promise<{ readonly held: HeldJson | undefined } | undefined>;
  /**
   * The companions that a write of this operation makes or removes. Throws TransientError when bytes cannot be
   * downloaded.
   */
  companionsOf(operation: Operation, base: string, signal: AbortSignal): Promise<Companion[]>;
  /** Whether the companions in the folder are those that the JSON names. */
  companionsFit(document: Document, base: string, held: HeldJson): Promise<boolean>;
  /** The names of the files that a write of this document makes, without those of bytes. */
  namesOf(document: Document, base: string): string[];
  /** The path of the bytes of a file that has none yet. */
  newBytesPath(operation: Operation, base: string): string;
}

/** The files of documents in a folder. */
export function createDocumentFiles(folder: Folder, settings: FileSettings, clock: Clock): DocumentFiles {
  const { file_folder: template } = settings;

  async function readJson(base: string): Promise<{ held: HeldJson | undefined } | undefined> {
    const json = await readText(folder, `${base}.json`);
    return json === undefined ? undefined : { held: heldForm.safeParse(parseJson(json)).data };
  }

  function newBytesPath(operation: Operation, base: string): string {
    if (template === undefined) return `${base}.bin`;
    // A folder that has the key in its name contains no other files.
    const suffix = template.includes('{key}') ? '' : `-${sha256(operation.document.key).slice(0, 16)}`;
    return bytesPath(operation, template, new Date(clock.nowMs()), suffix);
  }

  function tableCompanions(operation: Operation, base: string): Companion[] {
    const entry = { operation, state: stateOf(operation) };
    return tablesOf(operation.document.kind, settings).map((table) => {
      const content = Buffer.concat([...table.render([entry]).parts]);
      const path = `${base}${table.suffix}.csv`;
      const name = table.suffix === '' ? 'lines' : 'bid_sheet';
      return { path, content, named: { [`${name}_file`]: path, [`${name}_sha256`]: sha256(content) } };
    });
  }

  async function bytesCompanion(operation: Operation, base: string, signal: AbortSignal): Promise<Companion> {
    const { action, file } = operation;
    const earlierPath = template === undefined ? undefined : (await readJson(base))?.held?.bytes_file;
    const bytes = await fileBytes(operation, signal);
    const path = earlierPath ?? newBytesPath(operation, base);
    if (action === 'cancel' || !bytes || !file) return { path, content: undefined, named: {} };
    return {
      path,
      content: bytes,
      named: { file_name: file.name, bytes_file: path, bytes: bytes.length, bytes_sha256: sha256(bytes) },
    };
  }

  return {
    readJson,
    newBytesPath,
    companionsOf: async (operation, base, signal) => {
      if ('lines' in operation.document) return tableCompanions(operation, base);
      return operation.document.kind === 'file' ? [await bytesCompanion(operation, base, signal)] : [];
    },
    companionsFit: async (document, base, held) => {
      if (document.kind === 'file') {
        const path = template === undefined ? `${base}.bin` : held.bytes_file;
        return path === undefined || (await checksumOf(folder, path)) === held.bytes_sha256;
      }
      if (!('lines' in document)) return true;
      if ((await checksumOf(folder, `${base}.csv`)) !== held.lines_sha256) return false;
      return (
        held.bid_sheet_sha256 === undefined ||
        (await checksumOf(folder, `${base}_bid_sheet.csv`)) === held.bid_sheet_sha256
      );
    },
    namesOf: (document, base) => {
      const tables = 'lines' in document ? tablesOf(document.kind, settings) : [];
      return [...tables.map(({ suffix }) => `${base}${suffix}.csv`), `${base}.json`];
    },
  };
}
