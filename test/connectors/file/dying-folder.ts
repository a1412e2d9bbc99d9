/** A local folder in whose midst a process dies, or falls asleep: before the n-th thing that it does to it. */
import type { Folder } from '../../../connectors/file/folder.ts';
import { openLocalFolder } from '../../../connectors/file/local-folder.ts';

export interface SteeredFolder {
  readonly folder: Folder;
  /** How many things were done. */
  readonly count: () => number;
}

const steered = ['read', 'look', 'list', 'write', 'move', 'add', 'flush', 'remove'] as const;

/** `before` is asked before each thing that is done; while it has not answered, nothing happens. */
export async function steerFolder(root: string, before: (n: number) => Promise<void>): Promise<SteeredFolder> {
  const folder = await openLocalFolder(root);
  let count = 0;
  const calls = steered.map((name) => {
    const call = folder[name] as (...given: unknown[]) => Promise<unknown>;
    const guarded = async (...given: unknown[]) => {
      count += 1;
      await before(count);
      return call(...given);
    };
    return [name, guarded];
  });
  return { folder: { ...folder, ...(Object.fromEntries(calls) as Partial<Folder>) }, count: () => count };
}

/** Dead from the n-th on: nothing is done any more, and nobody hears of it. */
export function dyingFolder(root: string, at: number): Promise<SteeredFolder> {
  return steerFolder(root, (n) => (n >= at ? Promise.reject(new Error('killed')) : Promise.resolve()));
}
