/**
 * The event's lifecycle and the feeds that each step touches, as two tables. Sources: decisions, "Operating it" (the
 * lifecycle), and the API document's table "Feed update conditions", which is the law for the feeds.
 */
import type { FeedName } from '#contract/feed.ts';
import type { EventStatus, RoundStatus } from '#contract/sourcing-event.ts';

export type Command = 'publish' | 'bid' | 'scenario' | 'award' | 'close';

interface Rule {
  /** The states in which the command is allowed. */
  from: readonly EventStatus[];
  /** Needs a round that takes bids. */
  needsActiveRound?: true;
}

const rules: Record<Command, Rule> = {
  publish: { from: ['DRAFT'] },
  bid: { from: ['OPEN'], needsActiveRound: true },
  scenario: { from: ['OPEN', 'PAUSED', 'CLOSED'] },
  award: { from: ['OPEN', 'PAUSED'] },
  close: { from: ['OPEN'] },
};

/** What happens to an event that feeds announce, and the feeds it announces it in, in the order they are written. */
export const feedUpdates = {
  'event-created': ['sourcing-events'],
  'event-published': ['sourcing-events', 'latest-bids'],
  'bid-submitted': ['latest-bids'],
  'event-closed': ['sourcing-events', 'latest-bids', 'awards'],
} as const satisfies Record<string, readonly FeedName[]>;

export type Happening = keyof typeof feedUpdates;

interface State {
  status: EventStatus;
  rounds: readonly { status: RoundStatus }[];
}

/** Why the command is not allowed now, in words for the one who gave it; undefined when it is allowed. */
export function refusalOf(command: Command, { status, rounds }: State): string | undefined {
  const rule = rules[command];
  if (!rule.from.includes(status))
    return `"${command}" is not possible while the event is ${status}; it is while ${rule.from.join(' or ')}.`;
  if (rule.needsActiveRound && !rounds.some((round) => round.status === 'ACTIVE'))
    return `"${command}" needs an active round, and this event has none.`;
  return undefined;
}

export function allowedCommands(state: State): Command[] {
  return (Object.keys(rules) as Command[]).filter((command) => refusalOf(command, state) === undefined);
}
