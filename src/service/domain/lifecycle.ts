/**
 * The event's lifecycle and the feeds that each step updates, as two tables. Sources: decisions, "Operating it" (the
 * lifecycle), and the API document's table "Feed update conditions" (the feeds).
 */
import type { FeedName } from '#contract/feed.ts';
import type { EventStatus, RoundStatus } from '#contract/sourcing-event.ts';
import { isOver } from './rounds.ts';

interface State {
  status: EventStatus;
  isTemplate: boolean;
  /** Set: it closed so long ago that its bids and answers were deleted. */
  emptied?: string | null;
  rounds: readonly { status: RoundStatus; reopened: boolean }[];
}

/** What a command needs besides the event's status. Returns what is missing. */
type Need = (state: State) => string | undefined;

const isActive = ({ status }: { status: RoundStatus }) => status === 'ACTIVE';

const activeRound: Need = ({ rounds }) =>
  rounds.some(isActive) ? undefined : 'it needs a round that is ACTIVE, and this event has none';

const roundAhead: Need = ({ rounds }) =>
  rounds.every(isOver) ? 'it needs a round that is PENDING or ACTIVE, and this event has none' : undefined;

const roundToReopen: Need = ({ rounds }) =>
  rounds.some(isActive)
    ? 'another round is ACTIVE: close it first'
    : rounds.some(isOver)
      ? undefined
      : 'no round has closed yet';

const reopenedRound: Need = ({ rounds }) =>
  rounds.some((round) => isActive(round) && round.reopened)
    ? undefined
    : 'it is possible while a round has been reopened, and none is';

/** The buyer may edit bids only after a round of bidding. */
const closedRound: Need = ({ rounds }) =>
  rounds.some(isOver) ? undefined : 'it is possible after a round has closed, and none has';

const noTemplate: Need = ({ isTemplate }) =>
  isTemplate ? 'this is a template: create an event from it, and publish that' : undefined;

interface Rule {
  /** The states in which the command is allowed. */
  from: readonly EventStatus[];
  needs?: Need;
}

const rules = {
  publish: { from: ['DRAFT'], needs: noTemplate },
  unpublish: { from: ['OPEN'] },
  pause: { from: ['OPEN'] },
  resume: { from: ['PAUSED'] },
  close: { from: ['OPEN'] },
  reopen: { from: ['CLOSED'] },
  delete: { from: ['DRAFT', 'PAUSED', 'CLOSED'] },
  'add-round': { from: ['DRAFT', 'OPEN', 'PAUSED'] },
  'close-round': { from: ['OPEN'], needs: activeRound },
  'extend-round': { from: ['DRAFT', 'OPEN', 'PAUSED'], needs: roundAhead },
  'reopen-round': { from: ['OPEN'], needs: roundToReopen },
  invite: { from: ['DRAFT', 'OPEN', 'PAUSED'] },
  bid: { from: ['OPEN'], needs: activeRound },
  'withdraw-bid': { from: ['OPEN'], needs: reopenedRound },
  'edit-bids': { from: ['OPEN', 'PAUSED'], needs: closedRound },
  'buyer-values': { from: ['DRAFT', 'OPEN', 'PAUSED'] },
  scenario: { from: ['OPEN', 'PAUSED', 'CLOSED'] },
  award: { from: ['OPEN', 'PAUSED'] },
  questions: { from: ['DRAFT', 'OPEN', 'PAUSED'] },
  answer: { from: ['OPEN'] },
  'remove-answer-file': { from: ['OPEN'] },
} as const satisfies Record<string, Rule>;

export type Command = keyof typeof rules;
export const commands = Object.keys(rules) as [Command, ...Command[]];

/** The domain events that feeds announce, and the feeds that each updates, in the order in which they are written. */
export const feedUpdates = {
  'event-created': ['sourcing-events'],
  'event-published': ['sourcing-events', 'latest-bids', 'rfi-responses'],
  'event-paused': ['rfi-responses'],
  'event-resumed': ['sourcing-events', 'latest-bids', 'rfi-responses'],
  'round-closed': ['sourcing-events', 'latest-bids', 'rfi-responses'],
  'event-closed': ['sourcing-events', 'latest-bids', 'awards', 'rfi-responses'],
  'event-deleted': ['sourcing-events'],
  'bid-submitted': ['latest-bids'],
  'bids-withdrawn': ['latest-bids'],
  'bids-edited': ['latest-bids'],
  'answers-confirmed': ['rfi-responses'],
  'answer-files-changed': ['rfi-responses'],
  'question-edited': ['rfi-responses'],
} as const satisfies Record<string, readonly FeedName[]>;

export type DomainEvent = keyof typeof feedUpdates;

/** Returns why the command is not allowed now, in words for the caller; undefined when it is allowed. */
export function refusalOf(command: Command, state: State): string | undefined {
  const { from, needs }: Rule = rules[command];
  if (state.emptied && command !== 'delete')
    return `"${command}" is not possible: the event closed so long ago that its bids and answers were deleted.`;
  if (!from.includes(state.status))
    return `"${command}" is not possible while the event is ${state.status}; it is while ${from.join(' or ')}.`;
  const missing = needs?.(state);
  return missing && `"${command}" is not possible: ${missing}.`;
}

export function allowedCommands(state: State): Command[] {
  return commands.filter((command) => refusalOf(command, state) === undefined);
}
