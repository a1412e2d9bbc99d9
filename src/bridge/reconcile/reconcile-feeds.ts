/**
 * Compares the feeds of a flow's source with the mirror, window by window, up to the watermark: everything up to there
 * was read once. It only reads, waits for the source's quota, and goes on after the last window that was stored.
 *
 * Example: the watermark is 12:00; the source shows A (10:00), B (11:00) and D (11:30), the mirror has A, B with other
 * content, and C (11:10).
 *
 *     window (…, 12:00]   source 3 records, mirror 3 records, other hashes: B different, D missing, C perhaps gone
 *     after 12:00         the source shows C at 12:05: it has changed since, so it is not gone
 */
import { createHash } from 'node:crypto';
import type { SourceClient } from '#client/source-client.ts';
import type { FeedName } from '#contract/feed.ts';
import type { Timestamp } from '#contract/timestamp.ts';
import { type Clock, timestampNow } from '#platform/clock.ts';
import type { Database } from '#platform/database/database.ts';
import { AppError, errorText } from '#platform/errors.ts';
import { versionsOf } from '../mirror/read-version.ts';
import { createFeedReader } from '../pull/feed/feed-reader.ts';
import { emptyPagesOf, scanFeed } from '../pull/windows/scan-feed.ts';
import type { BridgeSettings, FlowSettings, SourceSettings } from '../settings.ts';
import {
  beginFeed,
  type ComparedFeed,
  type ComparedFeedWindow,
  endFeed,
  type FeedFinding,
  type HashedRecord,
  readMaybeGone,
  readMirrorWindow,
  storeFeedWindow,
  takeBackGone,
} from './feed-window-store.ts';
import type { Reconciliation } from './reconciliation-store.ts';

export interface ReconcileFeedsDeps {
  readonly database: Database;
  readonly source: SourceSettings;
  readonly client: Pick<SourceClient, 'readFeed'>;
  readonly clock: Clock;
  /** Called after each window. */
  readonly onWindow?: (feed: FeedName) => void;
}

/**
 * Goes on with the feeds of the run until each is compared. A feed that cannot be read is noted as not compared; the
 * others are not affected. Rejects when `signal` aborts: what was compared until then stays.
 */
export async function reconcileFeeds(
  deps: ReconcileFeedsDeps,
  run: Reconciliation,
  signal: AbortSignal,
): Promise<void> {
  const { database, source, clock } = deps;
  // The documents of single events say nothing about windows.
  if (run.ended !== null || run.events !== null) return;
  for (const feed of source.feeds) {
    const begun = await beginFeed(database, { run: run.id, source: source.name, feed });
    if (begun.ended !== null) continue;
    let reason: string | null = begun.upper === null ? 'the bridge has not read it to an end yet' : null;
    try {
      if (begun.upper !== null) await patiently(begun, begun.upper);
    } catch (error) {
      if (signal.aborted) throw signal.reason;
      if (error instanceof AppError && error.code === 'conflict') throw error;
      reason = errorText(error);
    }
    await endFeed(database, { run: run.id, feed, notCompared: reason }, timestampNow(clock));
  }

  /** Tries again while the source is not available, each time after the last window that was stored. */
  async function patiently(begun: ComparedFeed, upper: Timestamp): Promise<void> {
    for (let tries = 1; ; tries += 1)
      try {
        const { feed } = begun;
        const stand = tries === 1 ? begun : await beginFeed(database, { run: run.id, source: source.name, feed });
        return await compareFeed(deps, run.id, { ...stand, upper }, signal);
      } catch (error) {
        const mayPass = error instanceof AppError && error.code === 'unavailable' && error.recovery.do === 'retry';
        if (signal.aborted || !mayPass || tries === triesMax) throw error;
        await clock.sleep(retryMs * 2 ** (tries - 1), signal);
      }
  }
}

const triesMax = 4;
const retryMs = 1_000;

/** The settings of a flow's source. Throws AppError `invalid` when there is none of that name. */
export function sourceOfFlow(
  { sources }: Pick<BridgeSettings, 'sources'>,
  flow: Pick<FlowSettings, 'name' | 'source'>,
): SourceSettings {
  const source = sources.find(({ name }) => name === flow.source);
  if (source) return source;
  throw new AppError('invalid', `Flow "${flow.name}": there is no source "${flow.source}".`);
}

async function compareFeed(
  deps: ReconcileFeedsDeps,
  run: number,
  begun: ComparedFeed & { readonly upper: Timestamp },
  signal: AbortSignal,
): Promise<void> {
  const { database, source, clock } = deps;
  const { feed, upper, position, granularityMicros } = begun;
  const id = { source: source.name, feed };
  const reader = createFeedReader({
    client: deps.client,
    background: deps.client,
    feed,
    pageSize: source.page_size,
    includes: [],
    pageCap: undefined,
    onRefused: async () => undefined,
    clock,
    during: (work) => work(signal),
  });
  const scan = {
    feed: id,
    reader,
    database,
    // A comparison notes nothing about the source.
    transaction: async () => undefined as never,
    granularityMicros,
    emptyPages: emptyPagesOf(source),
    clock,
  };
  let shown = new Map<string, HashedRecord>();
  for await (const { records, complete } of scanFeed(scan, { from: position ?? undefined, to: upper })) {
    signal.throwIfAborted();
    const versions = versionsOf(
      records.map(({ record }) => record),
      feed,
    );
    for (const { recordId, modified, hash } of versions)
      shown.set(recordId, { recordId, modified, hash: hash.toString('hex') });
    if (!complete) continue;
    const within = [...shown.values()].filter(
      ({ modified }) => modified <= complete.to && (complete.after === undefined || modified > complete.after),
    );
    const held = await readMirrorWindow(database, id, complete, [...shown.keys()]);
    await storeFeedWindow(database, { run, feed, range: complete, ...compareWindow(within, held, complete) });
    shown = new Map();
    deps.onWindow?.(feed);
  }
  // What has changed since then lies after the upper bound.
  const maybeGone = await readMaybeGone(database, run, id);
  if (maybeGone.size === 0) return;
  for await (const { records } of scanFeed(scan, { from: upper, to: timestampNow(clock) })) {
    signal.throwIfAborted();
    await takeBackGone(
      database,
      { run, feed },
      records.flatMap((record) => (maybeGone.has(record.id) ? [record.id] : [])),
    );
  }
}

type ComparedWindow = Pick<ComparedFeedWindow, 'source' | 'mirror' | 'findings'>;

/** `held` are the mirror's records of the window, and those that the source shows in it, wherever the mirror has them. */
function compareWindow(
  shown: readonly HashedRecord[],
  held: readonly HashedRecord[],
  { after, to }: { after: Timestamp | undefined; to: Timestamp },
): ComparedWindow {
  const heldById = new Map(held.map((record) => [record.recordId, record]));
  const inWindow = held.filter(({ modified }) => modified <= to && (after === undefined || modified > after));
  const shownIds = new Set(shown.map(({ recordId }) => recordId));
  const findings: FeedFinding[] = [
    ...shown.flatMap(({ recordId, modified, hash }): FeedFinding[] => {
      const own = heldById.get(recordId);
      if (!own) return [{ record: recordId, finding: 'missing', modified }];
      // The mirror has a newer version: it was pulled after the source was asked.
      if (own.modified > modified) return [];
      return own.hash === hash && own.modified === modified
        ? []
        : [{ record: recordId, finding: 'different', modified }];
    }),
    ...inWindow.flatMap(({ recordId, modified }): FeedFinding[] =>
      shownIds.has(recordId) ? [] : [{ record: recordId, finding: 'gone', modified }],
    ),
  ];
  return { source: sideOf(shown), mirror: sideOf(inWindow), findings };
}

function sideOf(records: readonly HashedRecord[]): { records: number; hash: string } {
  const hash = createHash('sha256');
  for (const { recordId, modified, hash: content } of records.toSorted((a, b) => (a.recordId < b.recordId ? -1 : 1)))
    hash.update(`${recordId} ${modified} ${content}\n`);
  return { records: records.length, hash: hash.digest('hex') };
}
