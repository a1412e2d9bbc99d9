/**
 * The keys that sign a source's notifications: those of its settings, and those of the webhooks that any process of
 * this bridge has registered. They are kept in memory, so that known keys work while the database is away. They are
 * read again when a signature fits none of them, but at most once a second, however many forged requests come.
 */
import { type Clock, timestampNow } from '#platform/clock.ts';
import type { Database } from '#platform/database/database.ts';
import { AppError } from '#platform/errors.ts';
import type { Logger } from '#platform/log.ts';
import type { SecretBox } from '#platform/secrets.ts';
import { openKey, readAcceptedKeys, type SealedKey } from './webhook-store.ts';

export interface SigningKeys {
  /** Returns the known keys; none for a source that is not configured. */
  keysOf(source: string): readonly string[];
  /**
   * Called for a signature that fits no known key. Resolves with true when the keys have been read after this call,
   * within about a second; with false at once when too many requests wait for that already. Rejects with AppError
   * `unavailable` when the keys cannot be read.
   */
  readAgain(): Promise<boolean>;
  /** Reads the keys now. Rejects with AppError `unavailable` when they cannot be read; the known keys stay. */
  refresh(): Promise<void>;
  /** Rejects the requests that wait, with AppError `unavailable`. */
  close(): void;
}

const readEveryMs = 1_000;
/** How many requests may wait for the next read; each holds its body in memory. */
const waitingMax = 64;

export function createSigningKeys(deps: {
  /** The keys in the settings, by source. */
  configured: ReadonlyMap<string, readonly string[]>;
  database: Database;
  secrets: SecretBox;
  clock: Clock;
  log: Logger;
}): SigningKeys {
  const { clock, log } = deps;
  const configured = new Map([...deps.configured].map(([source, keys]) => [source, keys.filter((key) => key !== '')]));
  let known: ReadonlyMap<string, readonly string[]> = configured;
  const unreadable = new Set<string>();
  const closing = new AbortController();
  let reading: Promise<void> = Promise.resolve();
  let askedMs = Number.NEGATIVE_INFINITY;
  let next: Promise<void> | undefined;
  let waiting = 0;

  /** One read after the other, so that a slow read does not overwrite the result of a later one. */
  function read(): Promise<void> {
    askedMs = clock.nowMs();
    const readOnce = async () => {
      const registered = Map.groupBy(
        await readAcceptedKeys(deps.database, timestampNow(clock)),
        ({ source }) => source,
      );
      known = new Map(
        [...configured].map(([source, keys]) => [source, [...(registered.get(source) ?? []).flatMap(opened), ...keys]]),
      );
    };
    reading = reading.then(readOnce, readOnce);
    return reading;
  }

  /** A key that cannot be opened is logged once, and does not affect the others. */
  function opened(sealed: SealedKey): string[] {
    try {
      return [openKey(deps.secrets, sealed)];
    } catch (err) {
      if (!unreadable.has(sealed.id)) log.error({ err, source: sealed.source }, 'a signing key cannot be read');
      unreadable.add(sealed.id);
      return [];
    }
  }

  /** Resolves when the last read began long enough ago. */
  async function whenDue(): Promise<void> {
    // At most `readEveryMs`: if the clock was set back, the time of the last read lies in the future.
    const waitMs = Math.min(readEveryMs, askedMs + readEveryMs - clock.nowMs());
    if (waitMs <= 0) return;
    await clock.sleep(waitMs, closing.signal).catch((cause: unknown) => {
      throw new AppError('unavailable', 'The server is shutting down. Send the request again.', { cause });
    });
  }

  return {
    keysOf: (source) => known.get(source) ?? [],
    readAgain: async () => {
      if (waiting >= waitingMax) return false;
      waiting += 1;
      try {
        next ??= whenDue().then(() => {
          // A request that asks from here on may be signed with a key that this read does not see yet.
          next = undefined;
          return read();
        });
        await next;
        return true;
      } finally {
        waiting -= 1;
      }
    },
    refresh: read,
    close: () => closing.abort(),
  };
}
