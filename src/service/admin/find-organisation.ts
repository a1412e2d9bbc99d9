import { uuid } from '#contract/scalars.ts';
import type { Sql } from '#platform/database/sql.ts';
import { AppError } from '#platform/errors.ts';

/** Returns the id of an organisation that exists. Throws `not-found` for an unknown or malformed id. */
export async function findOrganisation(sql: Sql, id: string | undefined): Promise<string> {
  const parsed = uuid.safeParse(id);
  const rows = parsed.success
    ? await sql.query('select id from service.organisations where id = $1 and erasing is null', [parsed.data])
    : [];
  if (!parsed.success || rows.length === 0) throw new AppError('not-found', 'There is no such organisation.');
  return parsed.data;
}
