import type { z } from 'zod';
import { deliveriesQuery, deliveryList } from '#contract/admin.ts';
import { endpoint } from '#platform/http/endpoint.ts';
import type { Operator } from '../caller.ts';
import { renderList } from '../list-envelope.ts';
import { findOrganisation } from './find-organisation.ts';

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

/**
 * GET /admin/organisations/{id}/deliveries: the delivery log, newest first. An item is a notification with all its
 * attempts.
 */
export const listDeliveries = endpoint<Operator, z.ZodUndefined, typeof deliveriesQuery>({
  method: 'GET',
  path: '/admin/organisations/:id/deliveries',
  scope: 'operator',
  summary: 'Read the delivery log',
  answers: { 200: deliveryList },
  query: deliveriesQuery,
  handle: async ({ params, query, baseUrl, caller: { unit } }) => {
    const organisation = await findOrganisation(unit.tx, params['id']);
    const { webhook, status } = query;
    const values: unknown[] = [organisation];
    const conditions = ['d.organisation_id = $1'];
    if (webhook !== undefined) conditions.push(`d.webhook_id = $${values.push(webhook)}`);
    if (status !== undefined) conditions.push(statusCondition(status, values));
    const body = await renderList(
      unit.tx,
      {
        select: `select d.id, d.webhook_id as webhook, d.trigger, d.state, d.created, d.due
          from service.deliveries d where ${conditions.join(' and ')}`,
        shown: `page.*, (
          select coalesce(json_agg(json_build_object('number', number,
              'time', to_char(at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'), 'status', status,
              'duration_ms', duration_ms, 'error', error, 'response_excerpt', response_excerpt)
            order by number), '[]')
          from service.delivery_attempts where delivery_id = page.id) as attempts`,
        orderBy: 'created desc, id desc',
        params: values,
        query,
        url: `${baseUrl}/admin/organisations/${organisation}/deliveries`,
        filters: { webhook, status },
      },
      render,
    );
    return { status: 200, body };
  },
});

/** `failed` also selects notifications that failed and wait for a retry: they are failures to an operator, too. */
function statusCondition(status: string, values: unknown[]): string {
  const newest = (column: string) =>
    `(select ${column} from service.delivery_attempts where delivery_id = d.id order by number desc limit 1)`;
  if (/^\d/.test(status)) return `${newest('status')} = $${values.push(Number(status))}`;
  if (status === 'failed') return `(d.state = 'failed' or (d.state <> 'delivered' and ${newest('error')} is not null))`;
  return `d.state = $${values.push(status)}`;
}

/** A delivery with its attempts; the members of the newest attempt are also members of the delivery. */
function render({ due, attempts, ...delivery }: DeliveryRow) {
  const { number: _number, ...newest } = attempts.at(-1) ?? {};
  return { ...delivery, ...(delivery.state === 'pending' ? { due } : {}), ...newest, attempts };
}
