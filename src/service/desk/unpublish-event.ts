import type { Clock } from '#platform/clock.ts';
import { hideFeedRecords } from '../feeds/append-feed-records.ts';
import { stateCommand } from './state-command.ts';

/**
 * POST unpublish: back to draft, also when there are bids. They and the answers are kept, and served again when the
 * event is published again; its open round waits for that, too.
 */
export function unpublishEvent({ clock }: { clock: Clock }) {
  return stateCommand({
    command: 'unpublish',
    summary: 'Take an event back to draft',
    clock,
    change: async ({ event, unit }) => {
      await hideFeedRecords(unit, event, ['latest-bids', 'rfi-responses']);
      const rounds = event.rounds.map((round) =>
        round.status === 'ACTIVE' ? { ...round, status: 'PENDING' as const } : round,
      );
      return { event: { ...event, status: 'DRAFT', rounds } };
    },
  });
}
