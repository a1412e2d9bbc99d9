/** The event as `/desk` shows it: null members are shown; suppliers are named by `external_id`, lots by name. */
import type { HistoryEntry } from '../domain/history.ts';
import { allowedCommands } from '../domain/lifecycle.ts';
import { renderQuestion } from '../domain/rfi.ts';
import type {
  Bid,
  Cells,
  Invitation,
  Question,
  RfiResponse,
  Round,
  ScenarioAward,
  SourcingEvent,
} from '../domain/sourcing-event.ts';

interface LiveEvent {
  readonly event: SourcingEvent;
  readonly bids: readonly Bid[];
  readonly scenarios: readonly { readonly name: string; readonly awards: readonly ScenarioAward[] }[];
  readonly questions: readonly Question[];
  readonly responses: readonly RfiResponse[];
  readonly files: readonly object[];
  readonly history: readonly HistoryEntry[];
}

/** The event with everything in it, as GET /desk/events/{id} shows it. */
export function renderEvent({ event, bids, scenarios, questions, responses, files, history }: LiveEvent) {
  const lotName = new Map(event.lots.map((lot) => [lot.id, lot.name]));
  const externalId = new Map(event.invitations.map((invitation) => [invitation.supplierId, invitation.externalId]));
  return {
    id: event.id,
    name: event.name,
    description: event.description,
    reference_id: event.referenceId,
    type: event.type,
    status: event.status,
    allowed: allowedCommands(event),
    is_template: event.isTemplate,
    primary_currency: event.primaryCurrency,
    secondary_currencies: event.secondaryCurrencies,
    tags: event.tags,
    category: event.category,
    event_contact: event.eventContact,
    settings: {
      is_test: event.isTest,
      is_template: event.isTemplate,
      close_after_last_round: event.closeAfterLastRound,
    },
    created: event.created,
    published: event.published,
    closed: event.closed,
    columns: event.columns,
    column_roles: event.columnRoles,
    global_values: plain(event.globalValues),
    primary_cost_calculation: event.primaryCostCalculation,
    sourcing_requests: event.sourcingRequests,
    lots: event.lots.map((lot) => ({
      id: lot.id,
      name: lot.name,
      values: plain(lot.values),
      sourcing_request: lot.sourcingRequest,
    })),
    rounds: event.rounds.map(renderRound),
    suppliers: event.invitations.map((invitation) => ({
      ...renderInvitation(invitation),
      global_values: plain(invitation.globalValues),
    })),
    bids: bids.map((bid) => ({
      id: bid.id,
      lot: lotName.get(bid.lotId),
      supplier: externalId.get(bid.supplierId),
      cost: bid.cost,
      values: bid.values && plain(bid.values),
      offers: bid.offers,
      draft: bid.draft && plain(bid.draft),
      withdrawn: bid.withdrawn,
    })),
    scenarios: scenarios.map(({ name, awards }) => ({
      name,
      awarded: name === event.awardedScenario,
      awards: awards.map(({ lotId, supplierId, share }) => ({
        lot: lotName.get(lotId),
        supplier: externalId.get(supplierId),
        share_awarded: share,
      })),
    })),
    questions: questions.map((question) => renderQuestion(event.id, question)),
    answers: responses.map((response) => ({
      id: response.id,
      supplier: externalId.get(response.supplierId),
      question_uuid: response.questionId,
      value: response.value,
      selected_options: response.selectedOptions,
      comment: response.comment,
      currency: response.currency,
      document_file_uuids: response.documentFileIds,
    })),
    files,
    history,
  };
}

/** A round, as every desk answer shows it. */
export function renderRound(round: Round): object {
  const { number, starts, ends, status, awardedCost, awardedLotCount, reopened } = round;
  return { number, starts, ends, status, awarded_cost: awardedCost, awarded_lot_count: awardedLotCount, reopened };
}

/** An invitation, as every desk answer shows it. */
export function renderInvitation(invitation: Invitation): object {
  return {
    id: invitation.supplierId,
    external_id: invitation.externalId,
    name: invitation.name,
    invite_count: invitation.inviteCount,
    accepted: invitation.accepted,
    participated: invitation.participated,
    last_successful_bid: invitation.lastSuccessfulBid,
    last_failed_bid: invitation.lastFailedBid,
    last_accessed: invitation.lastAccessed,
    contacts: invitation.contacts,
  };
}

function plain(cells: Cells): object {
  return Object.fromEntries(cells);
}
