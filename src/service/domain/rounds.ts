/**
 * An event's rounds over time, as pure functions. A round is PENDING until its `starts`, ACTIVE until its `ends`, then
 * CLOSED; no two are active at once: one without `starts` begins when the round before it has closed, and one without
 * `ends` closes when the next begins. Only the rounds of an OPEN event move. Source: decisions, "Operating it".
 */
import { laterOf, type Timestamp } from '#contract/timestamp.ts';
import type { Round, SourcingEvent } from './sourcing-event.ts';

type Times = Pick<Round, 'starts' | 'ends'>;

export interface RoundsNow {
  /** The same object where nothing moved. */
  readonly rounds: readonly Round[];
  /** When the last of them ended; undefined where none ended by now. */
  readonly lastEnded: Timestamp | undefined;
}

export function isOver(round: Pick<Round, 'status'>): boolean {
  return round.status === 'CLOSED' || round.status === 'COMPLETE';
}

/** A round that nobody has opened yet. */
export function pendingRound(number: number, { starts, ends }: Times): Round {
  return { number, starts, ends, status: 'PENDING', awardedCost: null, awardedLotCount: null, reopened: false };
}

/** Where time has brought the rounds: those whose time has come begin, those whose time is over close. */
export function roundsAt({ status, rounds }: Pick<SourcingEvent, 'status' | 'rounds'>, now: Timestamp): RoundsNow {
  if (status !== 'OPEN') return { rounds, lastEnded: undefined };
  const moved: Round[] = [];
  let lastEnded: Timestamp | undefined;
  let isFree = true;
  for (const [index, round] of rounds.entries()) {
    const end = endOf(round, rounds.slice(index + 1));
    const running = isFree ? begun(round, end, lastEnded ?? now, now) : round;
    if (running.status === 'ACTIVE' && end !== null && end <= now) {
      moved.push({ ...running, status: 'CLOSED', ends: end });
      lastEnded = end;
      continue;
    }
    moved.push(running);
    if (!isOver(running)) isFree = false;
  }
  const changed = moved.some((round, index) => round !== rounds[index]);
  return { rounds: changed ? moved : rounds, lastEnded };
}

/** The round, active if its time has come. One without `starts` shows when it began, which is never after its end. */
function begun(round: Round, end: Timestamp | null, free: Timestamp, now: Timestamp): Round {
  if (round.status !== 'PENDING' || (round.starts !== null && round.starts > now)) return round;
  return { ...round, status: 'ACTIVE', starts: round.starts ?? (end !== null && end < free ? end : free) };
}

/** A round that has no end of its own ends when the next begins. */
function endOf(round: Round, following: readonly Round[]): Timestamp | null {
  const nextStarts = following.find(({ status }) => status === 'PENDING')?.starts ?? null;
  if (nextStarts === null || (round.ends !== null && round.ends < nextStarts)) return round.ends;
  return nextStarts;
}

/** What is wrong with the times of a round that stands after `earlier`; undefined when nothing is. */
export function roundFault(
  earlier: readonly Times[],
  { starts, ends }: Times,
): { path: 'starts' | 'ends'; message: string } | undefined {
  if (starts !== null && ends !== null && ends <= starts) return { path: 'ends', message: 'must be later than starts' };
  const floor = earlier.flatMap((round) => [round.starts, round.ends]).reduce(later, null);
  if (floor === null) return undefined;
  const until = `the rounds before it take until ${floor}, and rounds must not overlap`;
  if (starts !== null && starts < floor) return { path: 'starts', message: `is too early: ${until}` };
  if (ends !== null && ends <= floor) return { path: 'ends', message: `is too early: ${until}` };
  return undefined;
}

/** The times that a round takes. One that is over takes none after `now`: it may never have run. */
export function timesTaken(round: Round, now: Timestamp): Times {
  const untilNow = (time: Timestamp | null) => (time !== null && time > now ? now : time);
  return isOver(round) ? { starts: untilNow(round.starts), ends: untilNow(round.ends) } : round;
}

function later(a: Timestamp | null, b: Timestamp | null): Timestamp | null {
  return laterOf(a ?? undefined, b ?? undefined) ?? null;
}

/** The round ended at `at` by command. One that never ran keeps its times. */
export function closedRound(round: Round, at: Timestamp): Round {
  if (round.status === 'PENDING') return { ...round, status: 'CLOSED' };
  const starts = round.starts === null || round.starts > at ? at : round.starts;
  return { ...round, status: 'CLOSED', starts, ends: round.ends === null || round.ends > at ? at : round.ends };
}

/**
 * The round open once more until `ends`, without what it was awarded; an `ends` that has passed does not hold. One that
 * never ran begins now.
 */
export function reopenedRound(round: Round, ends: Timestamp | null, now: Timestamp): Round {
  return {
    ...round,
    status: 'ACTIVE',
    starts: round.starts !== null && round.starts < now ? round.starts : now,
    ends: ends !== null && ends > now ? ends : null,
    awardedCost: null,
    awardedLotCount: null,
    reopened: true,
  };
}

/** All rounds ended at `at`, the last one complete when at least one lot was awarded. */
export function roundsOfClosedEvent(
  rounds: readonly Round[],
  at: Timestamp,
  { awardedCost, awardedLotCount }: { awardedCost: string; awardedLotCount: number },
): Round[] {
  return rounds.map((round, index) => {
    const closed = isOver(round) ? round : closedRound(round, at);
    const isComplete = awardedLotCount > 0 && index === rounds.length - 1;
    return isComplete ? { ...closed, status: 'COMPLETE', awardedCost, awardedLotCount } : closed;
  });
}
