import { feedsHiddenWhile } from '#contract/feed.ts';
import type { Clock } from '#platform/clock.ts';
import { hideFeedRecords } from '../feeds/append-feed-records.ts';
import { stateCommand } from './state-command.ts';

/**
 * POST unpublish: takes the event back to draft, also when it has bids. Bids and answers are kept; the feeds serve them
 * again when the event is published again. An active round becomes pending until then.
 */
export function unpublishEvent({ clock }: { clock: Clock }) {
  return stateCommand({
    command: 'unpublish',
    summary: 'Take an event back to draft',
    clock,
    change: async ({ event, unit }) => {
      await hideFeedRecords(unit, event, feedsHiddenWhile('DRAFT'));
      const rounds = event.rounds.map((round) =>
        round.status === 'ACTIVE' ? { ...round, status: 'PENDING' as const } : round,
      );
      return { event: { ...event, status: 'DRAFT', rounds } };
    },
  });
}
