/**
 * Writes and announces every change of an event's status and rounds. A command's change and the changes that are due by
 * the clock (rounds that begin or end, closing after the last round) are written together and announced once, in the
 * caller's transaction. Commands and timers both go through here, under the event's lock, so each round closes exactly
 * once.
 */
import type { FeedName } from '#contract/feed.ts';
import type { Timestamp } from '#contract/timestamp.ts';
import { type Clock, timestampNow } from '#platform/clock.ts';
import type { Sql } from '#platform/database/sql.ts';
import { compileBidSheet } from '../domain/bid-sheet.ts';
import { bidRecords, type FeedRecords, makeAwards } from '../domain/feed-records.ts';
import {
  type DueCause,
  type HistoryEntry,
  historyOfCommand,
  historyOfDue,
  historyOfLastRound,
} from '../domain/history.ts';
import { type DomainEvent, feedUpdates } from '../domain/lifecycle.ts';
import { isOver, roundsAt, roundsOfClosedEvent } from '../domain/rounds.ts';
import type { SourcingEvent } from '../domain/sourcing-event.ts';
import type { UnitOfWork } from '../unit-of-work.ts';
import { type Announcement, announce } from './announce.ts';
import { saveEventState } from './event-state-store.ts';
import { loadBids, loadEvent } from './event-store.ts';
import { appendHistory } from './history-store.ts';
import { loadScenario } from './scenario-store.ts';

/** An event after a change, with the domain event to announce and the feed records that are made already. */
export interface EventChange {
  readonly event: SourcingEvent;
  readonly domainEvent?: DomainEvent | undefined;
  readonly records?: FeedRecords;
}

/**
 * Loads an event of this organisation, locks it and applies what is due by now. Returns the event and that time. Throws
 * `not-found`.
 */
export async function loadEventNow(
  unit: UnitOfWork,
  organisationId: string,
  id: string | undefined,
  clock: Clock,
): Promise<{ event: SourcingEvent; now: Timestamp }> {
  const event = await loadEvent(unit.tx, organisationId, id, 'lock');
  // Read after the lock is held: a command that waited for the lock until a round had ended is too late.
  const now = timestampNow(clock);
  return { event: await applyEventChange(unit, event, { event }, now), now };
}

/**
 * Writes how the changed event differs from `before`, and what is due by `now`; announces both, and returns the event.
 * `before` is the event as it is stored; the caller holds its lock.
 */
export async function applyEventChange(
  unit: UnitOfWork,
  before: SourcingEvent,
  change: EventChange,
  now: Timestamp,
): Promise<SourcingEvent> {
  const due = await advance(unit.tx, before, change.event, now);
  const { event } = due;
  const changed = await saveEventState(unit.tx, before, event);
  await appendHistory(unit.tx, event, [...historyOfCommand(before, change.event, now), ...due.history]);
  await announceAll(unit, withoutCovered([due.domainEvent, change.domainEvent]), {
    event,
    now,
    records: { ...change.records, ...due.records },
  });
  // A round may now begin or end at another time: the timers look again.
  if (changed && event.status === 'OPEN') unit.wake('rounds', event.id);
  return event;
}

/** One after the other, as each locks the organisation's feeds and compares with what the one before has appended. */
async function announceAll(
  unit: UnitOfWork,
  domainEvents: readonly DomainEvent[],
  announcement: Omit<Announcement, 'domainEvent'>,
): Promise<void> {
  for (const domainEvent of domainEvents) await announce(unit, { ...announcement, domainEvent });
}

/**
 * Returns the event with what is due by `now` applied: rounds begin and end, and the event closes if it closes after
 * its last round. Beside it what its history says of that. Writes nothing.
 */
export async function eventAt(sql: Sql, event: SourcingEvent, now: Timestamp): Promise<DueChange> {
  return advance(sql, event, event, now);
}

/** What was due, with the entries of the event's history that are not written yet. */
interface DueChange extends EventChange {
  readonly history: readonly HistoryEntry[];
}

function causeOf(before: SourcingEvent, event: SourcingEvent): DueCause {
  if (before === event) return 'timer';
  if (before.status === 'DRAFT') return 'publish';
  return before.status === 'PAUSED' ? 'resume' : 'command';
}

/** Applies what is due by `now` to `event`, the event after a command; `before` is the event before the command. */
async function advance(sql: Sql, before: SourcingEvent, event: SourcingEvent, now: Timestamp): Promise<DueChange> {
  const { rounds, lastEnded } = roundsAt(event, now);
  const current = rounds === event.rounds ? event : { ...event, rounds };
  const cause = causeOf(before, event);
  const history = historyOfDue(event, current, { cause, now });
  const lastHasClosed = rounds.every(isOver) && !before.rounds.every(isOver);
  if (event.status === 'OPEN' && event.closeAfterLastRound && lastHasClosed) {
    // An event that the command has only just opened closes now, not at the earlier end of its last round.
    const at = before.status === 'OPEN' ? (lastEnded ?? now) : now;
    const closed = await closedEvent(sql, current, at);
    const closing = historyOfLastRound(current, closed.event, cause, cause === 'timer' ? at : now);
    return { ...closed, history: [...history, ...closing] };
  }
  return { event: current, domainEvent: lastEnded === undefined ? undefined : 'round-closed', history };
}

/**
 * Returns the event closed at `at`: its rounds have ended, and there is an award record for every lot, from the awarded
 * scenario if one is chosen. Writes nothing.
 */
export async function closedEvent(sql: Sql, event: SourcingEvent, at: Timestamp): Promise<EventChange> {
  const scenario = event.awardedScenario;
  const [bids, awarding] = await Promise.all([
    loadBids(sql, event.id),
    scenario === null ? undefined : loadScenario(sql, event.id, scenario),
  ]);
  const sheet = compileBidSheet(event);
  const { records, ...awarded } = makeAwards(event, sheet, bids, awarding?.awards ?? []);
  const rounds = roundsOfClosedEvent(event.rounds, at, awarded);
  return {
    event: { ...event, status: 'CLOSED', closed: at, rounds },
    domainEvent: 'event-closed',
    records: { 'latest-bids': bidRecords(event, sheet, bids), awards: records },
  };
}

/**
 * Leaves out a domain event if another one updates all of its feeds: each feed is updated once for the changes of one
 * transaction.
 */
function withoutCovered(domainEvents: readonly (DomainEvent | undefined)[]): DomainEvent[] {
  const kept: DomainEvent[] = [];
  const byWidth = domainEvents
    .filter((domainEvent) => domainEvent !== undefined)
    .sort((a, b) => feedUpdates[b].length - feedUpdates[a].length);
  for (const domainEvent of byWidth) {
    const feeds: readonly FeedName[] = feedUpdates[domainEvent];
    if (!kept.some((other) => feeds.every((feed) => (feedUpdates[other] as readonly FeedName[]).includes(feed))))
      kept.push(domainEvent);
  }
  return kept;
}
