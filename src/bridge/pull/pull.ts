/** One pull of one feed: what all its steps share. */
import type { FeedName } from '#contract/feed.ts';
import type { Database } from '#platform/database/database.ts';
import type { Logger } from '#platform/log.ts';
import type { DuePull, FeedId } from './feed/checkpoint-store.ts';
import type { ScanDeps } from './windows/scan-feed.ts';

export interface Pull extends ScanDeps {
  /** Joins log lines, notifications and the attempts of the documents that this pull marks as due. */
  readonly id: string;
  readonly startedMs: number;
  readonly database: Database;
  /** How many records it has changed so far. */
  readonly changed: () => number;
  readonly feed: FeedId & { readonly feed: FeedName };
  readonly due: DuePull;
  readonly pollMs: number;
  /** Returns how long a feed's next notification waits. */
  readonly throttleMs: (feed: FeedName) => number;
  readonly log: Logger;
}
