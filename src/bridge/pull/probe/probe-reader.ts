/**
 * The requests of `bridge doctor` to one feed, and what each answer showed. They are counted, and there are never more
 * than `requestsMax`: a check must not spend the quota that the pull needs.
 */

import { readVersionKey } from '#bridge/mirror/read-version.ts';
import type { FeedPage, FeedWindow, SourceClient } from '#client/source-client.ts';
import type { CheckResult } from '#connector/connector.ts';
import type { FeedName } from '#contract/feed.ts';
import type { Timestamp } from '#contract/timestamp.ts';
import type { Clock } from '#platform/clock.ts';
import { AppError } from '#platform/errors.ts';

/** What was found out: `ok`, `note` for what costs time or requests, `fail` for what an operator must change. */
export interface ProbeResult extends CheckResult {
  /** The feed is read safely, but not as quickly or as cheaply as it could be. */
  readonly note?: true;
}

export type Report = (name: string, verdict: 'ok' | 'note' | 'fail', message: string) => void;

/** A page, with the stamps and ids of its records, how many were requested, and when. */
export interface ProbedPage extends FeedPage {
  readonly times: readonly Timestamp[];
  readonly ids: readonly string[];
  /** How many records were requested; of a next page, what its first page requested. */
  readonly requested: number;
  readonly askedMs: number;
  readonly answeredMs: number;
}

export interface ProbeReader {
  readonly window: (at: FeedWindow) => Promise<ProbedPage>;
  /** The page after `before`, which must have one. */
  readonly nextOf: (before: ProbedPage) => Promise<ProbedPage>;
  /** How many more requests may be sent. */
  readonly left: () => number;
  /** Every answer so far, in the order of the requests. */
  readonly samples: readonly ProbedPage[];
}

/** The questions send fewer; the bound holds for a source that nobody has thought of. */
const requestsMax = 50;

/** Rejects as the client does; with AppError `unavailable` when a source leads to more than `requestsMax` requests. */
export function createProbeReader(
  { client, feed, clock }: { client: Pick<SourceClient, 'readFeed'>; feed: FeedName; clock: Clock },
  signal: AbortSignal,
): ProbeReader {
  const samples: ProbedPage[] = [];
  let sent = 0;
  const read = async (at: FeedWindow | { next: string }, requested: number): Promise<ProbedPage> => {
    sent += 1;
    if (sent > requestsMax)
      throw new AppError('unavailable', `The check of the feed ${feed} ended after ${requestsMax} requests.`);
    const askedMs = clock.nowMs();
    const page = await client.readFeed(feed, at, signal);
    const keys = page.records.map((record, index) => readVersionKey(record, feed, index));
    const sample: ProbedPage = {
      ...page,
      times: keys.map(({ modified }) => modified),
      ids: keys.map(({ id }) => id),
      requested,
      askedMs,
      answeredMs: clock.nowMs(),
    };
    samples.push(sample);
    return sample;
  };
  return {
    samples,
    left: () => requestsMax - sent,
    window: (at) => read(at, at.pageSize),
    nextOf: ({ next, requested }) => {
      if (next === undefined) throw new TypeError('the page has no next page');
      return read({ next }, requested);
    },
  };
}
