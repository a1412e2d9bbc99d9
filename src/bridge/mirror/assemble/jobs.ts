import type { HeldJob } from '#bridge/documents/job-document.ts';
import type { Sql } from '#platform/database/sql.ts';

/** Reads jobs as they were read last, each with the reference that the intake knows which has sent it. */
export async function loadJobs(sql: Sql, source: string, ids: readonly string[]): Promise<Map<string, HeldJob>> {
  if (ids.length === 0) return new Map();
  const rows = await sql.query<{ id: string; body: string; reference: string | null }>(
    `select r.id, r.body, j.reference_id as reference from bridge.resources r
     left join bridge.jobs j on j.source = r.source and j.job = r.id
     where r.source = $1 and r.kind = 'job' and r.id = any($2)`,
    [source, ids],
  );
  return new Map(
    rows.map(({ id, body, reference }) => [
      id,
      { object: JSON.parse(body) as unknown, reference: reference ?? undefined },
    ]),
  );
}
