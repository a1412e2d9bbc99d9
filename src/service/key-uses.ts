/**
 * When and from where each API key was last used. The request does not wait for it, and a key that is used all the time is
 * written once a minute by each process. A use that cannot be written is lost: the next one is written instead.
 */
import { type Clock, timestampNow } from '#platform/clock.ts';
import type { Database } from '#platform/database/database.ts';
import type { Logger } from '#platform/log.ts';

const writtenEveryMs = 60_000;
/** Beyond it, keys that were written longer ago are forgotten: they are written at their next use anyway. */
const rememberedMax = 10_000;

export interface KeyUses {
  /** Takes down a use of a key that was accepted. Returns at once, and never throws. */
  used(apiKeyId: string, address: string | undefined): void;
  /** Waits for what is being written. */
  close(): Promise<void>;
}

/** Creates the record of uses. */
export function createKeyUses({ database, clock, log }: { database: Database; clock: Clock; log: Logger }): KeyUses {
  const writtenMs = new Map<string, number>();
  const writing = new Set<Promise<void>>();

  function forgetOld(nowMs: number): void {
    for (const [id, ms] of writtenMs) if (nowMs - ms >= writtenEveryMs) writtenMs.delete(id);
  }

  /** An older use of another process does not replace a newer one. */
  async function writeUse(apiKeyId: string, address: string | undefined): Promise<void> {
    try {
      await database.query(
        `update service.api_keys set last_used = $2, last_used_address = $3
         where id = $1 and (last_used is null or last_used < $2)`,
        [apiKeyId, timestampNow(clock), address ?? null],
      );
    } catch (err) {
      log.debug({ err, apiKeyId }, 'the last use of an API key was not written');
    }
  }

  return {
    used: (apiKeyId, address) => {
      const nowMs = clock.nowMs();
      const last = writtenMs.get(apiKeyId);
      // A clock that was set back must not hold the next write up.
      if (last !== undefined && Math.abs(nowMs - last) < writtenEveryMs) return;
      if (writtenMs.size >= rememberedMax) forgetOld(nowMs);
      writtenMs.set(apiKeyId, nowMs);
      const write = writeUse(apiKeyId, address).finally(() => writing.delete(write));
      writing.add(write);
    },
    close: async () => {
      await Promise.all(writing);
    },
  };
}

/** An IPv4 address that came over an IPv6 socket in its own form: `::ffff:192.0.2.1` as `192.0.2.1`. */
export function plainAddress(address: string | undefined): string | undefined {
  return address?.replace(/^::ffff:(?=\d+\.\d+\.\d+\.\d+$)/i, '');
}
