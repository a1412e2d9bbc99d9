/**
 * What a supplier sees of the events: those that it is invited to, once they are published, with its own bids and answers.
 * Nothing of other suppliers, of scenarios and awards, of what the buyer knows of the costs so far, or of which answers
 * pass the gating.
 */
import { AppError } from '#platform/errors.ts';
import type { Command } from '../domain/lifecycle.ts';
import type { SourcingEvent } from '../domain/sourcing-event.ts';
import type { DeskSide } from './desk-side.ts';
import { type LiveEvent, renderEvent } from './render-event.ts';

const shownStatuses = ['OPEN', 'PAUSED', 'CLOSED'] as const;

/** The same as `checkShown`, as a condition on `service.sourcing_events`. `supplier`: a parameter, as `$4`. */
export function isShownTo(supplier: string): string {
  return `status in (${shownStatuses.map((status) => `'${status}'`).join(', ')}) and not is_template and exists (
    select from service.invitations i where i.event_id = sourcing_events.id and i.supplier_id = ${supplier})`;
}

/** Throws `not-found`, as for an event that does not exist, when the key's supplier does not see the event. */
export function checkShown(event: SourcingEvent, side: DeskSide | undefined): void {
  if (side?.as !== 'supplier') return;
  const isInvited = event.invitations.some(({ supplierId }) => supplierId === side.supplierId);
  if (!isInvited || event.isTemplate || !shownStatuses.some((status) => status === event.status))
    throw new AppError('not-found', 'There is no such sourcing event.');
}

const commandsOfSuppliers: ReadonlySet<Command> = new Set(['bid', 'withdraw-bid', 'answer', 'remove-answer-file']);

/** Of the commands that the state permits those of the key's side. */
export function commandsOf(side: DeskSide | undefined, allowed: readonly Command[]): Command[] {
  return allowed.filter(
    (command) => side === undefined || commandsOfSuppliers.has(command) === (side.as === 'supplier'),
  );
}

/** The event as the supplier sees it. */
export function renderFor(supplierId: string, live: LiveEvent): object {
  const rendered = renderEvent(shownTo(supplierId, live));
  return { ...rendered, suppliers: rendered.suppliers.map((supplier) => ({ ...supplier, gating_satisfied: null })) };
}

function shownTo(supplierId: string, live: LiveEvent): LiveEvent {
  const { event } = live;
  const { historic_cost: historic, ...columnRoles } = event.columnRoles;
  const isOwn = (each: { readonly supplierId: string }) => each.supplierId === supplierId;
  const ungated = <Option extends { readonly satisfies_gating: boolean }>(options: readonly Option[]) =>
    options.map((option) => ({ ...option, satisfies_gating: false }));
  return {
    event: {
      ...event,
      tags: [],
      category: null,
      sourcingRequests: [],
      columns: event.columns.filter(({ name }) => name !== historic),
      columnRoles,
      globalValues: without(event.globalValues, historic),
      lots: event.lots.map((lot) => ({ ...lot, values: without(lot.values, historic), sourcingRequest: null })),
      rounds: event.rounds.map((round) => ({ ...round, awardedCost: null, awardedLotCount: null })),
      invitations: event.invitations.filter(isOwn),
    },
    bids: live.bids.filter(isOwn),
    scenarios: [],
    questions: live.questions.map((question) => ({ ...question, options: ungated(question.options) })),
    responses: live.responses.filter(isOwn).map((response) => ({
      ...response,
      selectedOptions: response.selectedOptions && ungated(response.selectedOptions),
    })),
    files: live.files,
    history: [],
  };
}

function without<Value>(cells: ReadonlyMap<string, Value>, column: string | undefined): ReadonlyMap<string, Value> {
  return new Map([...cells].filter(([name]) => name !== column));
}
