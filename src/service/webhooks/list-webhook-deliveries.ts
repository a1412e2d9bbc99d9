import type { z } from 'zod';
import { deliveryList, webhookDeliveriesQuery } from '#contract/admin.ts';
import { endpoint } from '#platform/http/endpoint.ts';
import type { Caller } from '../caller.ts';
import { answerList } from '../list-envelope.ts';
import { readDeliveryLog } from './delivery-log.ts';
import { findWebhook } from './webhook-row.ts';

/** GET /api/webhooks/{uuid}/deliveries: the delivery log of one webhook. */
export const listWebhookDeliveries = endpoint<Caller, z.ZodUndefined, typeof webhookDeliveriesQuery>({
  method: 'GET',
  path: '/api/webhooks/:uuid/deliveries',
  scope: 'webhooks',
  limit: 'webhooks',
  summary: "Read a webhook's deliveries",
  answers: { 200: deliveryList },
  query: webhookDeliveriesQuery,
  handle: async ({ params, query, baseUrl, caller: { unit, organisationId } }) => {
    const { id } = await findWebhook(unit.tx, organisationId, params['uuid']);
    const body = await readDeliveryLog(unit.tx, organisationId, {
      query,
      webhookId: id,
      reader: 'organisation',
      url: `${baseUrl}/api/webhooks/${id}/deliveries`,
      filters: { status: query.status },
    });
    return answerList(body);
  },
});
