/**
 * Files that others drop into the folder. One that is complete is taken: it gets a number and moves into the folder
 * `taken`, in one step, before it is read. So each is read in the order in which it was taken, a producer may use the same
 * name again, and a process that dies at any moment leaves a file either to be taken or numbered after everything that
 * was read.
 *
 *     vendors.csv, vendors.csv.ok          dropped: the marker says that it is complete
 *     taken/00000017-9f3c21aa-vendors.csv  taken; the checkpoint says: file 17, from line 501 on
 */
import { randomBytes } from 'node:crypto';
import { type Clock, parseCheckpoint, z } from 'sourcing-bridge/connector';
import { type Folder, joinPath, NoSuchFile } from './folder.ts';
import type { DropSettings } from './settings.ts';

const checkpointForm = z.object({
  /** The last file that was begun, and where its next entry is; without a position it was read to its end. */
  file: z.string().optional(),
  at: z.object({ offset: z.number(), line: z.number() }).optional(),
  /** Files that wait: their size, their time of change, and since when both are the same. */
  seen: z.record(z.string(), z.object({ bytes: z.number(), modifiedMs: z.number(), sinceMs: z.number() })),
});
export type Checkpoint = z.output<typeof checkpointForm>;

const takenName = /^(\d{8})-[0-9a-f]{8}-(.+)$/;
/** Programs write under such names until a file is complete. */
const unfinished = /^\.|\.(?:tmp|temp|part|partial|filepart|crdownload|swp)$|~$/i;
const seenMax = 1_000;

/** The folder, and which of its files are meant. */
export interface Dropped {
  readonly folder: Folder;
  readonly settings: DropSettings;
  readonly clock: Clock;
  /** Whether the folder's times are of this machine's clock. */
  readonly isLocal: boolean;
}

/** Throws ConfigError for a text that is no checkpoint of this connector. */
export function checkpointOf(stored: string | undefined): Checkpoint {
  return stored === undefined ? { seen: {} } : parseCheckpoint(stored, checkpointForm, 'file');
}

/** The path of a taken file. */
export function takenPath(settings: DropSettings, name: string): string {
  return joinPath(settings.folder, settings.taken, name);
}

/** The name under which a taken file was dropped. */
export function droppedName(taken: string): string {
  return takenName.exec(taken)?.[2] ?? taken;
}

/** The taken files in their order: only those with such names, as other reads may take from the same folder. */
export async function listTaken({ folder, settings }: Pick<Dropped, 'folder' | 'settings'>): Promise<string[]> {
  const names = await folder.list(joinPath(settings.folder, settings.taken));
  return names.filter((name) => takenName.test(name) && matching([droppedName(name)], settings).length > 0).toSorted();
}

/** How many files wait to be taken. */
export async function countWaiting({ folder, settings }: Pick<Dropped, 'folder' | 'settings'>): Promise<number> {
  return matching(await folder.list(settings.folder), settings).length;
}

/** Those that were not read to their end, in their order. Of whole files only the newest counts. */
export function filesToRead(names: readonly string[], { file, at }: Checkpoint, { content }: DropSettings): string[] {
  const wanted = content === 'whole' ? names.slice(-1) : names;
  return wanted.filter((name) => file === undefined || name > file || (name === file && at !== undefined));
}

function matching(names: readonly string[], { files }: DropSettings): string[] {
  const parts = files.split('*').map((part) => part.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&'));
  const pattern = new RegExp(`^${parts.join('.*')}$`);
  return names.filter((name) => pattern.test(name) && !unfinished.test(name)).toSorted();
}

/** Takes what is complete. Returns the taken files in their order, and what still waits. */
export async function takeFiles(
  deps: Dropped,
  stored: Checkpoint,
): Promise<{ names: string[]; seen: Checkpoint['seen'] }> {
  const { folder, settings } = deps;
  const present = new Set(await folder.list(settings.folder));
  const takenFolder = joinPath(settings.folder, settings.taken);
  const names = await listTaken(deps);
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

async function isComplete(
  { folder, settings, clock, isLocal }: Dropped,
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
