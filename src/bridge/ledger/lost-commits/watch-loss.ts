/**
 * Notices that the database has lost commits without anybody saying so. A replica that is promoted begins a new timeline,
 * whether it lagged or not; and where the newest attempt that this process has written is gone, commits are gone, whatever
 * the reason. Until the loss is noted, no flow claims a document (`flow-state.ts`): both are part of that condition, so it
 * does not matter which statement reaches the promoted server first.
 */
import { type Clock, timestampNow } from '#platform/clock.ts';
import type { Database } from '#platform/database/database.ts';
import type { Logger } from '#platform/log.ts';
import { flagLostCommits, type LossCause } from './note-lost-commits.ts';

/** What a process remembers of its own attempts, in memory. */
export interface NewestAttempt {
  /** The id of the newest attempt whose transaction has committed; null for none, and once it may have been pruned. */
  id(): string | null;
  note(id: string, nowMs: number): void;
}

/** Attempts are kept for a day at least. */
const rememberedMs = 12 * 60 * 60_000;

export function createNewestAttempt(clock: Clock): NewestAttempt & { forget(): void; sinceMs(): number } {
  let newest: { id: string; ms: number } | undefined;
  return {
    id: () => (newest && clock.nowMs() - newest.ms < rememberedMs ? newest.id : null),
    note: (id, ms) => {
      newest = { id, ms };
    },
    forget: () => {
      newest = undefined;
    },
    sinceMs: () => newest?.ms ?? Number.NEGATIVE_INFINITY,
  };
}

export interface LossWatch {
  readonly newestAttempt: NewestAttempt;
  /** Looks once, at the price of a row, and notes a loss that nobody has noted. */
  look(): Promise<void>;
}

type NoticedCause = Exclude<LossCause, 'restored'>;

interface Seen {
  readonly timeline: string | null;
  readonly current: string | null;
  readonly lostMs: number | null;
  readonly isThere: boolean;
}

export function createLossWatch({
  database,
  clock,
  log,
}: {
  database: Database;
  clock: Clock;
  log: Logger;
}): LossWatch {
  const newestAttempt = createNewestAttempt(clock);

  const read = async (sql: Pick<Database, 'query'>, lock = '') => {
    const [seen] = await sql.query<Seen>(
      `select l.timeline, bridge.cluster_timeline() as current, extract(epoch from l.lost)::float8 * 1000 as "lostMs",
         $1::uuid is null or exists (select from bridge.attempts where id = $1) as "isThere"
       from bridge.lost_commits l ${lock}`,
      [newestAttempt.id()],
    );
    return seen;
  };

  const causeOf = ({ timeline, current, lostMs, isThere }: Seen): NoticedCause | undefined => {
    if (timeline !== null && current !== null && timeline !== current) return 'timeline';
    if (isThere) return undefined;
    // Another process has noted the loss of it already.
    if (lostMs !== null && lostMs >= newestAttempt.sinceMs()) newestAttempt.forget();
    else return 'attempt';
    return undefined;
  };

  return {
    newestAttempt,
    look: async () => {
      const first = await read(database);
      if (first && first.timeline === null && first.current !== null)
        await database.query('update bridge.lost_commits set timeline = $1 where timeline is null', [first.current]);
      if (!first || causeOf(first) === undefined) return;
      const cause = await database.transaction(async (tx) => {
        // Of several processes one notes it.
        const seen = await read(tx, 'for update of l');
        const why = seen && causeOf(seen);
        if (why !== undefined) await flagLostCommits(tx, { lost: timestampNow(clock), why, since: null });
        return why;
      });
      if (cause === undefined) return;
      newestAttempt.forget();
      log.warn(
        { lost: cause, timeline: first.current, before: first.timeline },
        `the database may have lost commits: ${causeTexts[cause]}. Nothing is sent before each source was read again, and ` +
          'every document is looked up in its ERP before it is written',
      );
    },
  };
}

const causeTexts: Readonly<Record<NoticedCause, string>> = {
  timeline: 'another server was promoted',
  attempt: 'an attempt that was committed is gone',
};
