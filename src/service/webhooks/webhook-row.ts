/** A webhook's row in the database, and its form in answers. Source: API document, "Webhook". */
import { uuid } from '#contract/scalars.ts';
import type { Trigger } from '#contract/webhook.ts';
import type { Sql } from '#platform/database/sql.ts';
import { AppError } from '#platform/errors.ts';

export interface WebhookRow {
  id: string;
  name: string;
  description: string;
  url: string;
  triggers: Trigger[];
  signing_alg: string;
  is_active: boolean;
}

export const webhookColumns = 'id, name, description, url, triggers, signing_alg, is_active';

/** The context that a signing key is sealed with: a key that was copied to another row cannot be opened. */
export function signingKeyContext(webhookId: string): string {
  return `webhook.signing_key:${webhookId}`;
}

/** The context that the key of Standard Webhooks is sealed with. */
export function standardKeyContext(webhookId: string): string {
  return `webhook.standard_key:${webhookId}`;
}

/** The context that the OAuth parameters are sealed with. */
export function authenticationContext(webhookId: string): string {
  return `webhook.authentication:${webhookId}`;
}

/** The webhook as answers show it, without its secrets; `triggers` as the text `[A, B]`. */
export function renderWebhook({ id, triggers, ...rest }: WebhookRow) {
  return { uuid: id, ...rest, triggers: `[${triggers.join(', ')}]` };
}

/**
 * Returns the organisation's webhook. `lock` locks it until the transaction ends, before its deliveries are locked. Throws
 * `not-found` when the id is unknown or belongs to another organisation.
 */
export async function findWebhook(
  sql: Sql,
  organisationId: string,
  id: string | undefined,
  lock?: 'lock',
): Promise<WebhookRow> {
  const parsed = uuid.safeParse(id);
  const [row] = parsed.success
    ? await sql.query<WebhookRow>(
        `select ${webhookColumns} from service.webhooks where id = $1 and organisation_id = $2${lock ? ' for update' : ''}`,
        [parsed.data, organisationId],
      )
    : [];
  if (!row) throw new AppError('not-found', 'There is no such webhook.');
  return row;
}
