import { endpoint } from '#platform/http/endpoint.ts';
import type { Caller } from '../caller.ts';
import { findWebhook } from './webhook-row.ts';

/** DELETE /api/webhooks/{uuid}: deletes the webhook with its notifications, also those that are not sent yet. */
export const deleteWebhook = endpoint<Caller>({
  method: 'DELETE',
  path: '/api/webhooks/:uuid',
  scope: 'webhooks',
  limit: 'webhooks',
  summary: 'Delete a webhook',
  answers: { 204: null },
  handle: async ({ params, caller: { unit, organisationId } }) => {
    const webhook = await findWebhook(unit.tx, organisationId, params['uuid']);
    await unit.tx.query('delete from service.webhooks where id = $1', [webhook.id]);
    return { status: 204 };
  },
});
