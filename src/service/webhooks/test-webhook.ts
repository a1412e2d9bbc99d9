import { noBody } from '#contract/desk.ts';
import { testWebhookAnswer } from '#contract/webhook.ts';
import { type Clock, timestampNow } from '#platform/clock.ts';
import { endpoint } from '#platform/http/endpoint.ts';
import type { Caller } from '../caller.ts';
import { enqueueNotifications } from './enqueue-notifications.ts';
import { findWebhook } from './webhook-row.ts';

const testRequest = noBody.optional();

/** POST /api/webhooks/{uuid}/test: enqueues a TEST notification to this webhook, whatever it subscribes to. */
export function testWebhook({ clock }: { clock: Clock }) {
  return endpoint<Caller, typeof testRequest>({
    method: 'POST',
    path: '/api/webhooks/:uuid/test',
    scope: 'webhooks',
    limit: 'webhooks',
    summary: 'Send a test notification',
    answers: { 202: testWebhookAnswer },
    body: testRequest,
    handle: async ({ params, baseUrl, caller: { unit, organisationId } }) => {
      const webhook = await findWebhook(unit.tx, organisationId, params['uuid']);
      await enqueueNotifications(unit, { organisationId, now: timestampNow(clock), webhookId: webhook.id }, [
        {
          trigger: 'TEST',
          coalesces: false,
          payload: { detail: `This is a test notification to the webhook "${webhook.name}".` },
        },
      ]);
      return {
        status: 202,
        headers: { Location: `${baseUrl}/api/webhooks/${webhook.id}/deliveries` },
        body: { detail: `A test notification to ${webhook.url} is scheduled.` },
      };
    },
  });
}
