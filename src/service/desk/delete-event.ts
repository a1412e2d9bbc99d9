import { feedsHiddenWhile } from '#contract/feed.ts';
import type { Clock } from '#platform/clock.ts';
import { hideFeedRecords } from '../feeds/append-feed-records.ts';
import { stateCommand } from './state-command.ts';

/**
 * POST delete: the feeds no longer serve the event's bids, answers and awards. Its own record is appended as DELETED.
 */
export function deleteEvent({ clock }: { clock: Clock }) {
  return stateCommand({
    command: 'delete',
    summary: 'Delete an event',
    clock,
    change: async ({ event, unit }) => {
      await hideFeedRecords(unit, event, feedsHiddenWhile('DELETED'));
      return { event: { ...event, status: 'DELETED' }, domainEvent: 'event-deleted' };
    },
  });
}
