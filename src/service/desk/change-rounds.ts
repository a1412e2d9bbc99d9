/**
 * The commands on an event's rounds: add, close, extend, reopen. Rounds do not overlap; at most one is active. Closing
 * a round is announced; the other commands update no feed.
 */
import type { z } from 'zod';
import { createRoundRequest, extendRoundRequest, noBody, reopenRoundRequest } from '#contract/desk.ts';
import { liveRound } from '#contract/live-event.ts';
import { roundsMax } from '#contract/sourcing-event.ts';
import type { Timestamp } from '#contract/timestamp.ts';
import type { Clock } from '#platform/clock.ts';
import { AppError } from '#platform/errors.ts';
import type { Command, DomainEvent } from '../domain/lifecycle.ts';
import { closedRound, isOver, pendingRound, reopenedRound, roundFault, timesTaken } from '../domain/rounds.ts';
import type { Round } from '../domain/sourcing-event.ts';
import { applyEventChange } from '../events/apply-event-change.ts';
import { type CommandCall, deskCommand } from './command.ts';
import { renderRound } from './render-event.ts';

/** POST rounds: adds a round after all others. Without `starts` it begins when the round before it has closed. */
export function addRound({ clock }: { clock: Clock }) {
  return deskCommand({
    command: 'add-round',
    method: 'POST',
    path: '/rounds',
    summary: 'Add a round',
    answers: { 201: liveRound },
    body: createRoundRequest,
    clock,
    run: async ({ event, body, unit, now }) => {
      if (event.rounds.length >= roundsMax)
        throw new AppError('conflict', `An event has at most ${roundsMax} rounds. Reopen one of them instead.`);
      const round = pendingRound((event.rounds.at(-1)?.number ?? 0) + 1, {
        starts: body.starts ?? null,
        ends: body.ends,
      });
      checkTimes([...event.rounds, round], round, now);
      const changed = await applyEventChange(
        unit,
        event,
        { event: { ...event, rounds: [...event.rounds, round] } },
        now,
      );
      return { status: 201, body: renderRound(found(changed.rounds, round.number)) };
    },
  });
}

/** POST rounds/{n}/close: closes the round now, and the event with it if it closes after its last round. */
export function closeRound({ clock }: { clock: Clock }) {
  return roundCommand({
    command: 'close-round',
    name: 'close',
    summary: 'Close a round',
    body: noBody.optional(),
    clock,
    domainEvent: 'round-closed',
    change: ({ round, now }) => {
      if (round.status !== 'ACTIVE') throw refused(round, 'only one that is ACTIVE can be closed');
      return closedRound(round, now);
    },
  });
}

/** POST rounds/{n}/extend: sets another end of a round that is not over. */
export function extendRound({ clock }: { clock: Clock }) {
  return roundCommand({
    command: 'extend-round',
    name: 'extend',
    summary: 'Extend a round',
    body: extendRoundRequest,
    clock,
    change: ({ round, body, event, now }) => {
      if (isOver(round)) throw refused(round, 'reopen it with a new end');
      const extended = { ...round, ends: body.ends };
      checkTimes(replaced(event.rounds, extended), extended, now);
      return extended;
    },
  });
}

/** POST rounds/{n}/reopen: the round is active again until it is closed, or until the given `ends`. */
export function reopenRound({ clock }: { clock: Clock }) {
  return roundCommand({
    command: 'reopen-round',
    name: 'reopen',
    summary: 'Reopen a round',
    body: reopenRoundRequest.optional(),
    clock,
    change: ({ round, body, event, now }) => {
      if (!isOver(round)) throw refused(round, 'only one that has closed can be reopened');
      const reopened = reopenedRound(round, body?.ends ?? null, now);
      if (body?.ends !== undefined) checkTimes(replaced(event.rounds, reopened), { ...reopened, ends: body.ends }, now);
      return reopened;
    },
  });
}

function roundCommand<BodySchema extends z.ZodType>(definition: {
  command: Command;
  name: string;
  summary: string;
  body: BodySchema;
  clock: Clock;
  domainEvent?: DomainEvent;
  /** Returns the round after the command. Throws `conflict` or `invalid` when the round does not allow the command. */
  change: (call: CommandCall<z.output<BodySchema>> & { round: Round }) => Round;
}) {
  const { command, name, summary, body, clock, domainEvent, change } = definition;
  return deskCommand({
    command,
    method: 'POST',
    path: `/rounds/:number/${name}`,
    summary,
    answers: { 200: liveRound },
    body,
    clock,
    run: async (call) => {
      const { event, unit, now } = call;
      const number = call.params['number'] ?? '';
      const round = found(event.rounds, /^[1-9]\d{0,5}$/.test(number) ? Number(number) : undefined);
      const rounds = replaced(event.rounds, change({ ...call, round }));
      const changed = await applyEventChange(unit, event, { event: { ...event, rounds }, domainEvent }, now);
      return { status: 200, body: renderRound(found(changed.rounds, round.number)) };
    },
  });
}

function found(rounds: readonly Round[], number: number | undefined): Round {
  const round = rounds.find((round) => round.number === number);
  if (!round) throw new AppError('not-found', 'This event has no such round.');
  return round;
}

function replaced(rounds: readonly Round[], by: Round): Round[] {
  return rounds.map((round) => (round.number === by.number ? by : round));
}

function refused(round: Round, what: string): AppError {
  return new AppError('conflict', `Round ${round.number} is ${round.status}: ${what}.`);
}

/** Throws `invalid` when the changed round ends in the past, or does not fit between the others. */
function checkTimes(rounds: readonly Round[], changed: Round, now: Timestamp): void {
  if (changed.ends !== null && changed.ends <= now)
    throw invalidTime({ path: 'ends', message: `must be in the future; it is ${now} now` });
  const place = rounds.findIndex((round) => round.number === changed.number);
  const earlier = rounds.slice(0, place).map((round) => timesTaken(round, now));
  const fault = roundFault(earlier, changed);
  if (fault) throw invalidTime(fault);
  // The next round must begin after the changed one, unless it is over: a reopened round runs after rounds that are
  // over.
  const next = rounds.slice(place + 1).find((round) => !isOver(round));
  if (next && roundFault([changed], next))
    throw invalidTime({
      path: 'ends',
      message: `is too late: round ${next.number} comes after it, and rounds must not overlap`,
    });
}

function invalidTime(issue: { path: string; message: string }): AppError {
  return new AppError('invalid', `The body is not valid: ${issue.path} ${issue.message}.`, { issues: [issue] });
}
