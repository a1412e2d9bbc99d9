/**
 * The file connector: the folder is the ERP's inbox. Each document is one JSON file, with a CSV of its lines where it has
 * lines, or the bytes where it is a file, under names that never change: writing the same again gives the same files. What
 * is taken back stays as a document with the state `withdrawn`: a reader that has imported it must learn of that.
 *
 * The JSON names the file beside it with its checksum and is written after it. Between the two renames, and after a kill
 * there, the checksum does not fit: a reader waits, and `lookup` reports the pair as neither the old state nor the new.
 */
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { access, constants, mkdir, readdir, readFile, rm, stat } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import {
  AppError,
  type CheckResult,
  type Document,
  defineConnector,
  documentKinds,
  type Found,
  type Operation,
  type Outcome,
  replaceFile,
} from 'sourcing-bridge/connector';
import { z } from 'zod';
import { linesAsCsv } from './lines-csv.ts';

const settings = z.strictObject({
  directory: z.string().min(1).describe('Where the files are written; a relative path starts at the data directory'),
});

/** A temporary file that is older than this was left by a process that died. */
const leftoverAfterMs = 10 * 60 * 1000;

export default defineConnector({
  name: 'file',
  settings,
  capabilities: { kinds: documentKinds, batchMax: 50, timeoutMs: 60_000, settleMs: 0 },
  async open({ directory }, { dataDir }) {
    const folder = resolve(dataDir, directory);
    await mkdir(folder, { recursive: true }).catch((cause: unknown) => {
      throw new AppError('invalid', `The folder ${folder} (settings.directory) cannot be made: ${String(cause)}`, {
        cause,
      });
    });
    await removeLeftovers(folder);
    return {
      check: async () => [await checkWritable(folder)],
      write: async (operations, signal) => {
        const outcomes: Outcome[] = [];
        for (const operation of operations)
          outcomes.push(signal.aborted ? stopped : await writeFiles(folder, operation, signal));
        return outcomes;
      },
      lookup: async (documents) => {
        const found: Found[] = [];
        for (const document of documents) {
          const held = await lookup(folder, document);
          if (held) found.push(held);
        }
        return found;
      },
      close: async () => undefined,
    };
  },
});

const stopped: Outcome = { status: 'retry', error: { type: 'transient', message: 'stopped before it was written' } };

/** `award_<event id>_<supplier id>`; what is in no UUID is escaped, so that two keys never share a name. */
function baseName({ kind, key }: Document): string {
  const escape = (character: string) => (character === '/' ? '_' : `%${character.codePointAt(0)?.toString(16)}%`);
  const name = `${kind}_${key.replaceAll(/[^A-Za-z0-9-]/gu, escape)}`;
  // Longer names are possible in no file system.
  return name.length <= nameLengthMax ? name : `${name.slice(0, nameLengthMax - 65)}_${sha256(name)}`;
}

const nameLengthMax = 200;

/**
 * The document's name in this folder. Keys of suppliers may differ in case only, and some file systems do not tell such
 * names apart: one whose name another key has goes by a name of its own.
 */
async function nameIn(folder: string, document: Document): Promise<string> {
  const name = baseName(document);
  if (document.kind !== 'supplier') return name;
  const json = await readIfAny(join(folder, `${name}.json`));
  const held = json === undefined ? undefined : keyForm.safeParse(parseJson(json)).data;
  if (held === undefined || held.key === document.key) return name;
  return `${name.slice(0, nameLengthMax - 65)}_${sha256(document.key)}`;
}

const keyForm = z.looseObject({ key: z.string() });

/** What is written beside the JSON, and how the JSON names it; undefined for a kind that has nothing beside it. */
interface Beside {
  readonly name: string;
  /** Undefined: it is to be removed. */
  readonly content: string | Uint8Array | undefined;
  readonly named: Readonly<Record<string, unknown>>;
}

async function besideOf(operation: Operation, base: string, signal: AbortSignal): Promise<Beside | undefined> {
  const { document, action, file } = operation;
  const csv = linesAsCsv(document);
  if (csv !== undefined) {
    const name = `${base}.csv`;
    return { name, content: csv, named: { lines_file: name, lines_sha256: sha256(csv) } };
  }
  if (document.kind !== 'file') return undefined;
  const name = `${base}.bin`;
  if (action === 'cancel') return { name, content: undefined, named: {} };
  if (!file) throw new Error('its bytes did not come with it');
  const bytes = await file.read(signal);
  return {
    name,
    content: bytes,
    named: { file_name: file.name, bytes_file: name, bytes: bytes.length, bytes_sha256: sha256(bytes) },
  };
}

async function writeFiles(folder: string, operation: Operation, signal: AbortSignal): Promise<Outcome> {
  const { document, contentHash, action } = operation;
  let base: string;
  let beside: Beside | undefined;
  try {
    base = await nameIn(folder, document);
    beside = await besideOf(operation, base, signal);
    if (beside?.content !== undefined) await replaceFile(join(folder, beside.name), beside.content, 0o644);
    else if (beside) await rm(join(folder, beside.name), { force: true });
  } catch (error) {
    return { status: 'retry', error: { type: 'transient', message: textOf(error) } };
  }
  const state = action === 'cancel' ? 'withdrawn' : document.kind === 'award' ? 'awarded' : 'current';
  const content = { state, content_hash: contentHash, ...beside?.named, ...document };
  try {
    await replaceFile(join(folder, `${base}.json`), `${JSON.stringify(content, null, 2)}\n`, 0o644);
  } catch (error) {
    // What is beside it may be in place: what the folder holds now is for `lookup` to say.
    return { status: 'unknown', message: textOf(error) };
  }
  const done = { create: 'created', amend: 'updated', cancel: 'cancelled' } as const;
  return { status: done[action], reference: `${base}.json` };
}

const heldForm = z.looseObject({
  state: z.string(),
  content_hash: z.string(),
  lines_sha256: z.string().optional(),
  bytes_sha256: z.string().optional(),
});

/** What is withdrawn is not held. Files that do not fit together, or are no document of ours, have no content hash. */
async function lookup(folder: string, document: Document): Promise<Found | undefined> {
  const base = await nameIn(folder, document);
  const json = await readIfAny(join(folder, `${base}.json`));
  if (json === undefined) return undefined;
  const held = heldForm.safeParse(parseJson(json)).data;
  const fits = held !== undefined && (await besideFits(folder, base, document, held));
  if (fits && held.state === 'withdrawn') return undefined;
  return { key: document.key, reference: `${base}.json`, contentHash: fits ? held.content_hash : undefined };
}

async function besideFits(
  folder: string,
  base: string,
  document: Document,
  held: z.output<typeof heldForm>,
): Promise<boolean> {
  if ('lines' in document) return (await checksumIfAny(join(folder, `${base}.csv`))) === held.lines_sha256;
  if (document.kind === 'file') return (await checksumIfAny(join(folder, `${base}.bin`))) === held.bytes_sha256;
  return true;
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

async function readIfAny(file: string): Promise<string | undefined> {
  return readFile(file, 'utf8').catch(undefinedIfMissing);
}

/** Undefined when there is no such file. */
async function checksumIfAny(file: string): Promise<string | undefined> {
  const hash = createHash('sha256');
  const read = async () => {
    for await (const chunk of createReadStream(file)) hash.update(chunk as Uint8Array);
    return hash.digest('hex');
  };
  return read().catch(undefinedIfMissing);
}

function undefinedIfMissing(error: unknown): undefined {
  if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined;
  throw error;
}

async function checkWritable(folder: string): Promise<CheckResult> {
  try {
    await access(folder, constants.W_OK | constants.X_OK);
    return { name: 'folder', ok: true, message: `${folder} can be written.` };
  } catch {
    return { name: 'folder', ok: false, message: `${folder} cannot be written: give this user the right to.` };
  }
}

/** What a kill between writing and renaming left. Names of our own only, and none that a living process may hold. */
async function removeLeftovers(folder: string): Promise<void> {
  for (const name of await readdir(folder)) {
    if (!ownLeftover.test(name)) continue;
    const file = join(folder, name);
    // Another process that starts now may be removing it, too.
    const found = await stat(file).catch(() => undefined);
    if (found && Date.now() - found.mtimeMs > leftoverAfterMs) await rm(file, { force: true });
  }
}

const ownLeftover = new RegExp(`^\\.(${documentKinds.join('|')})_.*\\.tmp$`);

function sha256(content: string | Uint8Array): string {
  return createHash('sha256').update(content).digest('hex');
}

function textOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
