/** Looks up files for other rooms. A file of another organisation is treated as missing. */
import type { ShownFile } from '#contract/file.ts';
import type { Issue } from '#contract/issue.ts';
import type { Sql } from '#platform/database/sql.ts';

/** The ids (UUIDs in lower case) that name no file of the organisation: each once, in the order of `ids`. */
export async function missingFileIds(sql: Sql, organisationId: string, ids: readonly string[]): Promise<string[]> {
  if (ids.length === 0) return [];
  const found = await sql.query<{ id: string }>(
    "select id from service.files where organisation_id = $1 and id = any($2::uuid[]) and state = 'file'",
    [organisationId, ids],
  );
  const known = new Set(found.map(({ id }) => id));
  return [...new Set(ids)].filter((id) => !known.has(id));
}

/** An issue for each reference to a file that the organisation does not have. */
export async function missingFileIssues(
  sql: Sql,
  organisationId: string,
  references: readonly { id: string; path: string }[],
): Promise<Issue[]> {
  const ids = references.map(({ id }) => id);
  const missing = new Set(await missingFileIds(sql, organisationId, ids));
  return references
    .filter(({ id }) => missing.has(id))
    .map(({ path }) => ({ path, message: 'is no file of this organisation' }));
}

/** The files of an event or a request, in the order they were attached. The caller has checked its organisation. */
export async function loadAttachedFiles(
  sql: Sql,
  table: 'sourcing_events' | 'sourcing_requests',
  id: string,
): Promise<ShownFile[]> {
  return sql.query<ShownFile>(
    `select f.id as uuid, f.file_name, f.content_type, f.size, f.created
     from service.${table} o cross join unnest(o.files) with ordinality as attached (id, place)
     join service.files f on f.id = attached.id and f.state = 'file'
     where o.id = $1 order by attached.place`,
    [id],
  );
}
