import { describe, expect, test } from 'vitest';
import type { EventStatus, RoundStatus } from '#contract/sourcing-event.ts';
import { allowedCommands, feedUpdates, refusalOf } from '#service/domain/lifecycle.ts';

const state = (status: EventStatus, ...rounds: RoundStatus[]) => ({
  status,
  rounds: rounds.map((one) => ({ status: one })),
});

describe('the commands that a state allows', () => {
  test.each<[EventStatus, RoundStatus[], string[]]>([
    ['DRAFT', [], ['publish']],
    ['OPEN', ['ACTIVE'], ['bid', 'scenario', 'award', 'close']],
    ['OPEN', ['CLOSED', 'ACTIVE'], ['bid', 'scenario', 'award', 'close']],
    ['OPEN', ['CLOSED'], ['scenario', 'award', 'close']],
    ['OPEN', ['PENDING'], ['scenario', 'award', 'close']],
    ['PAUSED', ['ACTIVE'], ['scenario', 'award']],
    ['CLOSED', ['COMPLETE'], ['scenario']],
    ['DELETED', [], []],
  ])('%s with rounds %j: %j', (status, rounds, allowed) => {
    expect(allowedCommands(state(status, ...rounds)).sort()).toEqual([...allowed].sort());
  });
});

test('a refusal says what is, and what would have to be', () => {
  expect(refusalOf('publish', state('OPEN', 'ACTIVE'))).toBe(
    '"publish" is not possible while the event is OPEN; it is while DRAFT.',
  );
  expect(refusalOf('bid', state('OPEN', 'CLOSED'))).toBe('"bid" needs an active round, and this event has none.');
  expect(refusalOf('bid', state('OPEN', 'ACTIVE'))).toBeUndefined();
});

test('each happening updates the feeds of its row in "Feed update conditions"', () => {
  expect(feedUpdates).toEqual({
    'event-created': ['sourcing-events'],
    'event-published': ['sourcing-events', 'latest-bids'],
    'bid-submitted': ['latest-bids'],
    'event-closed': ['sourcing-events', 'latest-bids', 'awards'],
  });
});
