import type { Sql } from '#platform/database/sql.ts';

/** Takes the notifications out of an organisation's outbox, whatever became of them, and returns them. */
export function takeNotifications(
  sql: Sql,
  organisationId: string,
): Promise<{ trigger: string; payload: Record<string, unknown> }[]> {
  return sql.query(
    `delete from service.deliveries where webhook_id in (select id from service.webhooks where organisation_id = $1)
     returning trigger, payload`,
    [organisationId],
  );
}
