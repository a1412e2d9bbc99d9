/**
 * Copies of the organisations' feeds in memory, for answers that misbehave. Before each answer a copy takes over what
 * was appended since: the newest version of each record, in the order of commits. What happened to a record between two
 * answers is seen as one change.
 */
import type { FeedName } from '#contract/feed.ts';
import { microsFromTimestamp, type Timestamp } from '#contract/timestamp.ts';
import type { Clock } from '#platform/clock.ts';
import type { Database } from '#platform/database/database.ts';
import { AppError } from '#platform/errors.ts';
import { HostileFeed } from './hostile-feed.ts';
import { changedForm, type Fraction, latenessOf, stampOf } from './hostile-versions.ts';
import type { Misbehaviour } from './misbehaviour.ts';
import { seededFraction } from './seeded-fraction.ts';

/** Misbehaving is for tests: what all copies hold is bounded, because it is held in memory. */
const textLengthMaxDefault = 200_000_000;
const batchSize = 1_000;
const stampAt = -',"modified":"2030-12-31T23:59:59.000000Z"}'.length;

export interface FeedCopies {
  /** The copy of a feed as it is now; its late versions are waiting in it. Throws `unavailable` when it is too large. */
  copyOf(organisationId: string, feed: FeedName): Promise<HostileFeed>;
  isCalm(organisationId: string): boolean;
  setCalm(organisationId: string, calm: boolean): void;
}

interface Copy {
  readonly feed: HostileFeed;
  readonly draws: Fraction;
  /** The head of the feed when it was read last. */
  changes: string;
  newest: Timestamp | null;
  /** One reading at a time. */
  reading: Promise<void>;
}

interface Deps {
  readonly database: Database;
  readonly clock: Clock;
  readonly misbehaviour: Misbehaviour;
  readonly seed: string;
  readonly textLengthMax?: number;
}

/** Creates the copies; each is read when it is asked for. */
export function createFeedCopies(deps: Deps): FeedCopies {
  const { database, clock, seed, textLengthMax = textLengthMaxDefault } = deps;
  const { feed: quirks } = deps.misbehaviour;
  const startMicros = clock.nowMs() * 1_000;
  const copies = new Map<string, Copy>();
  const calm = new Set<string>();
  const isTooLarge = () => [...copies.values()].reduce((sum, { feed }) => sum + feed.textLength, 0) > textLengthMax;

  // The same seed for each organisation: what one of them does changes nothing for another.
  const openCopy = (feed: FeedName): Copy => ({
    feed: new HostileFeed(quirks, { random: seededFraction(`${seed} ${feed} answers`), startMicros }),
    draws: seededFraction(`${seed} ${feed} versions`),
    changes: '',
    newest: null,
    reading: Promise.resolve(),
  });

  function append(copy: Copy, { id, modified, body }: StoredRow, isCalm: boolean): void {
    const writtenMicros = microsFromTimestamp(modified);
    const moment = { nowMicros: writtenMicros, startMicros };
    const last = copy.feed.last(id);
    const stampMicros = stampOf(quirks, moment, last ? [last.stampMicros] : [], copy.draws);
    const lateMs = latenessOf(quirks, copy.draws);
    // The service's own stamps may be some microseconds ahead of its clock.
    const readMicros = Math.min(writtenMicros, clock.nowMs() * 1_000);
    const committedMicros = Math.max(readMicros + (isCalm ? 0 : lateMs * 1_000), last?.committedMicros ?? 0);
    const json = changedForm(quirks, moment, `${body.slice(0, stampAt)}}`);
    copy.feed.commit({ id, stampMicros, committedMicros, json });
  }

  async function readAppended(copy: Copy, organisationId: string, feed: FeedName): Promise<void> {
    for (;;) {
      if (isTooLarge())
        throw new AppError(
          'unavailable',
          'A service that misbehaves keeps its feeds in memory, and these are too large.',
        );
      const rows = await database.query<StoredRow>(
        `select id, modified, body from service.feed_records
         where organisation_id = $1 and feed = $2 and visible and ($3::timestamptz is null or modified > $3)
         order by modified limit $4`,
        [organisationId, feed, copy.newest, batchSize],
      );
      for (const row of rows) append(copy, row, calm.has(organisationId));
      copy.newest = rows.at(-1)?.modified ?? copy.newest;
      if (rows.length < batchSize) return;
    }
  }

  /** Records that are hidden, with their events, leave the feed without a new stamp. */
  async function readHidden(copy: Copy, organisationId: string, feed: FeedName): Promise<void> {
    const hidden = await database.query<{ id: string }>(
      'select id from service.feed_records where organisation_id = $1 and feed = $2 and not visible',
      [organisationId, feed],
    );
    for (const { id } of hidden) {
      const last = copy.feed.last(id);
      if (!last || last.json === null) continue;
      const committedMicros = Math.max(clock.nowMs() * 1_000, last.committedMicros);
      copy.feed.commit({ id, stampMicros: last.stampMicros, committedMicros, json: null });
    }
  }

  async function read(copy: Copy, organisationId: string, feed: FeedName): Promise<void> {
    const [head] = await database.query<{ changes: string }>(
      'select changes from service.feed_heads where organisation_id = $1 and feed = $2',
      [organisationId, feed],
    );
    if (!head || head.changes === copy.changes) return;
    await readAppended(copy, organisationId, feed);
    await readHidden(copy, organisationId, feed);
    // What was appended meanwhile has changed the head again: it is read at the next request.
    copy.changes = head.changes;
  }

  return {
    copyOf: async (organisationId, feed) => {
      const key = `${organisationId} ${feed}`;
      const copy = copies.get(key) ?? openCopy(feed);
      copies.set(key, copy);
      copy.reading = copy.reading.catch(() => undefined).then(() => read(copy, organisationId, feed));
      await copy.reading;
      return copy.feed;
    },
    isCalm: (organisationId) => calm.has(organisationId),
    setCalm: (organisationId, isCalm) => void (isCalm ? calm.add(organisationId) : calm.delete(organisationId)),
  };
}

interface StoredRow {
  id: string;
  modified: Timestamp;
  body: string;
}
