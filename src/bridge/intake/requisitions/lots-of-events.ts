/** What the lots of awards were made of: requisitions of an ERP, where an intake has made the event or the request. */
import type { AwardLine } from '#connector/documents.ts';
import type { Sql } from '#platform/database/sql.ts';

export interface MadeOfRequisitions {
  readonly intake: string;
  readonly isRequest: boolean;
  readonly lots: ReadonlyMap<string, { readonly reference_id: string; readonly line: string }>;
  /** Of a request: its requisition. */
  readonly only: string | undefined;
}

/** Reads what these events and requests of the source are made of, by their ids. */
export async function loadRequisitions(
  sql: Sql,
  source: string,
  entities: readonly string[],
): Promise<Map<string, MadeOfRequisitions>> {
  if (entities.length === 0) return new Map();
  const rows = await sql.query<{
    entity: string;
    intake: string;
    make: string;
    lot: string | null;
    key: string | null;
    line: string | null;
    only: string | null;
  }>(
    `select e.entity, e.intake, e.make, l.lot, l.erp_key as key, l.line,
       case when e.make = 'request' then (select m.erp_key from bridge.intake_members m where m.event = e.id limit 1) end
         as only
     from bridge.intake_events e left join bridge.intake_lots l on l.event = e.id
     where e.source = $1 and e.entity = any($2::text[])`,
    [source, [...new Set(entities)]],
  );
  return new Map(
    [...Map.groupBy(rows, ({ entity }) => entity)].map(([entity, own]) => [
      entity,
      {
        intake: own[0]?.intake ?? '',
        isRequest: own[0]?.make === 'request',
        only: own[0]?.only ?? undefined,
        lots: new Map(
          own.flatMap(({ lot, key, line }) =>
            lot === null || key === null || line === null ? [] : [[lot, { reference_id: key, line }] as const],
          ),
        ),
      },
    ]),
  );
}

/**
 * Returns the function that finds a lot's requisition. The lots of a request's event are its buyer's: one with the name
 * of an item is that line's, of any other only the requisition is known.
 */
export function requisitionFinder(made: ReadonlyMap<string, MadeOfRequisitions>) {
  return (eventId: string, lot: string, request: string | undefined): AwardLine['requisition'] => {
    const event = made.get(eventId);
    const own = event?.lots.get(lot);
    if (event && own) return { intake: event.intake, ...own };
    const served = request === undefined ? undefined : made.get(request);
    if (served?.only === undefined || !served.isRequest) return undefined;
    return { intake: served.intake, ...(served.lots.get(lot) ?? { reference_id: served.only }) };
  };
}
