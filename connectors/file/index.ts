/**
 * The file connector: the folder is the ERP's inbox. Each award is one JSON document and a CSV of its lines, under names
 * that never change, so writing the same award again gives the same files. An award that is taken back stays as a
 * document without lines and with the state `withdrawn`: a reader that has imported it must learn of that.
 *
 * The JSON names the CSV with its checksum and is written after it. Between the two renames, and after a kill there, the
 * checksum does not fit: a reader waits, and `lookup` reports the pair as neither the old state nor the new one.
 */
import { createHash } from 'node:crypto';
import { access, constants, mkdir, readdir, readFile, rm, stat } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { stringify } from 'csv-stringify/sync';
import {
  AppError,
  type AwardDocument,
  type CheckResult,
  type Document,
  defineConnector,
  type Found,
  type Operation,
  type Outcome,
  replaceFile,
} from 'sourcing-bridge/connector';
import { z } from 'zod';

const settings = z.strictObject({
  directory: z.string().min(1).describe('Where the files are written; a relative path starts at the data directory'),
});

/** A temporary file that is older than this was left by a process that died. */
const leftoverAfterMs = 10 * 60 * 1000;

export default defineConnector({
  name: 'file',
  settings,
  capabilities: { kinds: ['award'], batchMax: 50, timeoutMs: 30_000, settleMs: 0 },
  async open({ directory }, { dataDir }) {
    const folder = resolve(dataDir, directory);
    await mkdir(folder, { recursive: true }).catch((cause: unknown) => {
      throw new AppError('invalid', `The folder ${folder} cannot be made.`, { cause });
    });
    await removeLeftovers(folder);
    return {
      check: async () => [await checkWritable(folder)],
      write: async (operations, signal) => {
        const outcomes: Outcome[] = [];
        for (const operation of operations)
          outcomes.push(signal.aborted ? stopped : await writeFiles(folder, operation));
        return outcomes;
      },
      lookup: async (documents) => {
        const found = await Promise.all(documents.map((document) => lookup(folder, document)));
        return found.filter((one) => one !== undefined);
      },
      close: async () => undefined,
    };
  },
});

const stopped: Outcome = { status: 'retry', error: { type: 'transient', message: 'stopped before it was written' } };

/** `award_<event id>_<supplier id>`; what is in no UUID is escaped, so that two keys never share a name. */
function baseName({ kind, key }: Document): string {
  const escape = (character: string) => (character === '/' ? '_' : `%${character.codePointAt(0)?.toString(16)}%`);
  return `${kind}_${key.replaceAll(/[^A-Za-z0-9-]/gu, escape)}`;
}

async function writeFiles(folder: string, { document, contentHash, action }: Operation): Promise<Outcome> {
  const name = baseName(document);
  const csv = linesAsCsv(document);
  const content = {
    state: action === 'cancel' ? 'withdrawn' : 'awarded',
    content_hash: contentHash,
    lines_file: `${name}.csv`,
    lines_sha256: sha256(csv),
    ...document,
  };
  try {
    await replaceFile(join(folder, `${name}.csv`), csv, 0o644);
  } catch (error) {
    return { status: 'retry', error: { type: 'transient', message: textOf(error) } };
  }
  try {
    await replaceFile(join(folder, `${name}.json`), `${JSON.stringify(content, null, 2)}\n`, 0o644);
  } catch (error) {
    // The CSV is in place: what the folder holds now is for `lookup` to say.
    return { status: 'unknown', message: textOf(error) };
  }
  const done = { create: 'created', amend: 'updated', cancel: 'cancelled' } as const;
  return { status: done[action], reference: `${name}.json` };
}

function linesAsCsv(document: AwardDocument): string {
  const columns = [...new Set(document.lines.flatMap((line) => line.values.map(({ column }) => column)))];
  const rows = document.lines.map((line) => {
    const values = new Map(line.values.map(({ column, value }) => [column, value]));
    return [
      document.event.id,
      document.event.reference_id ?? '',
      document.event.name,
      document.supplier.id,
      document.supplier.external_id ?? '',
      document.supplier.name,
      line.lot,
      line.share,
      line.quantity ?? '',
      line.unit_price ?? '',
      document.currency,
      line.cost,
      line.historic_cost ?? '',
      line.savings ?? '',
      ...columns.map((column) => values.get(column) ?? ''),
    ];
  });
  return stringify([[...lineColumns, ...columns.map((column) => `sheet: ${column}`)], ...rows], {
    record_delimiter: 'windows',
  });
}

const lineColumns = [
  'event_id',
  'event_reference',
  'event_name',
  'supplier_id',
  'supplier_external_id',
  'supplier_name',
  'lot',
  'share',
  'quantity',
  'unit_price',
  'currency',
  'cost',
  'historic_cost',
  'savings',
];

const heldForm = z.looseObject({
  state: z.string(),
  content_hash: z.string(),
  lines_file: z.string(),
  lines_sha256: z.string(),
});

/** A withdrawn award is not held. Files that do not fit together, or are no document of ours, have no content hash. */
async function lookup(folder: string, document: Document): Promise<Found | undefined> {
  const name = baseName(document);
  const json = await readIfAny(join(folder, `${name}.json`));
  const csv = await readIfAny(join(folder, `${name}.csv`));
  if (json === undefined) return undefined;
  const held = heldForm.safeParse(parseJson(json));
  const fits = held.success && csv !== undefined && held.data.lines_sha256 === sha256(csv);
  if (fits && held.data.state === 'withdrawn') return undefined;
  return { key: document.key, reference: `${name}.json`, contentHash: fits ? held.data.content_hash : undefined };
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

async function readIfAny(file: string): Promise<string | undefined> {
  try {
    return await readFile(file, 'utf8');
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined;
    throw error;
  }
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
    if (!/^\.award_.*\.tmp$/.test(name)) continue;
    const file = join(folder, name);
    // Another process that starts now may be removing it, too.
    const found = await stat(file).catch(() => undefined);
    if (found && Date.now() - found.mtimeMs > leftoverAfterMs) await rm(file, { force: true });
  }
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}

function textOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
