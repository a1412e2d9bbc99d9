import { describe, expect, test } from 'vitest';
import type { FeedName } from '#contract/feed.ts';
import type { EventStatus, RoundStatus } from '#contract/sourcing-event.ts';
import { allowedCommands, type DomainEvent, feedUpdates, refusalOf } from '#service/domain/lifecycle.ts';

/** `ACTIVE again` is a round that is open for the second time. */
const state = (status: EventStatus, ...rounds: (RoundStatus | 'ACTIVE again')[]) => ({
  status,
  isTemplate: false,
  rounds: rounds.map((one) => ({
    status: one === 'ACTIVE again' ? ('ACTIVE' as const) : one,
    reopened: one === 'ACTIVE again',
  })),
});

const plan = ['add-round', 'invite', 'buyer-values', 'questions'];
const open = ['unpublish', 'pause', 'close', ...plan, 'scenario', 'award', 'answer', 'remove-answer-file'];

describe('the commands that a state allows', () => {
  test.each<[ReturnType<typeof state>, string[]]>([
    [state('DRAFT'), ['publish', 'delete', ...plan]],
    [state('DRAFT', 'PENDING'), ['publish', 'delete', ...plan, 'extend-round']],
    [state('OPEN', 'PENDING'), [...open, 'extend-round']],
    [state('OPEN', 'ACTIVE'), [...open, 'bid', 'close-round', 'extend-round']],
    [state('OPEN', 'ACTIVE again'), [...open, 'bid', 'withdraw-bid', 'close-round', 'extend-round']],
    [state('OPEN', 'CLOSED', 'ACTIVE'), [...open, 'bid', 'edit-bids', 'close-round', 'extend-round']],
    [state('OPEN', 'CLOSED', 'PENDING'), [...open, 'edit-bids', 'extend-round', 'reopen-round']],
    [state('OPEN', 'CLOSED'), [...open, 'edit-bids', 'reopen-round']],
    [state('PAUSED', 'ACTIVE'), ['resume', 'delete', ...plan, 'scenario', 'award', 'extend-round']],
    [state('PAUSED', 'CLOSED'), ['resume', 'delete', ...plan, 'scenario', 'award', 'edit-bids']],
    [state('CLOSED', 'COMPLETE'), ['reopen', 'delete', 'scenario']],
    [state('CLOSED', 'CLOSED'), ['reopen', 'delete', 'scenario']],
    [state('DELETED', 'CLOSED'), []],
  ])('%j', (given, allowed) => {
    expect(allowedCommands(given).sort()).toEqual([...allowed].sort());
  });

  test('a template is never published', () => {
    const template = { ...state('DRAFT'), isTemplate: true };
    expect(allowedCommands(template)).not.toContain('publish');
    expect(refusalOf('publish', template)).toBe(
      '"publish" is not possible: this is a template: create an event from it, and publish that.',
    );
  });
});

test('a refusal states the present state and the states in which the command is possible', () => {
  expect(refusalOf('publish', state('OPEN', 'ACTIVE'))).toBe(
    '"publish" is not possible while the event is OPEN; it is while DRAFT.',
  );
  expect(refusalOf('delete', state('OPEN', 'ACTIVE'))).toBe(
    '"delete" is not possible while the event is OPEN; it is while DRAFT or PAUSED or CLOSED.',
  );
  expect(refusalOf('bid', state('OPEN', 'CLOSED'))).toBe(
    '"bid" is not possible: it needs a round that is ACTIVE, and this event has none.',
  );
  expect(refusalOf('reopen-round', state('OPEN', 'CLOSED', 'ACTIVE'))).toBe(
    '"reopen-round" is not possible: another round is ACTIVE: close it first.',
  );
  expect(refusalOf('bid', state('OPEN', 'ACTIVE'))).toBeUndefined();
});

test('each domain event updates the feeds of its row in "Feed update conditions", and each feed has a row', () => {
  // The table of the API document, read by feed; the domain events of a row in the order that it names them.
  const rows: Readonly<Record<FeedName, readonly DomainEvent[]>> = {
    'sourcing-events': [
      'event-created',
      'event-published',
      'event-resumed',
      'round-closed',
      'event-closed',
      'event-deleted',
    ],
    'latest-bids': [
      'event-published',
      'event-resumed',
      'bid-submitted',
      'round-closed',
      'event-closed',
      'bids-withdrawn',
      'bids-edited',
    ],
    awards: ['event-closed'],
    'rfi-responses': [
      'event-published',
      'event-paused',
      'event-resumed',
      'event-closed',
      'round-closed',
      'answers-confirmed',
      'answer-files-changed',
      'question-edited',
    ],
  };
  for (const [feed, domainEvents] of Object.entries(rows)) {
    const updated = Object.entries(feedUpdates).filter(([, feeds]) => (feeds as readonly string[]).includes(feed));
    expect(updated.map(([domainEvent]) => domainEvent).sort()).toEqual([...domainEvents].sort());
    expect(updated, `feedUpdates has no domain event that updates ${feed}`).not.toEqual([]);
  }
});
