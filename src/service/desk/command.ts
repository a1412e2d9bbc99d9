/**
 * The common part of all desk commands: load and lock the event, apply what is due by now, and check that its state
 * allows the command. A round whose time is over is closed before the check, even if no timer has run. A refusal rolls
 * that back with the rest of the transaction; the timers find in SQL what is due, and do it then.
 */
import type { z } from 'zod';
import type { Timestamp } from '#contract/timestamp.ts';
import type { Clock } from '#platform/clock.ts';
import { AppError } from '#platform/errors.ts';
import { type Answer, type EndpointAnswers, endpoint, type Method } from '#platform/http/endpoint.ts';
import type { Caller } from '../caller.ts';
import { type Command, refusalOf } from '../domain/lifecycle.ts';
import type { SourcingEvent } from '../domain/sourcing-event.ts';
import { loadEventNow } from '../events/apply-event-change.ts';
import type { UnitOfWork } from '../unit-of-work.ts';

export interface CommandCall<Body> {
  event: SourcingEvent;
  body: Body;
  unit: UnitOfWork;
  now: Timestamp;
  params: Readonly<Record<string, string>>;
}

/**
 * Creates an endpoint under `/desk/events/{id}`. It answers 409 with the reason when the event's state forbids the
 * command.
 */
export function deskCommand<BodySchema extends z.ZodType>(definition: {
  command: Command;
  method: Method;
  /** The rest of the path, after `/desk/events/:id`. */
  path: string;
  summary?: string;
  answers?: EndpointAnswers;
  body: BodySchema;
  clock: Clock;
  run: (call: CommandCall<z.output<BodySchema>>) => Promise<Answer>;
}) {
  const { command, path, clock, run, ...documented } = definition;
  return endpoint<Caller, BodySchema>({
    ...documented,
    path: `/desk/events/:id${path}`,
    scope: 'desk',
    limit: 'desk',
    handle: async ({ body, params, caller: { unit, organisationId } }) => {
      const { event, now } = await loadEventNow(unit, organisationId, params['id'], clock);
      const refusal = refusalOf(command, event);
      if (refusal !== undefined) throw new AppError('conflict', refusal);
      return run({ event, body, params, unit, now });
    },
  });
}
