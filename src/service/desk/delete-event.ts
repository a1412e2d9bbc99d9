import type { Clock } from '#platform/clock.ts';
import { hideFeedRecords } from '../feeds/append-feed-records.ts';
import { stateCommand } from './state-command.ts';

/** POST delete: its bids, answers and awards are no longer served; its own record is appended once more, as DELETED. */
export function deleteEvent({ clock }: { clock: Clock }) {
  return stateCommand({
    command: 'delete',
    summary: 'Delete an event',
    clock,
    change: async ({ event, unit }) => {
      await hideFeedRecords(unit, event, ['latest-bids', 'awards', 'rfi-responses']);
      return { event: { ...event, status: 'DELETED' }, domainEvent: 'event-deleted' };
    },
  });
}
