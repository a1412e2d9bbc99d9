/** The samples from which a feed's clock offset is learnt (`windows/clock-offset.ts`), in SQL. */
import type { ClockDifference } from '#client/read-feed.ts';
import type { Timestamp } from '#contract/timestamp.ts';
import type { Sql } from '#platform/database/sql.ts';
import type { FeedId } from './checkpoint-store.ts';

/** What the new records of one scan have shown. */
export interface OffsetSamples {
  /** How long after their stamps they were stored, in milliseconds; negative where the stamp was ahead of our clock. */
  readonly agesMs: readonly number[];
  /** By how much our clock was ahead of the source's `Date` then. */
  readonly difference: ClockDifference;
}

/** At most so many of one scan are taken, at equal distances: records of one transaction are no independent samples. */
const places = [0.1, 0.3, 0.5, 0.7, 0.9];

/** Returns the samples so far, and the ages of records between two stamps that were stored since the last scan. */
export async function readOffsetSamples(
  tx: Sql,
  { source, feed }: FeedId,
  { since, earliest, latest }: { since: Timestamp; earliest: Timestamp; latest: Timestamp },
): Promise<{ samples: readonly OffsetSamples[]; agesMs: readonly number[] }> {
  const [row] = await tx.query<{ samples: readonly OffsetSamples[] }>(
    'select offset_samples as samples from bridge.checkpoints where source = $1 and feed = $2',
    [source, feed],
  );
  const ages = await tx.query<{ ms: number }>(
    `select ms from (
       select ms, row_number() over (order by ms) as place, count(*) over () as n
       from (select extract(epoch from seen - modified)::float8 * 1000 as ms from bridge.mirror
             where source = $1 and feed = $2 and modified > $4 and modified <= $5 and seen >= $3) as stored) as ranked
     where exists (select from unnest($6::float8[]) as p where place = ceil(p * n))`,
    [source, feed, since, earliest, latest, places],
  );
  return { samples: row?.samples ?? [], agesMs: ages.map(({ ms }) => ms) };
}

export async function saveOffsetSamples(
  tx: Sql,
  { source, feed }: FeedId,
  samples: readonly OffsetSamples[],
): Promise<void> {
  await tx.query('update bridge.checkpoints set offset_samples = $3 where source = $1 and feed = $2', [
    source,
    feed,
    JSON.stringify(samples),
  ]);
}
