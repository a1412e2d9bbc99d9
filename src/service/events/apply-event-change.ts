/**
 * What every change of an event's state goes through: the state that a command made of it, and what time has made of it
 * since, are written together and announced once, in the caller's transaction. Commands and timers call the same, under
 * the event's lock, so each round closes once, whoever comes first.
 */
import type { FeedName } from '#contract/feed.ts';
import type { Timestamp } from '#contract/timestamp.ts';
import { type Clock, timestampNow } from '#platform/clock.ts';
import type { Sql } from '#platform/database/database.ts';
import { compileBidSheet } from '../domain/bid-sheet.ts';
import { bidRecords, type FeedRecord, makeAwards } from '../domain/feed-records.ts';
import { type DomainEvent, feedUpdates } from '../domain/lifecycle.ts';
import { isOver, roundsAt, roundsOfClosedEvent } from '../domain/rounds.ts';
import type { SourcingEvent } from '../domain/sourcing-event.ts';
import type { UnitOfWork } from '../unit-of-work.ts';
import { announce } from './announce.ts';
import { saveEventState } from './event-state-store.ts';
import { loadBids, loadEvent, loadScenarioAwards } from './event-store.ts';

type Records = Partial<Record<FeedName, readonly FeedRecord[]>>;

/** An event after a change, and what the feeds say of it. */
export interface EventChange {
  readonly event: SourcingEvent;
  readonly domainEvent?: DomainEvent | undefined;
  readonly records?: Records;
}

/**
 * Loads an event of this organisation, holds it and brings it up to date; gives the time as of which it is; throws
 * `not-found`.
 */
export async function loadEventNow(
  unit: UnitOfWork,
  organisationId: string,
  id: string | undefined,
  clock: Clock,
): Promise<{ event: SourcingEvent; now: Timestamp }> {
  const event = await loadEvent(unit.tx, organisationId, id, 'lock');
  // Read when the event is held: what waited for another command until a round's end comes too late.
  const now = timestampNow(clock);
  return { event: await applyEventChange(unit, event, { event }, now), now };
}

/** Writes what differs from `before`, and what is due by now; announces it; gives the event as it then is. */
export async function applyEventChange(
  unit: UnitOfWork,
  before: SourcingEvent,
  change: EventChange,
  now: Timestamp,
): Promise<SourcingEvent> {
  const timely = await advance(unit.tx, before, change.event, now);
  const { event } = timely;
  const changed = await saveEventState(unit.tx, before, event);
  // For the timers: a round may now begin or end at another time.
  if (changed && event.status === 'OPEN') unit.wake('rounds', event.id);
  for (const domainEvent of widest([timely.domainEvent, change.domainEvent]))
    await announce(unit, { domainEvent, event, now, records: { ...change.records, ...timely.records } });
  return event;
}

/** The event as time has made it, with nothing written: rounds begun and ended, and the event closed where that is due. */
export async function eventAt(sql: Sql, event: SourcingEvent, now: Timestamp): Promise<SourcingEvent> {
  return (await advance(sql, event, event, now)).event;
}

/** What time makes of `event`, which a command made of `before`. */
async function advance(sql: Sql, before: SourcingEvent, event: SourcingEvent, now: Timestamp): Promise<EventChange> {
  const { rounds, lastEnded } = roundsAt(event, now);
  const moved = rounds === event.rounds ? event : { ...event, rounds };
  const lastHasClosed = rounds.every(isOver) && !before.rounds.every(isOver);
  if (event.status === 'OPEN' && event.closeAfterLastRound && lastHasClosed) {
    // An event that was not open until now was not closed before now.
    const at = before.status === 'OPEN' ? (lastEnded ?? now) : now;
    return closedEvent(sql, moved, at);
  }
  return { event: moved, domainEvent: lastEnded === undefined ? undefined : 'round-closed' };
}

/** The event closed at `at`: its rounds ended, and an award record for every lot, of the chosen scenario if there is one. */
export async function closedEvent(sql: Sql, event: SourcingEvent, at: Timestamp): Promise<EventChange> {
  const scenario = event.awardedScenario;
  const bids = await loadBids(sql, event.id);
  const awards = scenario === null ? [] : await loadScenarioAwards(sql, event.id, scenario);
  const sheet = compileBidSheet(event);
  const { records, ...awarded } = makeAwards(event, sheet, bids, awards);
  const rounds = roundsOfClosedEvent(event.rounds, at, scenario === null ? undefined : awarded);
  return {
    event: { ...event, status: 'CLOSED', closed: at, rounds },
    domainEvent: 'event-closed',
    records: { 'latest-bids': bidRecords(event, sheet, bids), awards: records },
  };
}

/** Without those whose feeds another one updates anyway: what happens in one transaction is announced once. */
function widest(domainEvents: readonly (DomainEvent | undefined)[]): DomainEvent[] {
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
