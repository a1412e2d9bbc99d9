/** A local folder that can fail, be lost or block at the n-th step that a process makes in it. */
import { TransientError, UnknownOutcome } from '#connector/errors.ts';
import type { Folder } from '../../../connectors/file/folder.ts';
import { openLocalFolder } from '../../../connectors/file/local-folder.ts';

export interface InterceptedFolder {
  readonly folder: Folder;
  /** The number of steps so far. */
  readonly count: () => number;
}

const intercepted = ['read', 'stat', 'list', 'write', 'move', 'remove'] as const;

/**
 * Calls `before` before each step, and waits for it. Calls `after` when the step is done, before its caller gets the
 * result.
 */
export async function interceptFolder(
  root: string,
  before: (n: number) => Promise<void>,
  after: (n: number, name: string) => Promise<void> = async () => undefined,
): Promise<InterceptedFolder> {
  const folder = await openLocalFolder(root);
  let count = 0;
  const calls = intercepted.map((name) => {
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

/** The connection breaks before the answer to the n-th step: the step is done, and its caller does not know. */
export function losingFolder(root: string, at: number): Promise<InterceptedFolder> {
  const proceed = () => Promise.resolve();
  return interceptFolder(root, proceed, async (n, name) => {
    if (n !== at) return;
    throw name === 'move' ? new UnknownOutcome('lost') : new TransientError('lost');
  });
}

/** The process is killed before the n-th step: no further step is done. */
export function dyingFolder(root: string, at: number): Promise<InterceptedFolder> {
  return interceptFolder(root, (n) => (n >= at ? Promise.reject(new Error('killed')) : Promise.resolve()));
}
