/**
 * Feed records made from the live event: plain objects in the contract's members, without nulls and without `modified`,
 * which is added when they are appended. Every member of the contract is made here or set to null, or it is a type
 * error. Source: API document, "Resources and their fields".
 */
import { Decimal, formatDecimal } from '#contract/decimal.ts';
import type { FeedName, FeedRecordContent } from '#contract/feed.ts';
import {
  type EventStatus,
  type includedSourcingEvent,
  includedSourcingEventMembers,
} from '#contract/sourcing-event.ts';
import type { Written } from '#contract/written.ts';
import { type BidSheet, computeRow, rowLayers } from './bid-sheet.ts';
import type { EnteredBid } from './bids.ts';
import type { Bid, Invitation, Lot, RfiResponse, ScenarioAward, SourcingEvent } from './sourcing-event.ts';

type EventSummary = Written<typeof includedSourcingEvent>;

/** A record as it is appended to a feed. */
export interface FeedRecord<Feed extends FeedName> {
  readonly id: string;
  /** What the feed's filters compare: status, tags and `isTest` of events only, requests of all records. */
  readonly status?: EventStatus;
  readonly tags?: readonly { name: string; value: string }[];
  readonly isTest?: boolean;
  readonly requests: readonly string[];
  /** Only of an event: what `include=sourcing_events` shows of it. */
  readonly summary?: EventSummary;
  readonly content: FeedRecordContent<Feed>;
  /** What decides whether the record has changed, where that is not the whole content. */
  readonly compared?: unknown;
  /** Its id is new: no feed can have the record. */
  readonly isNew?: boolean;
}

/** Records of several feeds. */
export type FeedRecords = { readonly [Feed in FeedName]?: readonly FeedRecord<Feed>[] };

/** A record has the request of its lot, else the only request of the event, else none. Source: decisions, "Feeds". */
function requestOf(event: SourcingEvent, lot?: Lot): string | null {
  if (lot?.sourcingRequest) return lot.sourcingRequest;
  return event.sourcingRequests.length === 1 ? (event.sourcingRequests[0] ?? null) : null;
}

function requestsOf(request: string | null): string[] {
  return request === null ? [] : [request];
}

type EventContent = FeedRecordContent<'sourcing-events'>;

export function makeSourcingEventRecord(event: SourcingEvent): FeedRecord<'sourcing-events'> {
  const { id, status, tags, isTest, sourcingRequests } = event;
  const content = contentOfEvent(event);
  return { id, status, tags, isTest, requests: sourcingRequests, summary: summaryOf(content), content };
}

function summaryOf(content: EventContent): EventSummary {
  const members: Readonly<Record<string, unknown>> = content;
  const shown = includedSourcingEventMembers.filter((name) => members[name] !== undefined);
  return Object.fromEntries(shown.map((name) => [name, members[name]])) as EventSummary;
}

function contentOfEvent(event: SourcingEvent): EventContent {
  const creator = withoutNulls<EventContent['created_by']>({ ...event.createdBy });
  return withoutNulls<EventContent>({
    id: event.id,
    name: event.name,
    reference_id: event.referenceId,
    type: event.type,
    status: event.status,
    roles: [{ role_type: 'ADMIN', user: [creator] }],
    created: event.created,
    published: event.published,
    closed: event.closed,
    created_by: creator,
    rounds: event.rounds.map((round) =>
      withoutNulls<EventContent['rounds'][number]>({
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
    // A scenario is evaluated when it is saved.
    evaluated_scenario_count: event.scenarioCount,
    is_test: event.isTest,
    primary_currency: event.primaryCurrency,
    secondary_currencies: event.secondaryCurrencies,
    suppliers: event.invitations.map(supplierOfEvent),
    tags: event.tags,
    category: event.category,
    sourcing_requests: event.sourcingRequests.length > 0 ? event.sourcingRequests : null,
    bot: null,
  });
}

function supplierOfEvent(invitation: Invitation): EventContent['suppliers'][number] {
  return withoutNulls<EventContent['suppliers'][number]>({
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
 * A record for each bid that stands or was withdrawn; an incomplete bid has none. `entered`: how the bids were entered
 * in this transaction: the rows of those that stand with these values are computed already.
 */
export function bidRecords(
  event: SourcingEvent,
  sheet: BidSheet,
  bids: readonly Bid[],
  entered: readonly EnteredBid[] = [],
): FeedRecord<'latest-bids'>[] {
  const lots = new Map(event.lots.map((lot) => [lot.id, lot]));
  const enteredById = new Map(entered.map((one) => [one.bid.id, one]));
  return bids.flatMap((bid) => {
    const lot = lots.get(bid.lotId);
    const now = enteredById.get(bid.id);
    const isStanding = bid.values !== null && bid.cost !== null;
    if (!lot || !(isStanding || bid.withdrawn)) return [];
    const request = requestOf(event, lot);
    const values = () =>
      now && now.missing === undefined
        ? now.values
        : computeRow(sheet, rowLayers(event, lot, bid.values ?? new Map()), bid.offers).values;
    const content = withoutNulls<FeedRecordContent<'latest-bids'>>({
      id: bid.id,
      sourcing_event: event.id,
      sourcing_request: request,
      supplier: bid.supplierId,
      lot_name: lot.name,
      bids: isStanding ? (bid.offers ?? [{ value: bid.cost }]) : [],
      bid_sheet_values: isStanding ? values() : [],
    });
    return [{ id: bid.id, requests: requestsOf(request), content, ...(now?.isFirst === true && { isNew: true }) }];
  });
}

/** A record for each answered question of each supplier. */
export function rfiRecords(event: SourcingEvent, responses: readonly RfiResponse[]): FeedRecord<'rfi-responses'>[] {
  const request = requestOf(event);
  return responses.map((response) => ({
    id: String(response.id),
    requests: requestsOf(request),
    content: withoutNulls<FeedRecordContent<'rfi-responses'>>({
      id: response.id,
      sourcing_event: event.id,
      sourcing_request: request,
      supplier: response.supplierId,
      question_uuid: response.questionId,
      value: response.value,
      selected_options: response.selectedOptions,
      comment: response.comment,
      currency: response.currency,
      // Also shown when empty, where files are the whole answer and the last one was removed.
      document_file_uuids:
        response.documentFileIds.length > 0 || (response.value === null && response.selectedOptions === null)
          ? response.documentFileIds
          : null,
    }),
  }));
}

export interface AwardedEvent {
  /** One record for each lot, also for a lot without a winner. */
  readonly records: FeedRecord<'awards'>[];
  readonly awardedCost: string;
  readonly awardedLotCount: number;
}

type AwardContent = FeedRecordContent<'awards'>;

/** The awards of a closing event: `cost` and `historic_cost` are for the share, `savings` is the difference. */
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
  const records = event.lots.map((lot): FeedRecord<'awards'> => {
    const entries = (awardsByLot.get(lot.id) ?? []).flatMap(({ supplierId, share }) => {
      const bid = bidOf.get(`${lot.id} ${supplierId}`);
      // A share of zero is no award.
      if (!bid?.values || bid.cost === null || new Decimal(share).isZero()) return [];
      const row = computeRow(sheet, rowLayers(event, lot, bid.values), bid.offers);
      // Rounded before it is added up: a reader that adds up the amounts shown gets the same total.
      const cost = formatDecimal(new Decimal(share).times(bid.cost));
      total = total.plus(cost);
      const lotHistoric = historicColumn === undefined ? undefined : row.amountIn(historicColumn);
      const historic = lotHistoric === undefined ? null : formatDecimal(lotHistoric.times(share));
      return [
        withoutNulls<AwardContent['awards'][number]>({
          supplier: supplierId,
          share_awarded: share,
          cost,
          savings: historic === null ? null : formatDecimal(new Decimal(historic).minus(cost)),
          historic_cost: historic,
          bid_sheet_values: row.values,
        }),
      ];
    });
    if (entries.length > 0) awardedLots += 1;
    const request = requestOf(event, lot);
    const content: WithNulls<AwardContent> = {
      id: lot.id,
      sourcing_event: event.id,
      sourcing_request: request,
      lot_name: lot.name,
      // A lot whose award was taken back reads like a lot that was never awarded: without a scenario.
      scenario_name: entries.length > 0 ? event.awardedScenario : null,
      awards: entries,
    };
    return {
      id: lot.id,
      requests: requestsOf(request),
      content: withoutNulls<AwardContent>(content),
      compared: comparedAward(withoutNulls<AwardContent>(content)),
    };
  });
  return { records, awardedCost: formatDecimal(total), awardedLotCount: awardedLots };
}

/** What decides whether an award has changed: the same under another scenario, or 0.50 after 0.5, is no change. */
export function comparedAward({ id, sourcing_event, sourcing_request, lot_name, awards }: AwardContent): unknown {
  const normalised = awards.map((entry) => ({ ...entry, share_awarded: new Decimal(entry.share_awarded) }));
  // The hashes of what is stored were made of these members in this order.
  return { id, sourcing_event, sourcing_request: sourcing_request ?? null, lot_name, awards: normalised };
}

/**
 * Each member of the content. A member that the contract leaves optional must be there, too, as null if it has no
 * value.
 */
type WithNulls<Content> = {
  [Name in keyof Content]-?: undefined extends Content[Name] ? Exclude<Content[Name], undefined> | null : Content[Name];
};

function withoutNulls<Content extends object>(members: WithNulls<Content>): Content {
  const content: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(members)) if (value !== null) content[name] = value;
  return content as Content;
}
