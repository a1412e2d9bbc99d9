/** Files of an organisation, looked up for others: a file that belongs to another one does not exist. */
import type { ShownFile } from '#contract/file.ts';
import type { Sql } from '#platform/database/database.ts';

/** Which of these ids (UUIDs in lower case) name no file of the organisation, each once, in the order given. */
export async function missingFileIds(sql: Sql, organisationId: string, ids: readonly string[]): Promise<string[]> {
  if (ids.length === 0) return [];
  const found = await sql.query<{ id: string }>(
    'select id from service.files where organisation_id = $1 and id = any($2::uuid[])',
    [organisationId, ids],
  );
  const known = new Set(found.map(({ id }) => id));
  return [...new Set(ids)].filter((id) => !known.has(id));
}

const shownColumns = 'f.id as uuid, f.file_name, f.content_type, f.size, f.created';

/** The files of an event that was loaded by its organisation, in the order they were attached. */
export async function loadEventFiles(sql: Sql, eventId: string): Promise<ShownFile[]> {
  return sql.query<ShownFile>(
    `select ${shownColumns} from service.event_files a join service.files f on f.id = a.file_id
     where a.event_id = $1 order by a.position`,
    [eventId],
  );
}

/** The files of a sourcing request that was loaded by its organisation, in the order they were attached. */
export async function loadRequestFiles(sql: Sql, requestId: string): Promise<ShownFile[]> {
  return sql.query<ShownFile>(
    `select ${shownColumns} from service.request_files a join service.files f on f.id = a.file_id
     where a.request_id = $1 order by a.position`,
    [requestId],
  );
}
