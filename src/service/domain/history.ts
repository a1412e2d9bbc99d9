/**
 * The history of an event: what became of the event and its rounds, when and why, as short texts for people. It is
 * worked out from the states before and after, so no command can forget it. Source: decisions, "Rounds".
 *
 * Worked example: round 1 ends at 10:00 and the event closes after its last round; nobody calls a command. The timer
 * writes
 *   10:00  round 1 closed      by timer: its end had come
 *   10:00  event closed        by timer: its last round had closed
 *   10:00  round 1 completed   2 lots awarded by scenario "Best"
 */
import type { EventStatus } from '#contract/sourcing-event.ts';
import type { Timestamp } from '#contract/timestamp.ts';
import { isOver } from './rounds.ts';
import type { Round, SourcingEvent } from './sourcing-event.ts';

export interface HistoryEntry {
  readonly time: Timestamp;
  readonly what: string;
  readonly why: string;
}

/** An event shows the newest ones: a client that pauses and resumes for ever does not make its row grow for ever. */
export const historyEntriesMax = 500;

type State = Pick<SourcingEvent, 'status' | 'rounds' | 'awardedScenario'>;

const byCommand = 'by command';

const stepNames: { readonly [Step in `${EventStatus} ${EventStatus}`]?: string } = {
  'DRAFT OPEN': 'published',
  'OPEN DRAFT': 'unpublished',
  'OPEN PAUSED': 'paused',
  'PAUSED OPEN': 'resumed',
  'OPEN CLOSED': 'closed',
  'CLOSED OPEN': 'reopened',
  'DRAFT DELETED': 'deleted',
  'PAUSED DELETED': 'deleted',
  'CLOSED DELETED': 'deleted',
};

/** The entry of a new event. */
export function createdEntry(time: Timestamp): HistoryEntry {
  return { time, what: 'event created', why: 'by job' };
}

/** What a command made of the event and its rounds. */
export function historyOfCommand(before: State, after: State, time: Timestamp): HistoryEntry[] {
  const step = stepNames[`${before.status} ${after.status}`];
  const event = step === undefined ? [] : [{ time, what: `event ${step}`, why: byCommand }];
  const why = step === undefined ? byCommand : `because the event was ${step}`;
  const previous = new Map(before.rounds.map((round) => [round.number, round]));
  return [
    ...event,
    ...after.rounds.flatMap((round) => historyOfRound(previous.get(round.number), round, after, time, why)),
  ];
}

/** What the choice of a scenario changed; null is no choice. */
export function historyOfAward(before: string | null, after: string | null, time: Timestamp): HistoryEntry[] {
  if (before === after) return [];
  const what = after === null ? `scenario "${before}" unawarded` : `scenario "${after}" awarded`;
  return [{ time, what, why: byCommand }];
}

/** Why rounds move without a command on them: `timer` also where a command came first and found them due. */
export type DueCause = 'timer' | 'publish' | 'resume' | 'command';

/** What was due: rounds that began or closed because their time had come. `now`: the time of the command, if any. */
export function historyOfDue(
  before: State,
  after: State,
  { cause, now }: { cause: DueCause; now: Timestamp },
): HistoryEntry[] {
  // A timer writes when the change was due. After a command, that may be before the command itself.
  const timeOf = (due: Timestamp | null) => (cause === 'timer' && due !== null && due < now ? due : now);
  return after.rounds.flatMap((round, index): HistoryEntry[] => {
    const previous = before.rounds[index];
    if (!previous || previous.status === round.status) return [];
    const hasRun = previous.status !== 'PENDING' || round.status === 'ACTIVE' || cause === 'timer';
    const began = {
      time: timeOf(round.starts),
      what: `round ${round.number} began`,
      why: beginReasons[cause](previous),
    };
    const closed = {
      time: timeOf(round.ends),
      what: `round ${round.number} closed`,
      why: endReason(previous, round, cause),
    };
    return [
      ...(previous.status === 'PENDING' && hasRun ? [began] : []),
      ...(round.status === 'CLOSED' ? [closed] : []),
    ];
  });
}

const startReason = ({ starts }: Round) => (starts === null ? 'the round before it had closed' : 'its start had come');

const beginReasons: { readonly [Cause in DueCause]: (round: Round) => string } = {
  timer: (round) => `by timer: ${startReason(round)}`,
  publish: () => 'because the event was published',
  resume: (round) => `on resume: ${startReason(round)}`,
  command: ({ starts }) => (starts === null ? 'because no round before it is open' : 'its start had come'),
};

function endReason(before: Round, after: Round, cause: DueCause): string {
  const hadEnd = before.ends === after.ends;
  if (cause === 'resume') return `on resume: ${hadEnd ? 'its end' : 'the start of the next round'} had passed`;
  const reason = hadEnd ? 'its end had come' : 'the next round began';
  return cause === 'timer' ? `by timer: ${reason}` : reason;
}

/** The closing of an event whose last round has closed. */
export function historyOfLastRound(before: State, after: State, cause: DueCause, time: Timestamp): HistoryEntry[] {
  const [event, ...rounds] = historyOfCommand(before, after, time);
  const reason = 'its last round had closed';
  return event ? [{ ...event, why: cause === 'timer' ? `by timer: ${reason}` : reason }, ...rounds] : rounds;
}

function historyOfRound(
  before: Round | undefined,
  after: Round,
  { awardedScenario }: State,
  time: Timestamp,
  why: string,
): HistoryEntry[] {
  const entry = (what: string, reason = why) => ({ time, what: `round ${after.number} ${what}`, why: reason });
  if (!before) return [entry('added')];
  if (before.status === after.status)
    return before.ends === after.ends ? [] : [entry('extended', `${why}: it ends at ${after.ends}`)];
  if (after.status === 'ACTIVE') return [entry(isOver(before) ? 'reopened' : 'began')];
  if (after.status === 'PENDING') return [entry('pending again')];
  const lots = after.awardedLotCount === 1 ? '1 lot' : `${after.awardedLotCount} lots`;
  return [
    ...(isOver(before) ? [] : [entry('closed')]),
    ...(after.status === 'COMPLETE' ? [entry('completed', `${lots} awarded by scenario "${awardedScenario}"`)] : []),
  ];
}
