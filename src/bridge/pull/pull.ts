/** One pull of one feed: what all its steps share. */
import type { FeedName } from '#contract/feed.ts';
import type { Clock } from '#platform/clock.ts';
import type { Database } from '#platform/database/database.ts';
import type { Logger } from '#platform/log.ts';
import type { DuePull, FeedId } from './feed/checkpoint-store.ts';
import type { StorePage } from './feed/page-store.ts';
import type { FeedRangeDeps } from './range/read-feed-range.ts';

export interface Pull extends FeedRangeDeps {
  /** Joins log lines, notifications and the attempts of the documents that this pull marks as due. */
  readonly id: string;
  readonly feed: FeedId & { readonly feed: FeedName };
  readonly due: DuePull;
  readonly database: Database;
  readonly store: StorePage;
  readonly latenessMs: number;
  readonly pollMs: number;
  readonly clock: Clock;
  readonly log: Logger;
  readonly startedMs: number;
  /** How many records it has changed so far. */
  readonly changed: () => number;
  /** Returns how long a feed's next notification waits. */
  readonly throttleMs: (feed: FeedName) => number;
  /** Wakes the flows of this source, after a commit that made documents due. */
  readonly wakeFlows: () => void;
}

/** How the pages of a feed are followed. */
export function followingOf({ due }: Pull) {
  return { hasFailedBefore: due.failures > 1 };
}
