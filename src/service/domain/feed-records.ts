/**
 * Feed records made from the live event: plain objects in the contract's fields, nulls left out, without `modified`,
 * which is given when they are appended. Source: API document, "Resources and their fields".
 */

import { Decimal, formatDecimal } from '#contract/decimal.ts';
import type { EventStatus } from '#contract/sourcing-event.ts';
import { amountInRow, type BidSheet, computeRow } from './bid-sheet.ts';
import type { Bid, Cells, Invitation, Lot, ScenarioAward, SourcingEvent } from './sourcing-event.ts';

export interface FeedRecord {
  readonly id: string;
  /** What the feed's `status` filter compares; of events only. */
  readonly status?: EventStatus;
  readonly content: Readonly<Record<string, unknown>>;
}

export function sourcingEventRecord(event: SourcingEvent): FeedRecord {
  return {
    id: event.id,
    status: event.status,
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

/** The row of one lot as one supplier fills it in; `bid` holds the supplier's values of the lot and of the event. */
export function rowLayers(event: SourcingEvent, lot: Lot, bid: Cells): Cells[] {
  return [event.globalValues, lot.values, bid];
}

/** A record for each bid that stands. */
export function bidRecords(event: SourcingEvent, sheet: BidSheet, bids: readonly Bid[]): FeedRecord[] {
  const lots = new Map(event.lots.map((lot) => [lot.id, lot]));
  return bids.flatMap((bid) => {
    const lot = lots.get(bid.lotId);
    if (!lot || bid.values === null || bid.cost === null) return [];
    const row = computeRow(sheet, rowLayers(event, lot, bid.values));
    const content = {
      id: bid.id,
      sourcing_event: event.id,
      supplier: bid.supplierId,
      lot_name: lot.name,
      bids: [{ value: bid.cost }],
      bid_sheet_values: row.values,
    };
    return [{ id: bid.id, content }];
  });
}

export interface AwardedEvent {
  /** One record for each lot, also for those that nobody won. */
  readonly records: FeedRecord[];
  readonly awardedCost: string;
  readonly awardedLotCount: number;
}

/** The awards of a closing event: `cost` and `historic_cost` are for the share, `savings` is what lies between them. */
export function awardEvent(
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
      if (!bid?.values || bid.cost === null) return [];
      const { values } = computeRow(sheet, rowLayers(event, lot, bid.values));
      const cost = new Decimal(share).times(bid.cost);
      total = total.plus(cost);
      const historic = historicColumn && amountInRow(sheet, values, historicColumn)?.times(share);
      return [
        withoutNulls({
          supplier: supplierId,
          share_awarded: share,
          cost: formatDecimal(cost),
          savings: historic ? formatDecimal(historic.minus(cost)) : null,
          historic_cost: historic ? formatDecimal(historic) : null,
          bid_sheet_values: values,
        }),
      ];
    });
    if (entries.length > 0) awardedLots += 1;
    return {
      id: lot.id,
      content: withoutNulls({
        id: lot.id,
        sourcing_event: event.id,
        lot_name: lot.name,
        scenario_name: event.awardedScenario,
        awards: entries,
      }),
    };
  });
  return { records, awardedCost: formatDecimal(total), awardedLotCount: awardedLots };
}

function withoutNulls(fields: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== null && value !== undefined));
}
