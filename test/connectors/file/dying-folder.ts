/** A local folder in whose midst a process dies, or falls asleep: before the n-th thing that it does to it. */
import { TransientError, UnknownOutcome } from '#connector/errors.ts';
import type { Folder } from '../../../connectors/file/folder.ts';
import { openLocalFolder } from '../../../connectors/file/local-folder.ts';

export interface SteeredFolder {
  readonly folder: Folder;
  /** How many things were done. */
  readonly count: () => number;
}

const steered = ['read', 'look', 'list', 'write', 'move', 'add', 'flush', 'remove'] as const;

/**
 * `before` is asked before each thing that is done; while it has not answered, nothing happens. `after` is asked when it
 * has been done, before anybody hears of it.
 */
export async function steerFolder(
  root: string,
  before: (n: number) => Promise<void>,
  after: (n: number, name: string) => Promise<void> = async () => undefined,
): Promise<SteeredFolder> {
  const folder = await openLocalFolder(root);
  let count = 0;
  const calls = steered.map((name) => {
    const call = folder[name] as (...given: unknown[]) => Promise<unknown>;
    const guarded = async (...given: unknown[]) => {
      count += 1;
      const n = count;
      await before(n);
      const result = await call(...given);
      await after(n, name);
      return result;
    };
    return [name, guarded];
  });
  return { folder: { ...folder, ...(Object.fromEntries(calls) as Partial<Folder>) }, count: () => count };
}

/** The connection to it breaks before the answer to the n-th: it was done, and who asked does not know. */
export function losingFolder(root: string, at: number): Promise<SteeredFolder> {
  const goOn = () => Promise.resolve();
  return steerFolder(root, goOn, async (n, name) => {
    if (n !== at) return;
    throw name === 'move' || name === 'add' ? new UnknownOutcome('lost') : new TransientError('lost');
  });
}

/** Dead from the n-th on: nothing is done any more, and nobody hears of it. */
export function dyingFolder(root: string, at: number): Promise<SteeredFolder> {
  return steerFolder(root, (n) => (n >= at ? Promise.reject(new Error('killed')) : Promise.resolve()));
}
