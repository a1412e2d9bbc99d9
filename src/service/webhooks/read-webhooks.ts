import { z } from 'zod';
import { listQuery } from '#contract/list.ts';
import { webhook, webhookList } from '#contract/webhook.ts';
import { endpoint } from '#platform/http/endpoint.ts';
import type { Caller } from '../caller.ts';
import { answerList, renderList } from '../list-envelope.ts';
import { readGsn } from '../manage-envelope.ts';
import { findWebhook, renderWebhook, type WebhookRow, webhookColumns } from './webhook-row.ts';

/** GET /api/webhooks/{uuid}: without the signing key. */
export const readWebhook = endpoint<Caller>({
  method: 'GET',
  path: '/api/webhooks/:uuid',
  scope: 'webhooks',
  limit: 'webhooks',
  summary: 'Read a webhook',
  answers: { 200: webhook },
  handle: async ({ params, caller: { unit, organisationId } }) => ({
    status: 200,
    body: renderWebhook(await findWebhook(unit.tx, organisationId, params['uuid'])),
  }),
});

const listWebhooksQuery = z.strictObject(listQuery);

/** GET /api/webhooks: the oldest first. */
export const listWebhooks = endpoint<Caller, z.ZodUndefined, typeof listWebhooksQuery>({
  method: 'GET',
  path: '/api/webhooks',
  scope: 'webhooks',
  limit: 'webhooks',
  summary: 'List the webhooks',
  answers: { 200: webhookList },
  query: listWebhooksQuery,
  handle: async ({ query, baseUrl, caller: { unit, organisationId } }) => {
    const list = await renderList(
      unit.tx,
      {
        select: `select ${webhookColumns}, created from service.webhooks where organisation_id = $1`,
        orderBy: 'created, id',
        params: [organisationId],
        query,
        url: `${baseUrl}/api/webhooks`,
      },
      ({ id, name, description, url, triggers, signing_alg, is_active }: WebhookRow) =>
        renderWebhook({ id, name, description, url, triggers, signing_alg, is_active }),
    );
    const gsn = await readGsn(unit.tx, organisationId);
    const body = { ...list, used_endpoints: ['/api/webhooks'], gsn, includes: {}, extras: {} };
    return answerList(body);
  },
});
