/** What every desk command shares: the event is loaded and locked, and its state must allow the command. */
import type { z } from 'zod';
import type { Timestamp } from '#contract/timestamp.ts';
import { type Clock, timestampNow } from '#platform/clock.ts';
import { AppError } from '#platform/errors.ts';
import { type Answer, endpoint, type Method } from '#platform/http/endpoint.ts';
import type { Caller } from '../caller.ts';
import { type Command, refusalOf } from '../domain/lifecycle.ts';
import type { SourcingEvent } from '../domain/sourcing-event.ts';
import { loadEvent } from '../events/event-store.ts';
import type { UnitOfWork } from '../unit-of-work.ts';

export interface CommandCall<Body> {
  event: SourcingEvent;
  body: Body;
  unit: UnitOfWork;
  now: Timestamp;
  params: Readonly<Record<string, string>>;
}

/** An endpoint under `/desk/events/{id}`; answers 409 with the reason when the event's state does not allow it. */
export function deskCommand<BodySchema extends z.ZodType>(definition: {
  command: Command;
  method: Method;
  /** Below `/desk/events/:id`. */
  path: string;
  body: BodySchema;
  clock: Clock;
  run: (call: CommandCall<z.output<BodySchema>>) => Promise<Answer>;
}) {
  return endpoint<Caller, BodySchema>({
    method: definition.method,
    path: `/desk/events/:id${definition.path}`,
    scope: 'desk',
    body: definition.body,
    handle: async ({ body, params, caller: { unit, organisationId } }) => {
      const event = await loadEvent(unit.tx, organisationId, params['id'], 'lock');
      const refusal = refusalOf(definition.command, event);
      if (refusal !== undefined) throw new AppError('conflict', refusal);
      return definition.run({ event, body, params, unit, now: timestampNow(definition.clock) });
    },
  });
}
