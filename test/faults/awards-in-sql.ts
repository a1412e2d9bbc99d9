/**
 * The service's awards, computed by SQL from the input of buyers and suppliers: neither from the feeds nor by any code
 * of the service, the bridge or the demo.
 */
import { Client } from 'pg';

/** `<event>/<supplier>` to its lines, `<lot> <share> <cost>`, sorted. */
export type Awards = Record<string, string[]>;

export interface ServiceState {
  readonly awards: Awards;
  /** Ids of events that are open again: until they close, the feeds do not show changes of their awards. */
  readonly reopened: readonly string[];
  /** Events of any status, without templates. */
  readonly events: number;
  /** Organisations that have events. */
  readonly organisations: number;
}

/** The awards without those of the given events: the rest can be compared while these events are open again. */
export function withoutEvents(awards: Awards, events: readonly string[]): Awards {
  return Object.fromEntries(Object.entries(awards).filter(([key]) => !events.includes(key.split('/')[0] ?? '')));
}

/** Reads the state of a service's database. */
export async function readServiceState(databaseUrl: string): Promise<ServiceState> {
  return withClient(databaseUrl, async (client) => {
    const lines = await client.query<{ key: string; line: string }>(
      `select e.id || '/' || a."supplierId" as key,
         l.name || ' ' || a.share || ' ' || trim_scale(b.cost::numeric * a.share::numeric) as line
       from service.sourcing_events e
       join service.scenarios s on s.event_id = e.id and s.name = e.awarded_scenario
       cross join jsonb_to_recordset(s.awards) as a ("lotId" uuid, "supplierId" uuid, share text)
       join service.lots l on l.id = a."lotId"
       join service.bids b on b.lot_id = l.id and b.supplier_id = a."supplierId"
       where e.status = 'CLOSED'`,
    );
    const awards: Awards = {};
    for (const { key, line } of lines.rows) (awards[key] ??= []).push(line);
    for (const list of Object.values(awards)) list.sort();
    const [counted] = (
      await client.query<{ events: number; organisations: number; reopened: string[] }>(
        `select count(*) filter (where not is_template)::int as events,
           count(distinct organisation_id)::int as organisations,
           coalesce(array_agg(id::text) filter (where status in ('OPEN', 'PAUSED') and closed is not null), '{}')
             as reopened
         from service.sourcing_events`,
      )
    ).rows;
    return {
      awards,
      reopened: counted?.reopened ?? [],
      events: counted?.events ?? 0,
      organisations: counted?.organisations ?? 0,
    };
  });
}

/** The unfinished work of the bridge: documents that are due, cut off or dead. */
export async function readUnfinished(databaseUrl: string): Promise<string[]> {
  return withClient(databaseUrl, async (client) => {
    const found = await client.query<{ what: string }>(
      `select key || coalesce(': ' || last_error, '') as what from bridge.flow_documents
       where due is not null or intent_id is not null or dead_since is not null or wanted <> reconciled`,
    );
    return found.rows.map(({ what }) => what);
  });
}

/** The rows of one statement. */
export async function readRows<Row extends object>(databaseUrl: string, statement: string): Promise<Row[]> {
  return withClient(databaseUrl, async (client) => (await client.query<Row>(statement)).rows);
}

async function withClient<T>(url: string, use: (client: Client) => Promise<T>): Promise<T> {
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    return await use(client);
  } finally {
    await client.end();
  }
}
