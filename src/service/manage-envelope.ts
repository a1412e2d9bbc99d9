/** What every manage answer carries beside its `result`. Source: API document, "Response envelopes". */
import type { Sql } from '#platform/database/database.ts';

/** The organisation's change sequence number: it grows with every change that a feed or the supplier list shows. */
export async function readGsn(sql: Sql, organisationId: string): Promise<number> {
  const [row] = await sql.query<{ gsn: number }>(
    'select coalesce(sum(changes), 0)::bigint as gsn from service.feed_heads where organisation_id = $1',
    [organisationId],
  );
  return row?.gsn ?? 0;
}

export async function manageEnvelope(sql: Sql, organisationId: string, endpoints: readonly string[], result: object) {
  return {
    result,
    used_endpoints: endpoints,
    gsn: await readGsn(sql, organisationId),
    includes: {},
    extras: {},
  };
}
