/**
 * An event's rounds over time, as pure functions. A round is PENDING until its `starts`, ACTIVE until its `ends`, then
 * CLOSED. Two rounds are never active at once: a round without `starts` begins when the round before it has closed, and
 * a round without `ends` closes when the next one begins. Time changes only the rounds of an OPEN event. Source:
 * decisions, "Operating it".
 */
import { laterOf, type Timestamp } from '#contract/timestamp.ts';
import type { Round, SourcingEvent } from './sourcing-event.ts';

type Times = Pick<Round, 'starts' | 'ends'>;

export interface RoundsNow {
  /** The same object when no round changed. */
  readonly rounds: readonly Round[];
  /** When the last of the rounds that closed now ended; undefined when none closed. */
  readonly lastEnded: Timestamp | undefined;
}

export function isOver(round: Pick<Round, 'status'>): boolean {
  return round.status === 'CLOSED' || round.status === 'COMPLETE';
}

/** A round that has not begun. */
export function pendingRound(number: number, { starts, ends }: Times): Round {
  return { number, starts, ends, status: 'PENDING', awardedCost: null, awardedLotCount: null, reopened: false };
}

/** Returns the rounds as they are at `now`: rounds whose start has passed begin, rounds whose end has passed close. */
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

/** The round, active if it is due. A round without `starts` gets the time when it began, which is not after its end. */
function begun(round: Round, end: Timestamp | null, free: Timestamp, now: Timestamp): Round {
  if (round.status !== 'PENDING' || (round.starts !== null && round.starts > now)) return round;
  return { ...round, status: 'ACTIVE', starts: round.starts ?? (end !== null && end < free ? end : free) };
}

/** A round without an end of its own ends when the next round begins. */
function endOf(round: Round, following: readonly Round[]): Timestamp | null {
  const nextStarts = following.find(({ status }) => status === 'PENDING')?.starts ?? null;
  if (nextStarts === null || (round.ends !== null && round.ends < nextStarts)) return round.ends;
  return nextStarts;
}

/** Returns the fault in the times of a round that follows `earlier`; undefined when there is none. */
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

/** The round closed at `at` by a command. A round that never ran keeps its times. */
export function closedRound(round: Round, at: Timestamp): Round {
  if (round.status === 'PENDING') return { ...round, status: 'CLOSED' };
  const starts = round.starts === null || round.starts > at ? at : round.starts;
  return { ...round, status: 'CLOSED', starts, ends: round.ends === null || round.ends > at ? at : round.ends };
}

/**
 * The round reopened until `ends`, without its award figures. An `ends` that has passed counts as no end. A round that
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

/** All rounds closed at `at`; the last one is COMPLETE if at least one lot was awarded. */
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
