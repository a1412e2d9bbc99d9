/**
 * The file connector: the folder is the ERP's inbox. Each award is one JSON document and a CSV of its lines, under names
 * that never change, so writing the same award again gives the same files. An award that is taken back stays as a
 * document without lines and with the state `withdrawn`: a reader that has imported it must learn of that.
 */
import { createHash } from 'node:crypto';
import { access, mkdir, readdir, readFile, stat, unlink } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { stringify } from 'csv-stringify/sync';
import {
  AppError,
  type AwardDocument,
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
        for (const operation of operations) {
          if (signal.aborted) outcomes.push({ status: 'retry', error: { type: 'transient', message: 'stopped' } });
          else outcomes.push(await writeFiles(folder, operation));
        }
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

/** `award_<event id>_<supplier id>`: keys are UUIDs, and anything else is made harmless. */
function baseName({ kind, key }: Document): string {
  return `${kind}_${key.replaceAll(/[^A-Za-z0-9-]/g, '_')}`;
}

/** The CSV comes first: the JSON names it with its checksum, so whoever sees the JSON finds both in step. */
async function writeFiles(folder: string, operation: Operation): Promise<Outcome> {
  const { document, contentHash, action } = operation;
  const name = baseName(document);
  const csv = linesAsCsv(document);
  const content = {
    state: action === 'cancel' ? 'withdrawn' : 'awarded',
    content_hash: contentHash,
    lines_file: `${name}.csv`,
    lines_sha256: createHash('sha256').update(csv).digest('hex'),
    ...document,
  };
  try {
    await replaceFile(join(folder, `${name}.csv`), csv, 0o644);
    await replaceFile(join(folder, `${name}.json`), `${JSON.stringify(content, null, 2)}\n`, 0o644);
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    return { status: 'retry', error: { type: 'transient', message } };
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

async function lookup(folder: string, document: Document): Promise<Found | undefined> {
  const file = `${baseName(document)}.json`;
  let text: string;
  try {
    text = await readFile(join(folder, file), 'utf8');
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined;
    throw error;
  }
  const held = z.looseObject({ content_hash: z.string() }).safeParse(JSON.parse(text));
  return { key: document.key, reference: file, contentHash: held.data?.content_hash };
}

async function checkWritable(folder: string) {
  try {
    await access(folder, 2);
    return { name: 'folder', ok: true, message: `${folder} can be written.` };
  } catch {
    return { name: 'folder', ok: false, message: `${folder} cannot be written: give this user the right to.` };
  }
}

/** What a kill between writing and renaming left. Names of our own only, and none that a living process may hold. */
async function removeLeftovers(folder: string): Promise<void> {
  for (const name of await readdir(folder)) {
    if (!/^\.award_.*\.tmp$/.test(name)) continue;
    const { mtimeMs } = await stat(join(folder, name));
    if (Date.now() - mtimeMs > leftoverAfterMs) await unlink(join(folder, name));
  }
}
