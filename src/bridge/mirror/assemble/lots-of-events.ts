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
    key: string | null;
    lots: string | null;
  }>(
    `select e.entity, e.intake, e.make, m.erp_key as key, m.made_lots as lots
     from bridge.intake_events e left join bridge.intake_members m on m.event = e.id
     where e.source = $1 and e.entity = any($2::text[])`,
    [source, [...new Set(entities)]],
  );
  return new Map(
    [...Map.groupBy(rows, ({ entity }) => entity)].map(([entity, own]) => [
      entity,
      {
        intake: own[0]?.intake ?? '',
        isRequest: own[0]?.make === 'request',
        only: own[0]?.make === 'request' ? (own[0].key ?? undefined) : undefined,
        lots: new Map(
          own.flatMap(({ key, lots }) =>
            key === null ? [] : lotsIn(lots).map(({ lot, line }) => [lot, { reference_id: key, line }] as const),
          ),
        ),
      },
    ]),
  );
}

function lotsIn(text: string | null): { lot: string; line: string }[] {
  return text === null ? [] : (JSON.parse(text) as { lot: string; line: string }[]);
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
