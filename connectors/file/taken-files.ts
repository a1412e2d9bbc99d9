/**
 * Files that others drop into the folder. One that is complete is taken: it gets a number and moves into the folder
 * `taken`, in one step, before it is read. So each is read in the order in which it was taken, a producer may use the same
 * name again, and a process that dies at any moment leaves a file either to be taken or numbered after everything that
 * was read.
 *
 *     vendors.csv, vendors.csv.ok          dropped: the marker says that it is complete
 *     taken/00000017-9f3c21aa-vendors.csv  taken; the checkpoint says: file 17, 500 entries done
 *
 * What cannot be read as a whole (a link, a FIFO, a file without its header) is refused: it stays where it is, and each
 * read ends with an error that names it, until somebody corrects or removes it.
 */
import { randomBytes } from 'node:crypto';
import { type Clock, ConfigError, composed, parseCheckpoint, z } from 'sourcing-bridge/connector';
import { type FileInfo, type Folder, joinPath, moveIfThere } from './folder.ts';
import { nameBytesMax, shownName } from './names.ts';
import type { DropSettings } from './settings.ts';

const checkpointForm = z.strictObject({
  /** The last file that was begun, and how many of its entries are done; without a number it was read to its end. */
  file: z.string().optional(),
  done: z.number().optional(),
  /** Files that wait: their size, their time of change, and since when both are the same. */
  seen: z.record(z.string(), z.object({ bytes: z.number(), modifiedMs: z.number(), sinceMs: z.number() })),
});
export type Checkpoint = z.output<typeof checkpointForm>;

/** Below `folder`. */
export const takenFolder = 'taken';
const takenName = /^(\d{8})-[0-9a-f]{8}-(.+)$/;
/** Programs write under such names until a file is complete. */
const unfinished = /^\.|\.(?:tmp|temp|part|partial|filepart|crdownload|swp)$|~$/i;
const seenMax = 1_000;
/** So many files are taken at once; the others wait for the next read. */
const filesMax = 1_000;
const statsAtOnce = 8;
/** A larger file is refused: a read has to come to its first page in two minutes. */
const fileBytesMax = 1024 ** 3;

/** The folder, and which of its files are meant. */
export interface Dropped {
  readonly folder: Folder;
  readonly settings: DropSettings;
  readonly clock: Clock;
  /** Whether the folder's times are of this machine's clock. */
  readonly isLocal: boolean;
  /** Why a file cannot be read as a whole; undefined when it can. */
  readonly faultOf: (path: string) => Promise<string | undefined>;
}

export interface Refused {
  readonly name: string;
  readonly why: string;
}

/** Throws ConfigError for a text that is no checkpoint of this connector. */
export function checkpointOf(stored: string | undefined): Checkpoint {
  return stored === undefined ? { seen: {} } : parseCheckpoint(stored, checkpointForm, 'file');
}

/** The path of a taken file. */
export function takenPath(settings: DropSettings, name: string): string {
  return joinPath(settings.folder, takenFolder, name);
}

/** The name under which a taken file was dropped. */
export function droppedName(taken: string): string {
  return shownName(takenName.exec(taken)?.[2] ?? taken);
}

type Where = Pick<Dropped, 'folder' | 'settings'>;

/** The taken files in their order: only those with such names, as other reads may take from the same folder. */
export async function listTaken({ folder, settings }: Where): Promise<string[]> {
  const path = joinPath(settings.folder, takenFolder);
  await refuseLinkedFolder(folder, path);
  const isOurs = (name: string) => matching([takenName.exec(name)?.[2] ?? ''], settings).length > 0;
  return (await folder.list(path)).filter(isOurs).toSorted();
}

/** The names that wait to be taken. */
export async function listWaiting({ folder, settings }: Where): Promise<string[]> {
  await refuseLinkedFolder(folder, settings.folder);
  return matching(await folder.list(settings.folder), settings);
}

/** A link in place of a subfolder would lead out of the folder. */
async function refuseLinkedFolder(folder: Folder, path: string): Promise<void> {
  const parts = path.split('/').filter(Boolean);
  for (const count of parts.keys()) {
    const part = joinPath(...parts.slice(0, count + 1));
    const info = await folder.stat(part);
    if (info && info.type !== 'folder')
      throw new ConfigError(`${part} in ${folder.place} is a link or a file: it must be a folder.`);
  }
}

/** Those that were not read to their end, in their order. Of whole files only the newest counts. */
export function filesToRead(names: readonly string[], { file, done }: Checkpoint, { content }: DropSettings): string[] {
  const wanted = content === 'whole' ? names.slice(-1) : names;
  return wanted.filter((name) => file === undefined || name > file || (name === file && done !== undefined));
}

function matching(names: readonly string[], { files }: DropSettings): string[] {
  // A system may write ü as one character, or as u with a mark above it.
  const parts = composed(files)
    .split('*')
    .map((part) => part.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&'));
  const pattern = new RegExp(`^${parts.join('.*')}$`, 's');
  return names.filter((name) => pattern.test(composed(name)) && !unfinished.test(name)).toSorted();
}

/** Takes what is complete. Returns the taken files in their order, what still waits, and what is refused. */
export async function takeFiles(
  deps: Dropped,
  stored: Checkpoint,
): Promise<{ names: string[]; seen: Checkpoint['seen']; refused: Refused[] }> {
  const { folder, settings } = deps;
  const names = await listTaken(deps);
  await refuseLinkedFolder(folder, settings.folder);
  const present = new Set(await folder.list(settings.folder));
  // Of whole files the newest counts, so all of them are taken.
  const namesMax = settings.content === 'whole' ? Number.POSITIVE_INFINITY : names.length + filesMax;
  let last = Math.max(numberOf(names.at(-1)), numberOf(stored.file));
  const seen: Checkpoint['seen'] = {};
  const refused: Refused[] = [];
  for (const name of await byAge(deps, matching([...present], settings))) {
    if (names.length === namesMax) break;
    const path = joinPath(settings.folder, name);
    const info = await folder.stat(path);
    if (!info) {
      // Such a name leads to no file. Any other was removed just now.
      if (name.includes('\uFFFD')) refused.push({ name: shownName(name), why: 'its name is not in UTF-8' });
      continue;
    }
    const look = isComplete(deps, name, info, present, stored);
    if (look.waits && Object.keys(seen).length < seenMax) seen[name] = look.waits;
    if (!look.isComplete) continue;
    const why = faultOfEntry(name, info) ?? (await deps.faultOf(path));
    if (why !== undefined) {
      refused.push({ name: shownName(name), why });
      continue;
    }
    last += 1;
    const taken = `${String(last).padStart(8, '0')}-${randomBytes(4).toString('hex')}-${name}`;
    // Its producer may have removed or renamed it.
    if (!(await moveIfThere(folder, path, takenPath(settings, taken)))) continue;
    names.push(taken);
    if (settings.marker !== undefined) await folder.remove(`${path}${settings.marker}`);
  }
  await removeStaleMarkers(deps, present);
  return { names, seen, refused };
}

/**
 * Those that were written first come first, as the last one has the last word: v_30112026.csv before v_01122026.csv,
 * and v_9.csv before v_10.csv. Of one time, their names decide.
 */
async function byAge({ folder, settings }: Where, names: readonly string[]): Promise<readonly string[]> {
  if (names.length < 2) return names;
  const found: { readonly name: string; readonly modifiedMs: number }[] = [];
  for (let from = 0; from < names.length; from += statsAtOnce) {
    const some = names.slice(from, from + statsAtOnce);
    const infos = await Promise.all(some.map((name) => folder.stat(joinPath(settings.folder, name))));
    for (const [index, name] of some.entries()) found.push({ name, modifiedMs: infos[index]?.modifiedMs ?? 0 });
  }
  return found.toSorted((a, b) => a.modifiedMs - b.modifiedMs).map(({ name }) => name);
}

function faultOfEntry(name: string, { type, bytes }: FileInfo): string | undefined {
  if (type !== 'file') return 'it is a link, a folder or a device, and not a regular file';
  if (bytes > fileBytesMax) return `it has ${bytes} bytes, more than ${fileBytesMax}: split it`;
  if (Buffer.byteLength(name) > nameBytesMax) return `its name has more than ${nameBytesMax} bytes`;
  return shownName(name) === name ? undefined : 'its name has characters without a shape';
}

/** A process that died after it had taken a file left its marker: the next file of that name would count as complete. */
async function removeStaleMarkers({ folder, settings }: Dropped, present: ReadonlySet<string>): Promise<void> {
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

function isComplete(
  { settings, clock, isLocal }: Dropped,
  name: string,
  { bytes, modifiedMs }: FileInfo,
  present: ReadonlySet<string>,
  { seen }: Checkpoint,
): { isComplete: boolean; waits?: Checkpoint['seen'][string] } {
  if (settings.marker !== undefined) return { isComplete: present.has(`${name}${settings.marker}`) };
  const quietMs = settings.quiet_seconds * 1_000;
  const nowMs = clock.nowMs();
  const before = seen[name];
  const isSame = before?.bytes === bytes && before.modifiedMs === modifiedMs;
  const sinceMs = isSame ? before.sinceMs : nowMs;
  // A server's clock may be wrong: only what was seen twice counts there.
  const isOld = isLocal && nowMs - modifiedMs >= quietMs;
  if (quietMs === 0 || isOld || (isSame && nowMs - sinceMs >= quietMs)) return { isComplete: true };
  return { isComplete: false, waits: { bytes, modifiedMs, sinceMs } };
}
