/** Watches an organisation's feeds while a test acts: which triggers fired, and which records were appended. */
import { type FeedName, feedNames } from '#contract/feed.ts';
import { feedTriggers } from '#contract/webhook.ts';
import { readWholeFeed } from './sourcing.ts';
import { takeNotifications } from './take-notifications.ts';
import type { TestOrganisation } from './test-organisation.ts';
import type { TestService } from './test-service.ts';

// biome-ignore lint/suspicious/noExplicitAny: a test looks into records of every shape
// oxlint-disable-next-line typescript/no-explicit-any
export type AnyRecord = any;

export interface FeedsSeen {
  /** The feeds whose trigger fired since the last call. */
  fired: FeedName[];
  payloads: Record<string, unknown>[];
  /** The records that were appended since the last call, by feed; feeds without any are left out. */
  appended: Partial<Record<FeedName, AnyRecord[]>>;
  /** Ids of the records that the feed no longer shows. */
  hidden: Partial<Record<FeedName, string[]>>;
}

/**
 * Registers a webhook whose URL nothing answers, so that its notifications stay in the outbox. Returns the function
 * that reports what has happened since its last call, and deletes those notifications.
 */
export async function watchFeeds(
  service: TestService,
  organisation: TestOrganisation,
): Promise<() => Promise<FeedsSeen>> {
  await organisation.call('POST', '/api/webhooks', {
    name: 'all',
    url: 'https://localhost:1/',
    triggers: Object.values(feedTriggers),
  });
  let before = new Map<FeedName, Map<string, string>>();
  const look = async (): Promise<FeedsSeen> => {
    const rows = await service.db.database.transaction(async (tx) => {
      // The lock waits for transactions that are writing notifications, so that all of them are read, or none.
      await tx.query('lock table service.deliveries in share row exclusive mode');
      return takeNotifications(tx, organisation.id);
    });
    const fired = new Set(rows.map(({ trigger }) => trigger));
    const seen: FeedsSeen = {
      fired: feedNames.filter((feed) => fired.has(feedTriggers[feed])),
      payloads: rows.map(({ payload }) => payload),
      appended: {},
      hidden: {},
    };
    const after = new Map<FeedName, Map<string, string>>();
    for (const feed of feedNames) {
      const records: AnyRecord[] = await readWholeFeed(organisation, feed);
      const now = new Map<string, string>(records.map(({ id, modified }) => [String(id), modified]));
      const known = before.get(feed) ?? new Map<string, string>();
      const appended = records.filter(({ id, modified }) => known.get(String(id)) !== modified);
      const hidden = [...known.keys()].filter((id) => !now.has(id));
      if (appended.length > 0) seen.appended[feed] = appended;
      if (hidden.length > 0) seen.hidden[feed] = hidden;
      after.set(feed, now);
    }
    before = after;
    return seen;
  };
  await look();
  return look;
}
