/** A webhook as it is stored and as it is shown. Source: API document, "Webhook". */
import { uuid } from '#contract/scalars.ts';
import type { Trigger } from '#contract/webhook.ts';
import type { Sql } from '#platform/database/database.ts';
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

/** What the secret box ties a signing key to: a key copied to another row does not open. */
export function signingKeyContext(webhookId: string): string {
  return `webhook.signing_key:${webhookId}`;
}

/** The same for the OAuth parameters. */
export function authenticationContext(webhookId: string): string {
  return `webhook.authentication:${webhookId}`;
}

export function renderWebhook({ id, triggers, ...rest }: WebhookRow) {
  return { uuid: id, ...rest, triggers: `[${triggers.join(', ')}]` };
}

/** Throws `not-found`, also for another organisation's. */
export async function findWebhook(sql: Sql, organisationId: string, id: string | undefined): Promise<WebhookRow> {
  const parsed = uuid.safeParse(id);
  const [row] = parsed.success
    ? await sql.query<WebhookRow>(
        `select ${webhookColumns} from service.webhooks where id = $1 and organisation_id = $2`,
        [parsed.data, organisationId],
      )
    : [];
  if (!row) throw new AppError('not-found', 'There is no such webhook.');
  return row;
}
