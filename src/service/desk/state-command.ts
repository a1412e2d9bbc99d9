/** A command that moves an event through its lifecycle: POST without a body. The answer has the event's new status. */
import { noBody } from '#contract/desk.ts';
import { eventState } from '#contract/live-event.ts';
import type { Clock } from '#platform/clock.ts';
import type { Command } from '../domain/lifecycle.ts';
import { applyEventChange, type EventChange } from '../events/apply-event-change.ts';
import { type CommandCall, deskCommand } from './command.ts';

/** Creates the endpoint. `change` returns the event after the command, and the domain event to announce. */
export function stateCommand(definition: {
  command: Command;
  summary: string;
  clock: Clock;
  change: (call: CommandCall<unknown>) => EventChange | Promise<EventChange>;
}) {
  const { command, change } = definition;
  return deskCommand({
    command,
    method: 'POST',
    path: `/${command}`,
    summary: definition.summary,
    answers: { 200: eventState },
    body: noBody.optional(),
    clock: definition.clock,
    run: async (call) => {
      const { id, status } = await applyEventChange(call.unit, call.event, await change(call), call.now);
      return { status: 200, body: { id, status } };
    },
  });
}
