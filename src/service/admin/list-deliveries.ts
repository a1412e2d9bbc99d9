import type { z } from 'zod';
import { deliveriesQuery, deliveryList } from '#contract/admin.ts';
import { endpoint } from '#platform/http/endpoint.ts';
import type { Operator } from '../caller.ts';
import { answerList } from '../list-envelope.ts';
import { readDeliveryLog } from '../webhooks/delivery-log.ts';
import { findOrganisation } from './find-organisation.ts';

/** GET /admin/organisations/{id}/deliveries: the delivery log of all its webhooks. */
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
    const body = await readDeliveryLog(unit.tx, organisation, {
      query,
      webhookId: webhook,
      reader: 'operator',
      url: `${baseUrl}/admin/organisations/${organisation}/deliveries`,
      filters: { webhook, status },
    });
    return answerList(body);
  },
});
