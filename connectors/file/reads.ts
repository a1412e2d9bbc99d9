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
  type RecordOf,
  TransientError,
} from 'sourcing-bridge/connector';
import {
  type DropRead,
  faultOf,
  faultOfHeader,
  jsonRecords,
  type Made,
  type ReadEntry,
  rowRecords,
} from './dropped-records.ts';
import { joinPath } from './folder.ts';
import { type LineEntry, type Position, readEntries } from './lines.ts';
import type { FileSettings } from './settings.ts';
import {
  type Checkpoint,
  checkpointOf,
  countWaiting,
  type Dropped,
  droppedName,
  filesToRead,
  listTaken,
  takeFiles,
  takenPath,
} from './taken-files.ts';

const start: Position = { offset: 0, line: 1 };

export interface ReadDeps extends Omit<Dropped, 'settings'> {
  readonly csv: FileSettings['csv'];
  readonly log: ConnectorLog;
}

/** The entry of a number that counts: where it is, or why none does. */
interface Newest {
  readonly place: string;
  readonly file: string;
  readonly fault?: string;
}

/** The reader of a stream. Throws ConnectorErrors. */
export function createReader<Stream extends ReadStream>(deps: ReadDeps, source: DropRead<Stream>) {
  const { folder, log } = deps;
  const { settings } = source;
  const dropped: Dropped = { ...deps, settings };
  const keyOf = ({ made }: ReadEntry<Stream>) => ('record' in made ? source.keyOf(made.record) : made.fault.key);

  return async function* read(checkpoint: string | undefined, signal: AbortSignal): AsyncGenerator<ReadPage<Stream>> {
    const stored = checkpointOf(checkpoint);
    const { names, seen } = await folder.during(signal, () => takeFiles(dropped, stored));
    let at: Checkpoint = { ...stored, seen };
    const files = filesToRead(names, stored, settings);
    if (stored.at && stored.file !== undefined && !names.includes(stored.file))
      log.warn('a file was removed before it was read to its end', { file: stored.file });
    const newest = await newestEntries(files, signal);
    for (const name of files) {
      const from = name === stored.file && stored.at ? stored.at : start;
      for await (const { entries, next } of pagesOf(name, from, signal)) {
        if (signal.aborted) throw new TransientError('stopped');
        at = { file: name, seen, ...(next ? { at: next } : {}) };
        yield {
          ...pageOf(
            entries.flatMap((entry) => counting(newest, name, entry)),
            name,
          ),
          checkpoint: JSON.stringify(at),
        };
      }
    }
    if (files.length === 0) yield { records: [], checkpoint: JSON.stringify(at) };
  };

  /**
   * Where the newest entry of each number is: an older one that is read after it was read must not come back. Each file
   * is read from its beginning, also where the read goes on in its middle: rows that do not stand together are seen so.
   */
  async function newestEntries(files: readonly string[], signal: AbortSignal): Promise<ReadonlyMap<string, Newest>> {
    const newest = new Map<string, Newest>();
    for (const file of files)
      for await (const entry of entriesOf(deps, source, file, start, signal)) {
        const key = keyOf(entry);
        if (key === undefined) continue;
        const place = placeOf(file, entry);
        const before = newest.get(key);
        const isScattered = source.groupedBy !== undefined && before?.file === file;
        const fault = 'its rows do not stand together in the file: sort them by number';
        newest.set(key, { place, file, ...(isScattered ? { fault } : {}) });
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

  /** The entries of a file in pages; `next` is missing behind the last page. */
  async function* pagesOf(
    file: string,
    from: Position,
    signal: AbortSignal,
  ): AsyncGenerator<{ entries: ReadEntry<Stream>[]; next: Position | undefined }> {
    let entries: ReadEntry<Stream>[] = [];
    let next: Position | undefined;
    for await (const entry of entriesOf(deps, source, file, from, signal)) {
      if (entries.length === settings.page) {
        yield { entries, next };
        entries = [];
      }
      entries.push(entry);
      next = entry.next;
    }
    yield { entries, next: undefined };
  }
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
  const taken = await folder.during(signal, () => listTaken({ folder, settings }));
  const file = taken.at(-1);
  if (file === undefined)
    throw new TransientError(
      `${joinPath(folder.place, settings.folder)} has had no file like ${settings.files}, or it was removed from ${settings.taken}: which requisitions are open is not known.`,
    );
  const spoiled =
    settings.format === 'csv' ? faultOfHeader(await headerOf(deps, source, file, signal), source.columns) : undefined;
  if (spoiled !== undefined) throw notKnown(file, 1, spoiled);
  // As for a read, the newest entry of a number counts.
  const open = new Set<string>();
  for await (const { line, made } of entriesOf(deps, source, file, start, signal)) {
    if ('fault' in made && made.fault.key === undefined) throw notKnown(file, line, made.fault.why);
    if ('record' in made && !made.record.open && source.groupedBy === undefined) open.delete(made.record.reference_id);
    if ('fault' in made) open.add(made.fault.key ?? '');
    else if (made.record.open) open.add(made.record.reference_id);
  }
  const numbers = [...open];
  for (let from = 0; from < numbers.length; from += settings.page) yield numbers.slice(from, from + settings.page);
}

function notKnown(file: string, line: number, why: string): TransientError {
  return new TransientError(
    `${droppedName(file)}, line ${line}: ${why}. So which requisitions are open is not known: drop a corrected file.`,
  );
}

/** Says what waits and what was taken. */
export async function checkRead<Stream extends ReadStream>(
  { folder }: ReadDeps,
  { settings, stream }: DropRead<Stream>,
): Promise<CheckResult> {
  const name = `read ${stream}s`;
  try {
    const waiting = await countWaiting({ folder, settings });
    const taken = await listTaken({ folder, settings });
    const message = `${joinPath(folder.place, settings.folder)}: ${waiting} files like ${settings.files} wait, ${taken.length} were taken.`;
    return { name, ok: true, message };
  } catch (error) {
    return { name, ok: false, message: error instanceof Error ? error.message : String(error) };
  }
}

function placeOf<Stream extends ReadStream>(file: string, { line }: ReadEntry<Stream>): string {
  return `${file} ${line}`;
}

function pageOf<Stream extends ReadStream>(
  entries: readonly ReadEntry<Stream>[],
  file: string,
): { records: RecordOf<Stream>[]; faults: RecordFault[] } {
  const named = (line: number, made: Made<Stream>) =>
    'fault' in made ? [{ ...made.fault, where: `${droppedName(file)}, line ${line}` }] : [];
  return {
    records: entries.flatMap(({ made }) => ('record' in made ? [made.record] : [])),
    faults: entries.flatMap(({ line, made }) => named(line, made)),
  };
}

/** The entries of a taken file from a position on; at its beginning, a header is left out. */
async function* entriesOf<Stream extends ReadStream>(
  deps: ReadDeps,
  source: DropRead<Stream>,
  file: string,
  from: Position,
  signal: AbortSignal,
): AsyncGenerator<ReadEntry<Stream>> {
  const lines = (begin: Position) => linesOf(deps, source, file, begin, signal);
  if (source.ofJson) return yield* jsonRecords(source.ofJson, lines(from));
  const header = await headerOf(deps, source, file, signal);
  return yield* rowRecords(source, header, lines(header && from.offset === 0 ? header.next : from));
}

async function headerOf<Stream extends ReadStream>(
  deps: ReadDeps,
  source: DropRead<Stream>,
  file: string,
  signal: AbortSignal,
): Promise<LineEntry | undefined> {
  for await (const entry of linesOf(deps, source, file, start, signal)) return entry;
  return undefined;
}

function linesOf<Stream extends ReadStream>(
  { folder, csv }: ReadDeps,
  { settings }: DropRead<Stream>,
  file: string,
  from: Position,
  signal: AbortSignal,
): AsyncGenerator<LineEntry> {
  const path = takenPath(settings, file);
  const readPiece = (range: { from: number; to: number }) => folder.during(signal, () => folder.read(path, range));
  return readEntries(readPiece, from, {
    encoding: csv.encoding,
    delimiter: settings.format === 'csv' ? csv.delimiter : undefined,
    endsAnyhow: settings.marker !== undefined,
  });
}
