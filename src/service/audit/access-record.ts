/**
 * Writes to the audit log who has come in, and what was refused. Neither a right nor a wrong caller waits for it, and a
 * flood makes few rows:
 *
 * - The first use of a key or of the operator's token from an address is an entry, and again after a day.
 * - A refusal is an entry at once. The same refusal again (who, what, which object, from where) is counted, and when its
 *   ten minutes are over a second entry has the count. Beyond 20 different ones in this time all others share one count.
 *
 * Example: 200,000 wrong keys in an hour from 192.0.2.7 are six entries without a count, and six with one.
 */
import { type ActionOrigin, type ActionOutcome, type ActionSubject, recordAction } from '#platform/audit-log.ts';
import { type Clock, timestampNow } from '#platform/clock.ts';
import type { Sql } from '#platform/database/sql.ts';
import type { Logger } from '#platform/log.ts';

const windowMs = 10 * 60_000;
const kindsMax = 20;
const dayMs = 24 * 3_600_000;
const knownMax = 10_000;
/** New callers in a window; beyond it, a caller is written at a later use. */
const comersMax = 200;

export interface AccessRecord {
  /** Takes down that a right key or token was used. Returns at once, and never throws. */
  cameIn(origin: ActionOrigin): void;
  /** Takes down a refusal. Returns at once, and never throws. */
  refused(origin: ActionOrigin, subject: ActionSubject): void;
  /** Writes the counts of the window that has not ended, and waits for what is being written. */
  close(): Promise<void>;
}

interface Refusal extends ActionOrigin, ActionSubject {
  /** How often it came after its entry. */
  more: number;
}

export function createAccessRecord({
  database,
  clock,
  log,
}: {
  database: Sql;
  clock: Clock;
  log: Logger;
}): AccessRecord {
  const closing = new AbortController();
  const writing = new Set<Promise<void>>();
  const cameInMs = new Map<string, number>();
  const refusals = new Map<string, Refusal>();
  let others = 0;
  let comers = 0;
  let running: Promise<void> | undefined;

  function write(outcome: ActionOutcome, by: ActionOrigin, subject: ActionSubject): void {
    const action = { ...by, ...subject, outcome, when: timestampNow(clock) };
    const written = recordAction(database, 'service', action)
      .catch((err: unknown) => log.warn({ err, what: subject.what }, 'an entry of the audit log was not written'))
      .finally(() => writing.delete(written));
    writing.add(written);
  }

  function writeCounts(): void {
    for (const { more, who, from, what, object, details } of refusals.values())
      if (more > 0) write('refused', { who, from }, { what, object, details: { ...details, more } });
    if (others > 0)
      write(
        'refused',
        { who: { kind: 'program', name: 'service' }, from: null },
        { what: 'api.refusals', object: null, details: { more: others } },
      );
    refusals.clear();
    others = 0;
    comers = 0;
  }

  /** A window begins with the first entry. */
  function openWindow(): void {
    running ??= (async () => {
      await clock.sleep(windowMs, closing.signal).catch(() => undefined);
      running = undefined;
      writeCounts();
    })();
  }

  return {
    cameIn: (origin) => {
      const key = JSON.stringify([origin.who, origin.from]);
      const nowMs = clock.nowMs();
      const last = cameInMs.get(key);
      // A clock that was set back must not hold the next entry up.
      if (last !== undefined && Math.abs(nowMs - last) < dayMs) return;
      openWindow();
      comers += 1;
      if (comers > comersMax) return;
      const [first] = cameInMs.keys();
      if (cameInMs.size >= knownMax && first !== undefined) cameInMs.delete(first);
      cameInMs.delete(key);
      cameInMs.set(key, nowMs);
      write('allowed', origin, { what: 'api.login', object: null });
    },
    refused: (origin, subject) => {
      const key = JSON.stringify([origin.who, origin.from, subject.what, subject.object]);
      openWindow();
      const known = refusals.get(key);
      if (known) known.more += 1;
      else if (refusals.size >= kindsMax) others += 1;
      else {
        refusals.set(key, { ...origin, ...subject, more: 0 });
        write('refused', origin, subject);
      }
    },
    close: async () => {
      closing.abort();
      await running;
      await Promise.all(writing);
    },
  };
}
