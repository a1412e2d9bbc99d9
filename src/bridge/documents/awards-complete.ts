/**
 * Whether the bridge knows all awards of a closed event. Pure. A source shows the awards of a closing some time before or
 * after the event's own record, in pages, and perhaps late; a document of the whole event must not show a part of them.
 *
 * Example: an event of three lots is closed at 10:00:00; its record says that three lots are awarded. The feed of awards
 * is read in pages of two records.
 *
 * | time     | what the bridge does                             | all known? | why                                        |
 * |----------|--------------------------------------------------|------------|--------------------------------------------|
 * | 10:00:01 | stores the event's record                        | no         | 3 lots are awarded, those of 0 are known   |
 * | 10:00:02 | stores the first page of awards                  | no         | 3 lots are awarded, those of 2 are known   |
 * | 10:00:03 | stores the second page of awards                 | no         | that pull has not ended: more may follow   |
 * | 10:00:03 | the pull of awards ends, the watermark is there  | yes        |                                            |
 *
 * The number of lots alone proves nothing when an event is closed again with other winners; the feed alone proves nothing
 * where the source shows awards some time after it has closed the event.
 */
import { z } from 'zod';
import type { Timestamp } from '#contract/timestamp.ts';
import { readRecord } from './made-document.ts';
import type { MirroredRecord } from './shown-records.ts';

/** A record, and when it was stamped by the source (null: it has no stamp) and stored here. */
export interface Arrival {
  readonly modified: Timestamp | null;
  readonly seen: Timestamp;
}

/** What the mirror holds of an event's awards. */
export interface AwardsHeld {
  readonly awards: readonly (MirroredRecord & Arrival)[];
  /** How far the feed of awards has been read: read before the awards were, so that it never says too much of them. */
  readonly feed: AwardFeed;
}

export interface AwardFeed {
  /** Everything that the source stamped up to here is in the mirror. */
  readonly watermark: Timestamp | null;
  /** When a pull has last read the feed to its end. */
  readonly lastPull: Timestamp | null;
}

/**
 * Returns what is missing, as a sentence for a person; undefined when all awards are known. `record` is the event's record,
 * `awardedLots` the number of lots of which the bridge holds an award.
 */
export function missingAwards(
  { awards, feed }: AwardsHeld,
  { record, arrival, awardedLots }: { record: unknown; arrival: Arrival; awardedLots: number },
): string | undefined {
  const said = awardedLotsIn(record);
  if (said !== undefined && said !== awardedLots)
    return `the record of its event says that ${said} lots are awarded, and the bridge has read the awards of ${awardedLots}`;
  const isPassed = ({ modified }: Arrival) =>
    modified === null || (feed.watermark !== null && modified <= feed.watermark);
  const isReadSince = ({ seen }: Arrival) => feed.lastPull !== null && seen <= feed.lastPull;
  if (!isPassed(arrival) && !isReadSince(arrival))
    return 'the feed of awards has not been read to its end since the record of its event came';
  if (!awards.every((award) => isPassed(award) && isReadSince(award)))
    return 'the feed of awards has not been read past the last award of its event: more may follow';
  return undefined;
}

const roundsForm = z.looseObject({
  rounds: z.array(z.looseObject({ status: z.string(), awarded_lot_count: z.int().optional() })).default([]),
});

/** How many lots were awarded by the last round that is complete; undefined where the record does not say so. */
function awardedLotsIn(record: unknown): number | undefined {
  const { rounds } = readRecord(roundsForm, record, "the sourcing event's record");
  return rounds.findLast(({ status }) => status === 'COMPLETE')?.awarded_lot_count;
}
