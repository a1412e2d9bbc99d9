/**
 * Counts the notifications that were refused, by source and reason. Anybody can send what is refused: a person sees the
 * counts as counts, and what is wrong with a webhook says only its service (`find-fault.ts`). The counts are stored from
 * time to time, for the doctor and other processes; a kill loses those of the last seconds.
 */
import type { Timestamp } from '#contract/timestamp.ts';
import { type Clock, timestampNow } from '#platform/clock.ts';
import type { Database } from '#platform/database/database.ts';
import type { Sql } from '#platform/database/sql.ts';
import { AppError } from '#platform/errors.ts';
import type { Logger } from '#platform/log.ts';

/** Why a notification was refused. The sender does not learn which of the first three it was. */
export type RefusalReason = 'no-signature' | 'no-key' | 'wrong-signature' | 'no-token' | 'wrong-token';

/** A notification that does not prove who has sent it. */
export class Refused extends AppError {
  readonly reason: RefusalReason;

  constructor(reason: RefusalReason, message: string) {
    super('unauthorized', message);
    this.name = 'Refused';
    this.reason = reason;
  }
}

/** Logged at so many refusals in a row, and again each time there are ten times as many. */
const firstLogged = 10;

interface Row {
  readonly since: string;
  count: number;
}

interface Counted {
  readonly source: string;
  readonly reason: RefusalReason;
  readonly first: Timestamp;
  last: Timestamp;
  count: number;
}

export interface Refusals {
  refused(source: string, reason: RefusalReason): void;
  accepted(source: string): void;
  /** Adds what was counted since the last call to the stored counts. Rejects as the database does, and keeps it then. */
  save(database: Database): Promise<void>;
}

/** Only configured sources are counted, so a client cannot make it grow. */
export function createRefusals(deps: {
  log: Logger;
  clock: Clock;
  sources: Pick<ReadonlySet<string>, 'has'>;
}): Refusals {
  const { log, clock, sources } = deps;
  const inARow = new Map<string, Row>();
  let counted = new Map<string, Counted>();

  function count(source: string, reason: RefusalReason): void {
    const now = timestampNow(clock);
    const key = `${source} ${reason}`;
    const entry = counted.get(key);
    if (entry) {
      entry.last = now;
      entry.count += 1;
    } else counted.set(key, { source, reason, first: now, last: now, count: 1 });
  }

  return {
    refused(source, reason) {
      if (!sources.has(source)) return;
      count(source, reason);
      const row = inARow.get(source) ?? { since: timestampNow(clock), count: 0 };
      row.count += 1;
      inARow.set(source, row);
      if (row.count >= firstLogged && Number.isInteger(Math.log10(row.count)))
        log.warn(
          { source, reason, state: 'signatures refused', count: row.count, since: row.since },
          `${row.count} notifications in a row were refused, and did nothing; whether the service has sent them, \`bridge doctor\` asks it`,
        );
    },
    accepted(source) {
      const row = inARow.get(source);
      if (!row) return;
      inARow.delete(source);
      if (row.count >= firstLogged)
        log.info(
          { source, state: 'signatures accepted', count: row.count, since: row.since },
          'a notification was accepted again',
        );
    },
    async save(database) {
      if (counted.size === 0) return;
      const saved = counted;
      counted = new Map();
      try {
        await addRefusals(database, [...saved.values()]);
      } catch (error) {
        for (const [key, entry] of saved) {
          const later = counted.get(key);
          counted.set(key, later ? { ...entry, last: later.last, count: entry.count + later.count } : entry);
        }
        throw error;
      }
    },
  };
}

/** A row that nothing was added to for so long begins anew. */
const keptHours = 24;

async function addRefusals(sql: Sql, counts: readonly Counted[]): Promise<void> {
  await sql.query(
    `insert into bridge.refusals as r (source, reason, first, last, count)
     select source, reason, first, last, count
     from unnest($1::text[], $2::text[], $3::timestamptz[], $4::timestamptz[], $5::bigint[])
       as c (source, reason, first, last, count)
     on conflict (source, reason) do update set last = greatest(r.last, excluded.last),
       first = case when r.last < excluded.first - interval '${keptHours} hours' then excluded.first else r.first end,
       count = case when r.last < excluded.first - interval '${keptHours} hours' then 0 else r.count end + excluded.count`,
    [
      counts.map(({ source }) => source),
      counts.map(({ reason }) => reason),
      counts.map(({ first }) => first),
      counts.map(({ last }) => last),
      counts.map((entry) => entry.count),
    ],
  );
}

/** The notifications of a source that were refused for one reason, within the last day. */
export interface StoredRefusals {
  readonly reason: RefusalReason;
  readonly first: Timestamp;
  readonly last: Timestamp;
  readonly count: number;
}

/** Returns them with the most frequent reason first. */
export function readRefusals(sql: Sql, source: string, now: Timestamp): Promise<StoredRefusals[]> {
  return sql.query<StoredRefusals>(
    `select reason, first, last, count::float8 as count from bridge.refusals
     where source = $1 and last > $2::timestamptz - interval '${keptHours} hours' order by count desc, reason`,
    [source, now],
  );
}
