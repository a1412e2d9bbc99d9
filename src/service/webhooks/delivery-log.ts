/**
 * The delivery log: what was sent to an organisation's webhooks, when, and what came back; newest first. An item is a
 * notification with all its attempts. The operator reads the log of an organisation, the organisation that of one webhook.
 */
import type { Sql } from '#platform/database/sql.ts';
import { renderList } from '../list-envelope.ts';

interface ShownAttempt {
  number: number;
  /** Written by the database: ISO 8601 in UTC with microseconds. */
  time: string;
  status: number | null;
  duration_ms: number;
  error: string | null;
  response_excerpt: string | null;
}

interface DeliveryRow {
  id: string;
  webhook: string;
  trigger: string;
  state: string;
  created: string;
  due: string;
  attempts: ShownAttempt[];
}

/** Reads one page of the organisation's log. `url` is the list's own, and `filters` are what its links keep. */
export async function readDeliveryLog(
  sql: Sql,
  organisationId: string,
  request: {
    query: { page_number: number; page_size: number; status?: string | undefined };
    webhookId: string | undefined;
    /** The operator sees why a connection was refused; the organisation does not. */
    reader: 'operator' | 'organisation';
    url: string;
    filters: Readonly<Record<string, string | undefined>>;
  },
) {
  const { query, webhookId, reader, url, filters } = request;
  const values: unknown[] = [organisationId];
  const webhooks = 'select id from service.webhooks where organisation_id = $1';
  const conditions =
    webhookId === undefined
      ? [`d.webhook_id = any(array(${webhooks}))`]
      : [`d.webhook_id = (${webhooks} and id = $${values.push(webhookId)})`];
  if (query.status !== undefined) conditions.push(statusCondition(query.status, values));
  return renderList(
    sql,
    {
      select: `select d.id, d.webhook_id as webhook, d.trigger, d.state, d.created,
          greatest(d.due, (select held_until from service.webhooks w where w.id = d.webhook_id)) as due
        from service.deliveries d where ${conditions.join(' and ')}`,
      shown: `page.*, (
        select coalesce(json_agg(json_build_object('number', number, 'time', time, 'status', status,
            'duration_ms', duration_ms, 'error', ${reader === 'operator' ? 'coalesce(operator_error, error)' : 'error'}, 'response_excerpt', response_excerpt)
          order by number), '[]')
        from service.deliveries d cross join ${attemptsOf('d')} where d.id = page.id) as attempts`,
      orderBy: 'created desc, id desc',
      params: values,
      query,
      url,
      filters,
    },
    render,
  );
}

/** A table for a `from` clause: the attempts of a delivery, whose row is `delivery`. */
function attemptsOf(delivery: string): string {
  return `jsonb_to_recordset(${delivery}.attempt_log) as attempt (number int, time text, status int, duration_ms int,
    error text, operator_error text, response_excerpt text)`;
}

/** `failed` also selects notifications that failed and wait for a retry: they are failures to a reader, too. */
function statusCondition(status: string, values: unknown[]): string {
  const newest = (column: string) => `(select ${column} from ${attemptsOf('d')} order by number desc limit 1)`;
  if (/^\d/.test(status)) return `${newest('status')} = $${values.push(Number(status))}`;
  if (status === 'failed') return `(d.state = 'failed' or (d.state <> 'delivered' and ${newest('error')} is not null))`;
  return `d.state = $${values.push(status)}`;
}

/** The newest attempt's members also stand beside the list of attempts. */
function render({ due, attempts, ...delivery }: DeliveryRow) {
  const { number: _number, ...newest } = attempts.at(-1) ?? {};
  return { ...delivery, ...(delivery.state === 'pending' ? { due } : {}), ...newest, attempts };
}
