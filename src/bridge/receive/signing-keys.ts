/**
 * The keys that sign a source's notifications: those of its settings, and those of the webhooks that this bridge has
 * registered, in whatever process. They are kept in memory, so that known ones go on working without the database, and
 * read again when a signature fits none of them: at most once a second, however many forged requests come.
 */
import { createSecretKey, type KeyObject } from 'node:crypto';
import { type Clock, timestampNow } from '#platform/clock.ts';
import type { Database } from '#platform/database/database.ts';
import { AppError } from '#platform/errors.ts';
import type { Logger } from '#platform/log.ts';
import type { SecretBox } from '#platform/secrets.ts';
import { openKey, readGoodKeys, type SealedKey } from '../webhooks/webhook-store.ts';

export interface SigningKeys {
  /** The keys known now; none for a source that is not configured. */
  keysOf(source: string): readonly KeyObject[];
  /**
   * For a signature that fits none of them: resolves with true when the keys have been read after this call, within
   * about a second; with false at once when too many wait for that already. Rejects with AppError `unavailable` when they
   * cannot be read.
   */
  readAgain(): Promise<boolean>;
  /** Reads them now. Rejects with AppError `unavailable` when they cannot be read; the known ones stay. */
  refresh(): Promise<void>;
  /** Ends the waiting. */
  close(): void;
}

const readEveryMs = 1_000;
/** Each holds a request and its body. */
const waitingMax = 64;

export function createSigningKeys(deps: {
  /** The keys of the settings, by source. */
  configured: ReadonlyMap<string, readonly string[]>;
  database: Database;
  secrets: SecretBox;
  clock: Clock;
  log: Logger;
}): SigningKeys {
  const { clock, log } = deps;
  const configured = new Map(
    [...deps.configured].map(([source, keys]) => [source, keys.filter((key) => key !== '').map(keyObject)]),
  );
  let known: ReadonlyMap<string, readonly KeyObject[]> = configured;
  const unreadable = new Set<string>();
  const closing = new AbortController();
  let reading: Promise<void> = Promise.resolve();
  let askedMs = Number.NEGATIVE_INFINITY;
  let next: Promise<void> | undefined;
  let waiting = 0;

  /** One after the other, so that an answer that took long does not undo a later one. */
  function read(): Promise<void> {
    askedMs = clock.nowMs();
    const readOnce = async () => {
      const registered = Map.groupBy(await readGoodKeys(deps.database, timestampNow(clock)), ({ source }) => source);
      known = new Map(
        [...configured].map(([source, keys]) => [source, [...(registered.get(source) ?? []).flatMap(opened), ...keys]]),
      );
    };
    reading = reading.then(readOnce, readOnce);
    return reading;
  }

  /** One that cannot be opened is told once, and takes no other with it. */
  function opened(sealed: SealedKey): KeyObject[] {
    try {
      return [keyObject(openKey(deps.secrets, sealed))];
    } catch (err) {
      if (!unreadable.has(sealed.id)) log.error({ err, source: sealed.source }, 'a signing key cannot be read');
      unreadable.add(sealed.id);
      return [];
    }
  }

  /** Resolves when the last read began long enough ago. */
  async function whenDue(): Promise<void> {
    // Not for longer, also when the clock was set back.
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
          // Who asks from here on may know of a key that this read does not see any more.
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

function keyObject(key: string): KeyObject {
  return createSecretKey(key, 'utf8');
}
