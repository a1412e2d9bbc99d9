/**
 * What was awarded in events, for a buyer: each supplier once with what it has won, where that is in the ERPs, and the
 * totals of the event. A document of an award is one row for each flow that delivers it; its amount is the one that was sent
 * last by any of them.
 */
import {
  type DocumentRow,
  shownColumns,
  shownDocumentOf,
  subjectJoins,
} from '#bridge/ledger/attempts/document-rows.ts';
import type { StateName } from '#bridge/ledger/attempts/document-state.ts';
import { Decimal, formatDecimal } from '#contract/decimal.ts';
import type { Timestamp } from '#contract/timestamp.ts';
import type { Sql } from '#platform/database/sql.ts';

/** Where an award is in one ERP. */
export interface AwardDelivery {
  readonly flow: string;
  readonly kind: 'award';
  readonly key: string;
  readonly state: StateName;
  readonly why: string | null;
  readonly reference: string | null;
  readonly delivered: Timestamp | null;
}

export interface ListedAward {
  readonly supplier: string | null;
  readonly supplierName: string | null;
  readonly supplierExternalId: string | null;
  /** A decimal in `currency`; null: nothing of it was sent yet. */
  readonly amount: string | null;
  readonly currency: string | null;
  readonly deliveries: readonly AwardDelivery[];
}

export interface AwardTotal {
  readonly currency: string;
  readonly amount: string;
}

export interface AwardedEvent {
  readonly awards: readonly ListedAward[];
  /** By currency, exact. */
  readonly totals: readonly AwardTotal[];
  /** How many awards are in no total, since nothing of them was sent yet. */
  readonly withoutAmount: number;
}

type AwardRow = DocumentRow & Pick<ListedAward, 'amount' | 'currency'>;

/** Of these the supplier has nothing in the event: they were withdrawn, or never wanted. */
const goneStates: readonly StateName[] = ['cancelled', 'nothing'];

/** Returns what was awarded in each of these events, by the event's id; an event without awards is left out. */
export async function listAwards(
  sql: Sql,
  { source, events, flows }: { source: string; events: readonly string[]; flows: readonly string[] | undefined },
  now: Timestamp,
): Promise<Map<string, AwardedEvent>> {
  const rows = await sql.query<AwardRow>(
    `select ${shownColumns}, m.amount, m.currency
     from bridge.flow_documents d
     join bridge.flows f on f.name = d.flow and f.source = $1 and d.kind = any(f.kinds)
     ${subjectJoins}
     left join lateral (select a.amount, a.currency from bridge.attempts a
       where a.key = d.key and a.kind = d.kind and a.amount is not null
         and a.flow in (select o.name from bridge.flows o where o.source = $1 and ($3::text[] is null or o.name = any($3)))
       order by a.id desc limit 1) m on true
     where d.kind = 'award' and d.sourcing_event = any($2) and ($3::text[] is null or d.flow = any($3))
     order by d.sourcing_event, s.name, d.key, d.flow`,
    [source, events, flows ?? null],
  );
  const byEvent = new Map<string, Map<string, ListedAward>>();
  for (const row of rows) {
    const document = shownDocumentOf(row, now);
    if (document.sourcingEvent === null || goneStates.includes(document.state)) continue;
    const awards = byEvent.get(document.sourcingEvent) ?? new Map<string, ListedAward>();
    byEvent.set(document.sourcingEvent, awards);
    const { flow, key, state, why, reference, delivered } = document;
    const delivery: AwardDelivery = { flow, kind: 'award', key, state, why, reference, delivered };
    const { supplier, supplierName, supplierExternalId } = document;
    const { amount, currency } = row;
    const known = awards.get(key) ?? { supplier, supplierName, supplierExternalId, amount, currency, deliveries: [] };
    awards.set(key, { ...known, deliveries: [...known.deliveries, delivery] });
  }
  return new Map([...byEvent].map(([event, awards]) => [event, awardedEventOf([...awards.values()])]));
}

function awardedEventOf(awards: readonly ListedAward[]): AwardedEvent {
  const totals = new Map<string, Decimal>();
  let withoutAmount = 0;
  for (const { amount, currency } of awards)
    if (amount === null) withoutAmount += 1;
    else totals.set(currency ?? '', (totals.get(currency ?? '') ?? new Decimal(0)).plus(amount));
  return {
    awards,
    totals: [...totals].map(([currency, amount]) => ({ currency, amount: formatDecimal(amount) })),
    withoutAmount,
  };
}
