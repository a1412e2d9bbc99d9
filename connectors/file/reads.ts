/**
 * Reads suppliers from files that others drop into the folder. A file that is complete is taken: it gets a number and
 * moves into the folder `taken`, in one step, before it is read. So each is read in the order in which it was taken, a
 * producer may use the same name again, and a process that dies at any moment leaves a file either to be taken or
 * numbered after everything that was read.
 *
 *     vendors.csv, vendors.csv.ok          dropped: the marker says that it is complete
 *     taken/00000017-9f3c21aa-vendors.csv  taken; the checkpoint says: file 17, from line 501 on
 */
import { randomBytes } from 'node:crypto';
import {
  type CheckResult,
  type Clock,
  ConfigError,
  type ConnectorLog,
  compileJsonPath,
  compileSupplierPlaces,
  namedPlaces,
  type ReadPage,
  type RecordFault,
  type SupplierRecord,
  TransientError,
  z,
} from 'sourcing-bridge/connector';
import { type Folder, joinPath, NoSuchFile } from './folder.ts';
import { type LineEntry, type Position, readEntries } from './lines.ts';
import type { FileSettings, ReadSettings } from './settings.ts';

const checkpointForm = z.object({
  /** The last file that was begun, and where its next entry is; without a position it was read to its end. */
  file: z.string().optional(),
  at: z.object({ offset: z.number(), line: z.number() }).optional(),
  /** Files that wait: their size, their time of change, and since when both are the same. */
  seen: z.record(z.string(), z.object({ bytes: z.number(), modifiedMs: z.number(), sinceMs: z.number() })),
});
type Checkpoint = z.output<typeof checkpointForm>;

const takenName = /^(\d{8})-[0-9a-f]{8}-(.+)$/;
/** Programs write under such names until a file is complete. */
const unfinished = /^\.|\.(?:tmp|temp|part|partial|filepart|crdownload|swp)$|~$/i;
const seenMax = 1_000;
const start: Position = { offset: 0, line: 1 };

interface ReadDeps {
  readonly folder: Folder;
  readonly settings: ReadSettings;
  readonly csv: FileSettings['csv'];
  readonly clock: Clock;
  readonly log: ConnectorLog;
  /** Whether the folder's times are of this machine's clock. */
  readonly isLocal: boolean;
}

/** The reader of suppliers. Throws ConnectorErrors. */
export function createSupplierReader(deps: ReadDeps) {
  const { folder, settings, log } = deps;
  const takenPath = (name: string) => joinPath(settings.folder, settings.taken, name);

  return async function* read(
    checkpoint: string | undefined,
    signal: AbortSignal,
  ): AsyncGenerator<ReadPage<'supplier'>> {
    const stored = checkpointOf(checkpoint);
    const { names, seen } = await folder.during(signal, () => takeFiles(deps, stored));
    let at: Checkpoint = { ...stored, seen };
    const files = filesToRead(names, stored, settings);
    if (stored.at && stored.file !== undefined && !names.includes(stored.file))
      log.warn('a file was removed before it was read to its end', { file: stored.file });
    const newest = await newestEntries(files, signal, stored);
    for (const name of files) {
      for await (const { entries, next } of pagesOf(deps, takenPath(name), positionIn(name, stored), signal)) {
        if (signal.aborted) throw new TransientError('stopped');
        at = { file: name, seen, ...(next ? { at: next } : {}) };
        const counting = entries.filter((entry) => isNewest(newest, name, entry));
        yield { ...pageOf(counting, name), checkpoint: JSON.stringify(at) };
      }
    }
    if (files.length === 0) yield { records: [], checkpoint: JSON.stringify(at) };
  };

  /** Where the newest entry of each supplier is: an older one that is read after it was read must not come back. */
  async function newestEntries(files: readonly string[], signal: AbortSignal, stored: Checkpoint) {
    const newest = new Map<string, string>();
    for (const name of files)
      for await (const { entries } of pagesOf(deps, takenPath(name), positionIn(name, stored), signal))
        for (const entry of entries) {
          const key = keyOf(entry);
          if (key !== undefined) newest.set(key, placeOf(name, entry));
        }
    return newest;
  }
}

function positionIn(name: string, { file, at }: Checkpoint): Position {
  return name === file && at ? at : start;
}

const placeOf = (file: string, { line }: ReadEntry) => `${file} ${line}`;
const keyOf = ({ made }: ReadEntry) => ('record' in made ? made.record.external_id : made.fault.key);

function isNewest(newest: ReadonlyMap<string, string>, file: string, entry: ReadEntry): boolean {
  const key = keyOf(entry);
  return key === undefined || newest.get(key) === placeOf(file, entry);
}

function pageOf(entries: readonly ReadEntry[], name: string): { records: SupplierRecord[]; faults: RecordFault[] } {
  const file = takenName.exec(name)?.[2] ?? name;
  return {
    records: entries.flatMap(({ made }) => ('record' in made ? [made.record] : [])),
    faults: entries.flatMap(({ line, made }) =>
      'fault' in made ? [{ ...made.fault, where: `${file}, line ${line}` }] : [],
    ),
  };
}

/** Says what waits and what was taken. */
export async function checkRead({ folder, settings }: ReadDeps): Promise<CheckResult> {
  const name = 'read';
  try {
    const waiting = matching(await folder.list(settings.folder), settings);
    const taken = (await folder.list(joinPath(settings.folder, settings.taken))).filter((each) => takenName.test(each));
    const message = `${joinPath(folder.place, settings.folder)}: ${waiting.length} files like ${settings.files} wait, ${taken.length} were taken.`;
    return { name, ok: true, message };
  } catch (error) {
    return { name, ok: false, message: error instanceof Error ? error.message : String(error) };
  }
}

function checkpointOf(stored: string | undefined): Checkpoint {
  if (stored === undefined) return { seen: {} };
  let given: unknown;
  try {
    given = JSON.parse(stored);
  } catch {
    given = undefined;
  }
  const read = checkpointForm.safeParse(given);
  if (!read.success)
    throw new ConfigError('The checkpoint was not written by the file connector: start this read from the beginning.');
  return read.data;
}

/** Those that were not read to their end, in their order. Of whole files only the newest counts. */
function filesToRead(names: readonly string[], { file, at }: Checkpoint, { content }: ReadSettings): string[] {
  const wanted = content === 'whole' ? names.slice(-1) : names;
  return wanted.filter((name) => file === undefined || name > file || (name === file && at !== undefined));
}

function matching(names: readonly string[], { files }: ReadSettings): string[] {
  const parts = files.split('*').map((part) => part.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&'));
  const pattern = new RegExp(`^${parts.join('.*')}$`);
  return names.filter((name) => pattern.test(name) && !unfinished.test(name)).toSorted();
}

/** Takes what is complete. Returns the taken files in their order, and what still waits. */
async function takeFiles(deps: ReadDeps, stored: Checkpoint): Promise<{ names: string[]; seen: Checkpoint['seen'] }> {
  const { folder, settings } = deps;
  const present = new Set(await folder.list(settings.folder));
  const takenFolder = joinPath(settings.folder, settings.taken);
  const names = (await folder.list(takenFolder)).filter((name) => takenName.test(name)).toSorted();
  let last = Math.max(numberOf(names.at(-1)), numberOf(stored.file));
  const seen: Checkpoint['seen'] = {};
  for (const name of matching([...present], settings)) {
    const path = joinPath(settings.folder, name);
    const look = await isComplete(deps, path, name, present, stored);
    if (look.waits && Object.keys(seen).length < seenMax) seen[name] = look.waits;
    if (!look.isComplete) continue;
    last += 1;
    const taken = `${String(last).padStart(8, '0')}-${randomBytes(4).toString('hex')}-${name}`;
    try {
      await folder.move(path, joinPath(takenFolder, taken));
    } catch (error) {
      // Its producer has removed or renamed it.
      if (error instanceof NoSuchFile) continue;
      throw error;
    }
    names.push(taken);
    if (settings.marker !== undefined) await folder.remove(`${path}${settings.marker}`);
  }
  await removeStaleMarkers(deps, present);
  return { names, seen };
}

/** A process that died after it had taken a file left its marker: the next file of that name would count as complete. */
async function removeStaleMarkers({ folder, settings }: ReadDeps, present: ReadonlySet<string>): Promise<void> {
  const { marker } = settings;
  if (marker === undefined) return;
  for (const name of present) {
    const file = name.endsWith(marker) ? name.slice(0, -marker.length) : '';
    if (file === '' || present.has(file) || matching([file], settings).length === 0) continue;
    if (!(await folder.stat(joinPath(settings.folder, file)))) await folder.remove(joinPath(settings.folder, name));
  }
}

function numberOf(name: string | undefined): number {
  return Number(takenName.exec(name ?? '')?.[1] ?? 0);
}

async function isComplete(
  { folder, settings, clock, isLocal }: ReadDeps,
  path: string,
  name: string,
  present: ReadonlySet<string>,
  { seen }: Checkpoint,
): Promise<{ isComplete: boolean; waits?: Checkpoint['seen'][string] }> {
  if (settings.marker !== undefined) return { isComplete: present.has(`${name}${settings.marker}`) };
  const info = await folder.stat(path);
  if (!info) return { isComplete: false };
  const quietMs = settings.quiet_seconds * 1_000;
  const nowMs = clock.nowMs();
  const before = seen[name];
  const isSame = before?.bytes === info.bytes && before.modifiedMs === info.modifiedMs;
  const sinceMs = isSame ? before.sinceMs : nowMs;
  // A server's clock may be wrong: only what was seen twice counts there.
  const isOld = isLocal && nowMs - info.modifiedMs >= quietMs;
  if (quietMs === 0 || isOld || (isSame && nowMs - sinceMs >= quietMs)) return { isComplete: true };
  return { isComplete: false, waits: { ...info, sinceMs } };
}

type Made = { readonly record: SupplierRecord } | { readonly fault: RecordFault };

interface ReadEntry {
  readonly line: number;
  readonly made: Made;
}

/** The entries of a file in pages; `next` is missing behind the last page. */
async function* pagesOf(
  { folder, settings, csv }: ReadDeps,
  path: string,
  from: Position,
  signal: AbortSignal,
): AsyncGenerator<{ entries: ReadEntry[]; next: Position | undefined }> {
  const readPiece = (range: { from: number; to: number }) => folder.during(signal, () => folder.read(path, range));
  const lineSettings = {
    encoding: csv.encoding,
    delimiter: settings.format === 'csv' ? csv.delimiter : undefined,
    endsAnyhow: settings.marker !== undefined,
  };
  let toRecord: (entry: LineEntry) => Made;
  let begin = from;
  if (settings.format === 'jsonl') toRecord = compileJson(settings);
  else {
    const [header] = await firstOf(readEntries(readPiece, start, lineSettings));
    toRecord = compileRows(settings, header);
    if (header && from.offset === 0) begin = header.next;
  }
  let entries: ReadEntry[] = [];
  let next: Position | undefined;
  for await (const entry of readEntries(readPiece, begin, lineSettings)) {
    if (entries.length === settings.page) {
      yield { entries, next };
      entries = [];
    }
    entries.push({ line: entry.line, made: toRecord(entry) });
    next = entry.next;
  }
  yield { entries, next: undefined };
}

async function firstOf(entries: AsyncGenerator<LineEntry>): Promise<LineEntry[]> {
  for await (const entry of entries) return [entry];
  return [];
}

/** The page names the place. */
const faultOf = (why: string): Made => ({ fault: { where: '', why } });

function compileJson({ record }: ReadSettings): (entry: LineEntry) => Made {
  const named = new Set(namedPlaces(record));
  const toRecord = compileSupplierPlaces<unknown>(record, compileJsonPath, (value) =>
    Object.fromEntries(
      Object.entries(typeof value === 'object' && value !== null ? value : {}).filter(
        ([name, member]) => !named.has(name) && (typeof member !== 'object' || member === null),
      ),
    ),
  );
  return ({ text, fault }) => {
    if (fault !== undefined) return faultOf(`it ${fault}`);
    try {
      return toRecord(exactJson(text), '');
    } catch (error) {
      if (!(error instanceof SyntaxError)) throw error;
      return faultOf('it is not JSON');
    }
  };
}

/** Numbers stay as the texts that they are: 12.50. */
function exactJson(text: string): unknown {
  return JSON.parse(text, (_name, value: unknown, ...[context]: readonly { source?: string }[]) =>
    typeof value === 'number' ? (context?.source ?? value) : value,
  );
}

/** Where the header does not fit the settings, every row of the file is a fault that says so. */
function compileRows({ record }: ReadSettings, header: LineEntry | undefined): (entry: LineEntry) => Made {
  const columns = (header?.cells ?? []).map((name) => name.trim());
  const named = namedPlaces(record);
  const spoiled = faultOfHeader(header, columns, named);
  const toRecord = compileSupplierPlaces<Readonly<Record<string, string>>>(
    record,
    (column) => (row) => row[column],
    (row) => Object.fromEntries(Object.entries(row).filter(([column]) => column !== '' && !named.includes(column))),
  );
  return ({ cells, fault }) => {
    if (spoiled !== undefined) return faultOf(spoiled);
    if (fault !== undefined || cells === undefined) return faultOf(`it ${fault ?? 'cannot be read'}`);
    if (cells.length !== columns.length)
      return faultOf(`it has ${cells.length} cells, and the header has ${columns.length}`);
    return toRecord(Object.fromEntries(columns.map((column, index) => [column, cells[index] ?? ''])), '');
  };
}

function faultOfHeader(
  header: LineEntry | undefined,
  columns: readonly string[],
  named: readonly string[],
): string | undefined {
  if (header?.fault !== undefined) return `the header ${header.fault}`;
  const missing = named.find((name) => !columns.includes(name));
  if (missing !== undefined) return `the header has no column "${missing}"`;
  const repeated = columns.find((name, index) => columns.indexOf(name) !== index);
  return repeated === undefined ? undefined : `the header has the column "${repeated}" twice`;
}
