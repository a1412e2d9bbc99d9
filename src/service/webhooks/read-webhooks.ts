import { z } from 'zod';
import { listQuery } from '#contract/list.ts';
import { webhook, webhookList } from '#contract/webhook.ts';
import { endpoint } from '#platform/http/endpoint.ts';
import type { Caller } from '../caller.ts';
import { answerList } from '../list-envelope.ts';
import { readManageList } from '../manage-envelope.ts';
import { findWebhook, renderWebhook, webhookColumns } from './webhook-row.ts';

const path = '/api/webhooks';

/** GET /api/webhooks/{uuid}: without the signing key. */
export const readWebhook = endpoint<Caller>({
  method: 'GET',
  path: `${path}/:uuid`,
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
  path,
  scope: 'webhooks',
  limit: 'webhooks',
  summary: 'List the webhooks',
  answers: { 200: webhookList },
  query: listWebhooksQuery,
  handle: async ({ query, baseUrl, caller: { unit, organisationId } }) => {
    const body = await readManageList(
      unit.tx,
      path,
      {
        select: `select ${webhookColumns}, created from service.webhooks where organisation_id = $1`,
        shown: webhookColumns,
        orderBy: 'created, id',
        params: [organisationId],
        query,
        url: baseUrl + path,
      },
      renderWebhook,
    );
    return answerList(body);
  },
});
