import { z } from 'zod';
import { listQuery } from '#contract/list.ts';
import { endpoint } from '#platform/http/endpoint.ts';
import type { Caller } from '../caller.ts';
import { allowedCommands } from '../domain/lifecycle.ts';
import type { Cells, SourcingEvent } from '../domain/sourcing-event.ts';
import { loadBids, loadEvent } from '../events/event-store.ts';
import { listEnvelope } from '../list-envelope.ts';

const listEventsQuery = z.strictObject(listQuery);

/** GET /desk/events: newest first. */
export const listEvents = endpoint<Caller, z.ZodUndefined, typeof listEventsQuery>({
  method: 'GET',
  path: '/desk/events',
  scope: 'desk',
  query: listEventsQuery,
  handle: async ({ query, baseUrl, caller: { unit, organisationId } }) => {
    const body = await listEnvelope(
      unit.tx,
      {
        select: `select id, name, reference_id, type, status, created, published, closed
                 from service.sourcing_events where organisation_id = $1`,
        orderBy: 'created desc, id',
        params: [organisationId],
        query,
        url: `${baseUrl}/desk/events`,
      },
      (row) => row,
    );
    return { status: 200, body };
  },
});

/** GET /desk/events/{id}: the live event, which the feeds may lag behind. */
export const readEvent = endpoint<Caller>({
  method: 'GET',
  path: '/desk/events/:id',
  scope: 'desk',
  handle: async ({ params, caller: { unit, organisationId } }) => {
    const event = await loadEvent(unit.tx, organisationId, params['id'], 'read');
    const bids = await loadBids(unit.tx, event.id);
    const scenarios = await unit.tx.query<{ name: string; lot: string; supplier: string; share_awarded: string }>(
      `select s.name, l.name as lot, p.external_id as supplier, a.share as share_awarded
       from service.scenarios s
       left join service.scenario_awards a on a.event_id = s.event_id and a.scenario = s.name
       left join service.lots l on l.id = a.lot_id
       left join service.suppliers p on p.id = a.supplier_id
       where s.event_id = $1 order by s.name, l.position, p.external_id`,
      [event.id],
    );
    return { status: 200, body: rendered(event, bids, scenarios) };
  },
});

function rendered(
  event: SourcingEvent,
  bids: Awaited<ReturnType<typeof loadBids>>,
  scenarios: readonly { name: string; lot: string | null; supplier: string; share_awarded: string }[],
): object {
  const lotName = new Map(event.lots.map((lot) => [lot.id, lot.name]));
  const externalId = new Map(event.invitations.map((one) => [one.supplierId, one.externalId]));
  return {
    id: event.id,
    name: event.name,
    description: event.description,
    reference_id: event.referenceId,
    type: event.type,
    status: event.status,
    allowed: allowedCommands(event),
    primary_currency: event.primaryCurrency,
    created: event.created,
    published: event.published,
    closed: event.closed,
    columns: event.columns,
    global_values: plain(event.globalValues),
    primary_cost_calculation: event.primaryCostCalculation,
    lots: event.lots.map((lot) => ({ name: lot.name, values: plain(lot.values) })),
    rounds: event.rounds.map(({ number, starts, ends, status, awardedCost, awardedLotCount }) => ({
      number,
      starts,
      ends,
      status,
      awarded_cost: awardedCost,
      awarded_lot_count: awardedLotCount,
    })),
    suppliers: event.invitations.map((one) => ({
      external_id: one.externalId,
      id: one.supplierId,
      name: one.name,
      participated: one.participated,
    })),
    bids: bids.map((bid) => ({
      id: bid.id,
      lot: lotName.get(bid.lotId),
      supplier: externalId.get(bid.supplierId),
      cost: bid.cost,
      values: bid.values && plain(bid.values),
      draft: bid.draft && plain(bid.draft),
    })),
    scenarios: [...Map.groupBy(scenarios, ({ name }) => name)].map(([name, rows]) => ({
      name,
      awarded: name === event.awardedScenario,
      awards: rows.flatMap(({ lot, supplier, share_awarded }) =>
        lot === null ? [] : [{ lot, supplier, share_awarded }],
      ),
    })),
  };
}

function plain(cells: Cells): object {
  return Object.fromEntries(cells);
}
