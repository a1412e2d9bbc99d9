/**
 * Notices that the configuration of a running bridge has changed: in its file, or in the .env beside it. It is looked at
 * every few seconds, and at once at SIGHUP. A file that was changed only in its comments changes nothing.
 */
import { readFile } from 'node:fs/promises';
import { setTimeout } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import type { Configuration } from './configuration.ts';

const lookEveryMs = 2_000;

/** A configuration, and what stood in its files before it was read: what is written meanwhile counts as a change. */
export interface ReadConfiguration {
  readonly configuration: Configuration;
  readonly known: unknown;
}

export interface WatchOptions {
  readonly inForce: Configuration;
  /** One with which the program did not start: it is tried again at SIGHUP only. */
  readonly failed?: Configuration | undefined;
  readonly files: readonly string[];
  /** As in `ReadConfiguration`, of the one that was read last. */
  readonly known: unknown;
  /** Reads the whole configuration again, and rejects when it could not work. */
  readonly read: () => Promise<Configuration>;
  /** Told why what stands in the files is not taken; undefined: it is in force. */
  readonly onRefused: (why: unknown) => Promise<void>;
  /** Ends the watch. */
  readonly signal: AbortSignal;
  readonly everyMs?: number;
}

/**
 * Resolves with the configuration that is to be in force from now on, which is another one and was read without a fault;
 * with undefined when `signal` aborts. A file that is being written may be half there: a change counts when two looks in a
 * row have seen the same.
 */
export async function nextConfiguration(options: WatchOptions): Promise<ReadConfiguration | undefined> {
  const { inForce, failed, files, read, onRefused, signal, everyMs = lookEveryMs } = options;
  let { known } = options;
  let wake = new AbortController();
  let isAsked = false;
  const ask = () => {
    isAsked = true;
    wake.abort();
  };
  process.on('SIGHUP', ask);
  try {
    let seen: unknown = await textsOf(files);
    while (!signal.aborted) {
      await setTimeout(everyMs, undefined, { signal: AbortSignal.any([signal, wake.signal]) }).catch(() => undefined);
      const texts = await textsOf(files);
      const isSteady = isDeepStrictEqual(texts, seen);
      seen = texts;
      if (signal.aborted || !(isAsked || (isSteady && !isDeepStrictEqual(texts, known)))) continue;
      known = texts;
      const isTriedAgain = isAsked;
      isAsked = false;
      wake = new AbortController();
      try {
        const next = await read();
        if (isDeepStrictEqual(next, failed) && !isTriedAgain) continue;
        if (!isDeepStrictEqual(next, inForce)) return { configuration: next, known };
        await onRefused(undefined);
      } catch (error) {
        await onRefused(error);
      }
    }
    return undefined;
  } finally {
    process.off('SIGHUP', ask);
  }
}

/** The texts of the files; for one that cannot be read, why. */
export function textsOf(files: readonly string[]): Promise<unknown[]> {
  return Promise.all(
    files.map((file) => readFile(file, 'utf8').catch((error: NodeJS.ErrnoException) => ({ code: error.code }))),
  );
}
