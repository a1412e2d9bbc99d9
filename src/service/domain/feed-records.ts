/**
 * Feed records made from the live event: plain objects in the contract's fields, nulls left out, without `modified`,
 * which is given when they are appended. Source: API document, "Resources and their fields".
 */

import { Decimal, formatDecimal } from '#contract/decimal.ts';
import type { EventStatus } from '#contract/sourcing-event.ts';
import { type BidSheet, type ComputedRow, computeRow, rowLayers } from './bid-sheet.ts';
import type { Bid, Invitation, Lot, RfiResponse, ScenarioAward, SourcingEvent } from './sourcing-event.ts';

export interface FeedRecord {
  readonly id: string;
  /** What the feed's filters compare: status and tags of events only, requests of all records. */
  readonly status?: EventStatus;
  readonly tags?: readonly { name: string; value: string }[];
  readonly requests: readonly string[];
  readonly content: Readonly<Record<string, unknown>>;
  /** What tells a change, where it is not the whole content. */
  readonly compared?: unknown;
}

/** A record's request is its lot's; else the event's only one; else there is none. Source: decisions, "Feeds". */
function requestOf(event: SourcingEvent, lot?: Lot): string | null {
  if (lot?.sourcingRequest) return lot.sourcingRequest;
  return event.sourcingRequests.length === 1 ? (event.sourcingRequests[0] ?? null) : null;
}

function requestsOf(request: string | null): string[] {
  return request === null ? [] : [request];
}

export function makeSourcingEventRecord(event: SourcingEvent): FeedRecord {
  return {
    id: event.id,
    status: event.status,
    tags: event.tags,
    requests: event.sourcingRequests,
    content: withoutNulls({
      id: event.id,
      name: event.name,
      reference_id: event.referenceId,
      type: event.type,
      status: event.status,
      roles: [{ role_type: 'ADMIN', user: [{ id: event.createdBy }] }],
      created: event.created,
      published: event.published,
      closed: event.closed,
      created_by: { id: event.createdBy },
      rounds: event.rounds.map((round) =>
        withoutNulls({
          starts: round.starts,
          ends: round.ends,
          status: round.status,
          awarded_cost: round.awardedCost,
          awarded_lot_count: round.awardedLotCount,
        }),
      ),
      event_contact: event.eventContact,
      columns: event.columns.map(({ name }) => ({ name })),
      lot_count: event.lots.length,
      scenario_count: event.scenarioCount,
      // A scenario is evaluated as soon as it is saved: there is no other time.
      evaluated_scenario_count: event.scenarioCount,
      is_test: event.isTest,
      primary_currency: event.primaryCurrency,
      secondary_currencies: event.secondaryCurrencies,
      suppliers: event.invitations.map(supplierOfEvent),
      tags: event.tags,
      category: event.category,
      sourcing_requests: event.sourcingRequests.length > 0 ? event.sourcingRequests : null,
    }),
  };
}

function supplierOfEvent(invitation: Invitation): object {
  return withoutNulls({
    id: invitation.supplierId,
    name: invitation.name,
    external_id: invitation.externalId,
    invite_count: invitation.inviteCount,
    accepted: invitation.accepted,
    participated: invitation.participated,
    last_successful_bid: invitation.lastSuccessfulBid,
    last_failed_bid: invitation.lastFailedBid,
    last_accessed: invitation.lastAccessed,
    contacts: invitation.contacts.map((contact) => ({ ...contact, supplier: invitation.supplierId })),
  });
}

/**
 * A record for each bid that stands or was withdrawn; an incomplete one has none. `rows`, by the bids' ids: those of
 * standing bids that the caller has computed already.
 */
export function bidRecords(
  event: SourcingEvent,
  sheet: BidSheet,
  bids: readonly Bid[],
  rows?: ReadonlyMap<string, ComputedRow>,
): FeedRecord[] {
  const lots = new Map(event.lots.map((lot) => [lot.id, lot]));
  return bids.flatMap((bid) => {
    const lot = lots.get(bid.lotId);
    const isStanding = bid.values !== null && bid.cost !== null;
    if (!lot || !(isStanding || bid.withdrawn)) return [];
    const request = requestOf(event, lot);
    const row = () =>
      rows?.get(bid.id) ?? computeRow(sheet, rowLayers(event, lot, bid.values ?? new Map()), bid.offers);
    const content = withoutNulls({
      id: bid.id,
      sourcing_event: event.id,
      sourcing_request: request,
      supplier: bid.supplierId,
      lot_name: lot.name,
      bids: isStanding ? (bid.offers ?? [{ value: bid.cost }]) : [],
      bid_sheet_values: isStanding ? row().values : [],
    });
    return [{ id: bid.id, requests: requestsOf(request), content }];
  });
}

/** A record for each answered question of each supplier. */
export function rfiRecords(event: SourcingEvent, responses: readonly RfiResponse[]): FeedRecord[] {
  const request = requestOf(event);
  return responses.map((response) => ({
    id: String(response.id),
    requests: requestsOf(request),
    content: withoutNulls({
      id: response.id,
      sourcing_event: event.id,
      sourcing_request: request,
      supplier: response.supplierId,
      question_uuid: response.questionId,
      value: response.value,
      selected_options: response.selectedOptions,
      comment: response.comment,
      currency: response.currency,
      // Shown when empty, too, where files alone are the answer: its last one was removed.
      document_file_uuids:
        response.documentFileIds.length > 0 || (response.value === null && response.selectedOptions === null)
          ? response.documentFileIds
          : null,
    }),
  }));
}

export interface AwardedEvent {
  /** One record for each lot, also for those that nobody won. */
  readonly records: FeedRecord[];
  readonly awardedCost: string;
  readonly awardedLotCount: number;
}

/** The awards of a closing event: `cost` and `historic_cost` are for the share, `savings` is what lies between them. */
export function makeAwards(
  event: SourcingEvent,
  sheet: BidSheet,
  bids: readonly Bid[],
  awards: readonly ScenarioAward[],
): AwardedEvent {
  const awardsByLot = Map.groupBy(awards, (award) => award.lotId);
  const bidOf = new Map(bids.map((bid) => [`${bid.lotId} ${bid.supplierId}`, bid]));
  let total = new Decimal(0);
  let awardedLots = 0;
  const historicColumn = event.columnRoles.historic_cost;
  const records = event.lots.map((lot): FeedRecord => {
    const entries = (awardsByLot.get(lot.id) ?? []).flatMap(({ supplierId, share }) => {
      const bid = bidOf.get(`${lot.id} ${supplierId}`);
      // A share of nothing is no award.
      if (!bid?.values || bid.cost === null || new Decimal(share).isZero()) return [];
      const row = computeRow(sheet, rowLayers(event, lot, bid.values), bid.offers);
      // Of the amounts as they are shown, so that a reader who adds up comes to the same.
      const cost = formatDecimal(new Decimal(share).times(bid.cost));
      total = total.plus(cost);
      const lotHistoric = historicColumn === undefined ? undefined : row.amountIn(historicColumn);
      const historic = lotHistoric && formatDecimal(lotHistoric.times(share));
      return [
        withoutNulls({
          supplier: supplierId,
          share_awarded: share,
          cost,
          savings: historic === undefined ? null : formatDecimal(new Decimal(historic).minus(cost)),
          historic_cost: historic,
          bid_sheet_values: row.values,
        }),
      ];
    });
    if (entries.length > 0) awardedLots += 1;
    const request = requestOf(event, lot);
    const award = { id: lot.id, sourcing_event: event.id, sourcing_request: request, lot_name: lot.name };
    return {
      id: lot.id,
      requests: requestsOf(request),
      // A lot that was un-awarded reads like one that never was: without a scenario.
      content: withoutNulls({
        ...award,
        scenario_name: entries.length > 0 ? event.awardedScenario : null,
        awards: entries,
      }),
      // Awarding the same under another scenario, or 0.50 after 0.5, changes no lot's award.
      compared: {
        ...award,
        awards: entries.map((entry) => ({ ...entry, share_awarded: new Decimal(String(entry['share_awarded'])) })),
      },
    };
  });
  return { records, awardedCost: formatDecimal(total), awardedLotCount: awardedLots };
}

function withoutNulls(fields: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== null && value !== undefined));
}
