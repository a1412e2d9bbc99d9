/**
 * Reads suppliers or requisitions from files that others drop into the folder. A file is taken before it is read
 * (taken-files.ts), and of each number only its newest entry counts (dropped-records.ts makes the records).
 */
import {
  type CheckResult,
  type ConnectorLog,
  type ReadPage,
  type ReadStream,
  type RecordFault,
  TransientError,
} from 'sourcing-bridge/connector';
import { entriesIn, type FileEntry } from './csv-entries.ts';
import { type DropRead, faultOf, faultOfHeader, type ReadEntry, recordsIn } from './dropped-records.ts';
import { joinPath } from './folder.ts';
import type { FileSettings } from './settings.ts';
import {
  type Checkpoint,
  checkpointOf,
  type Dropped,
  droppedName,
  filesToRead,
  listTaken,
  listWaiting,
  type Refused,
  takeFiles,
  takenFolder,
  takenPath,
} from './taken-files.ts';

export interface ReadDeps extends Omit<Dropped, 'settings' | 'faultOf'> {
  readonly csv: FileSettings['csv'];
  readonly log: ConnectorLog;
}

/** The entry of a number that counts: where it is, or why none does. */
interface Newest {
  readonly place: string;
  readonly file: string;
  readonly fault?: string;
}

/** The reader of a stream. Throws ConnectorErrors; after everything that can be read, also for files that cannot. */
export function createReader<Stream extends ReadStream>(deps: ReadDeps, source: DropRead<Stream>) {
  const { folder, log } = deps;
  const { settings } = source;
  const keyOf = ({ made }: ReadEntry<Stream>) => ('record' in made ? source.keyOf(made.record) : made.fault.key);

  return async function* read(checkpoint: string | undefined, signal: AbortSignal): AsyncGenerator<ReadPage<Stream>> {
    const stored = checkpointOf(checkpoint);
    const dropped = { ...deps, settings, faultOf: (path: string) => faultOfFile(deps, source, path, signal) };
    const { names, seen, refused } = await folder.during(signal, () => takeFiles(dropped, stored));
    let at: Checkpoint = { ...stored, seen };
    const files = filesToRead(names, stored, settings);
    if (stored.done !== undefined && stored.file !== undefined && !names.includes(stored.file))
      log.warn('a file was removed before it was read to its end', { file: stored.file });
    const newest = await newestEntries(files, signal);
    for (const name of files) {
      const skipped = name === stored.file ? (stored.done ?? 0) : 0;
      for await (const { entries, done } of pagesOf(name, skipped, signal)) {
        if (signal.aborted) throw new TransientError('stopped');
        at = { file: name, seen, ...(done === undefined ? {} : { done }) };
        const counted = entries.flatMap((entry) => counting(newest, name, entry));
        yield { ...pageOf(counted, name), checkpoint: JSON.stringify(at) };
      }
    }
    if (files.length === 0) yield { records: [], checkpoint: JSON.stringify(at) };
    if (refused.length > 0) throw refusedFiles(joinPath(folder.place, settings.folder), refused);
  };

  /** Where the newest entry of each number is: an older one that is read after it was read must not come back. */
  async function newestEntries(files: readonly string[], signal: AbortSignal): Promise<ReadonlyMap<string, Newest>> {
    const newest = new Map<string, Newest>();
    for (const file of files)
      for await (const entry of entriesOf(deps, source, file, signal)) {
        const key = keyOf(entry);
        if (key === undefined) continue;
        const isScattered = source.groupedBy !== undefined && newest.get(key)?.file === file;
        const fault = 'its rows do not stand together in the file: sort them by number';
        newest.set(key, { place: placeOf(file, entry), file, ...(isScattered ? { fault } : {}) });
      }
    return newest;
  }

  /** The entry, if it counts. */
  function counting(newest: ReadonlyMap<string, Newest>, file: string, entry: ReadEntry<Stream>): ReadEntry<Stream>[] {
    const key = keyOf(entry);
    if (key === undefined) return [entry];
    const { place, fault } = newest.get(key) ?? {};
    if (place !== placeOf(file, entry)) return [];
    return [fault === undefined ? entry : { ...entry, made: faultOf(fault, key) }];
  }

  /** The entries of a file behind the skipped ones, in pages; `done` is missing behind the last page. */
  async function* pagesOf(
    file: string,
    skipped: number,
    signal: AbortSignal,
  ): AsyncGenerator<{ entries: ReadEntry<Stream>[]; done: number | undefined }> {
    let entries: ReadEntry<Stream>[] = [];
    let count = 0;
    for await (const entry of entriesOf(deps, source, file, signal)) {
      if (entries.length === settings.page) {
        yield { entries, done: count };
        entries = [];
      }
      count += 1;
      if (count > skipped) entries.push(entry);
    }
    yield { entries, done: undefined };
  }
}

function refusedFiles(place: string, refused: readonly Refused[]): TransientError {
  const named = refused.slice(0, 3).map(({ name, why }) => `${name}: ${why}`);
  const more = refused.length > named.length ? `; and ${refused.length - named.length} more` : '';
  return new TransientError(
    `${place} has files that are refused as a whole: ${named.join('; ')}${more}. Correct or remove them; all others were read.`,
  );
}

/**
 * The numbers of all requisitions that are open in the newest file, for files that have all of them. An entry that cannot
 * be read counts as open, under its number. Throws TransientError where it has no number, and where there is no file: what
 * is open is not known then.
 */
export async function* openNumbers(
  deps: ReadDeps,
  source: DropRead<'requisition'>,
  signal: AbortSignal,
): AsyncGenerator<readonly string[]> {
  const { folder } = deps;
  const { settings } = source;
  const file = (await folder.during(signal, () => listTaken({ folder, settings }))).at(-1);
  if (file === undefined)
    throw new TransientError(
      `${joinPath(folder.place, settings.folder)} has had no file like ${settings.files}, or it was removed from ${takenFolder}: which requisitions are open is not known.`,
    );
  // As for a read, the newest entry of a number counts.
  const open = new Set<string>();
  for await (const { line, made } of entriesOf(deps, source, file, signal)) {
    if ('fault' in made) {
      const { key, why } = made.fault;
      if (key === undefined)
        throw new TransientError(
          `${droppedName(file)}, line ${line}: ${why}. So which requisitions are open is not known: drop a corrected file.`,
        );
      open.add(key);
    } else if (made.record.open) open.add(made.record.reference_id);
    else if (source.groupedBy === undefined) open.delete(made.record.reference_id);
  }
  const numbers = [...open];
  for (let from = 0; from < numbers.length; from += settings.page) yield numbers.slice(from, from + settings.page);
}

/** Says what waits and what was taken. */
export async function checkRead<Stream extends ReadStream>(
  { folder }: ReadDeps,
  { settings, stream }: DropRead<Stream>,
): Promise<CheckResult> {
  const name = `read ${stream}s`;
  try {
    const waiting = await listWaiting({ folder, settings });
    const taken = await listTaken({ folder, settings });
    const message = `${joinPath(folder.place, settings.folder)}: ${waiting.length} files like ${settings.files} wait, ${taken.length} were taken.`;
    return { name, ok: true, message };
  } catch (error) {
    return { name, ok: false, message: error instanceof Error ? error.message : String(error) };
  }
}

function placeOf<Stream extends ReadStream>(file: string, { line }: ReadEntry<Stream>): string {
  return `${file} ${line}`;
}

function pageOf<Stream extends ReadStream>(entries: readonly ReadEntry<Stream>[], file: string) {
  const faults = entries.flatMap(({ line, made }): RecordFault[] =>
    'fault' in made ? [{ ...made.fault, where: `${droppedName(file)}, line ${line}` }] : [],
  );
  return { records: entries.flatMap(({ made }) => ('record' in made ? [made.record] : [])), faults };
}

/** The entries of a taken file; a file that cannot be read as a whole is one fault. */
async function* entriesOf<Stream extends ReadStream>(
  deps: ReadDeps,
  source: DropRead<Stream>,
  file: string,
  signal: AbortSignal,
): AsyncGenerator<ReadEntry<Stream>> {
  const path = takenPath(source.settings, file);
  const why = await faultOfFile(deps, source, path, signal);
  if (why !== undefined) return yield { line: 1, made: faultOf(why) };
  yield* recordsIn(source, linesOf(deps, source, path, signal));
}

/** Why a file cannot be read as a whole: its header does not fit the settings, or it is no regular file. */
async function faultOfFile<Stream extends ReadStream>(
  deps: ReadDeps,
  source: DropRead<Stream>,
  path: string,
  signal: AbortSignal,
): Promise<string | undefined> {
  const info = await deps.folder.during(signal, () => deps.folder.stat(path));
  // Somebody has removed it just now.
  if (!info) return undefined;
  if (info.type !== 'file') return 'it is not a regular file';
  if (source.settings.format === 'jsonl') return undefined;
  const lines = linesOf(deps, source, path, signal);
  const header = await lines.next();
  await lines.return(undefined);
  return faultOfHeader(header.done === true ? undefined : header.value, source.columns);
}

function linesOf<Stream extends ReadStream>(
  { folder, csv }: ReadDeps,
  { settings }: DropRead<Stream>,
  path: string,
  signal: AbortSignal,
): AsyncGenerator<FileEntry> {
  const readPiece = (range: { from: number; to: number }) => folder.during(signal, () => folder.read(path, range));
  return entriesIn(readPiece, {
    encoding: csv.encoding,
    delimiter: settings.format === 'csv' ? csv.delimiter : undefined,
    endsAnyhow: settings.marker !== undefined,
  });
}
