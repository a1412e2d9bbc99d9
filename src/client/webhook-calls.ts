/**
 * Calls for webhooks. Source: API document, "Webhooks"; the list is from the decisions, so another service may not have
 * it.
 */
import { randomUUID } from 'node:crypto';
import { z } from 'zod';
import { timestamp } from '#contract/scalars.ts';
import {
  type createWebhookRequest,
  webhook as documentedWebhook,
  secretsOf,
  type updateWebhookRequest,
} from '#contract/webhook.ts';
import { AppError } from '#platform/errors.ts';
import { type ListPage, queryOf, type ReadList, readPages } from './list-page.ts';
import type { CallApi } from './send-call.ts';

const webhooksPath = '/api/webhooks';
const pageSize = 100;
/** More than any organisation has: a list that never ends is given up here. */
const webhooksMax = 10_000;

/** Another service may send the triggers as a list instead of the text `[A, B]`, or leave out the algorithm. */
const webhook = documentedWebhook
  .pick({ uuid: true, name: true, url: true, is_active: true })
  .extend({ triggers: z.union([z.string(), z.array(z.string()).transform((list) => `[${list.join(', ')}]`)]) });

const createdWebhook = webhook.extend({
  signing_key: z.string().optional(),
  standard_webhooks_key: z.string().optional(),
});

const attempt = z.looseObject({
  time: timestamp,
  /** The receiver's answer; null: there was none. */
  status: z.int().nullish(),
  /** Null: it was accepted. */
  error: z.string().nullish(),
});

/** Another service may leave out what the log has beside these. */
const delivery = z.looseObject({
  id: z.string(),
  trigger: z.string().optional(),
  state: z.string().optional(),
  created: z.string().optional(),
  /** When it is sent next; only while it waits. */
  due: z.string().nullish().catch(null),
  /** Of its newest attempt, as the next two: the receiver's answer, why it failed, and how the answer begins. */
  status: z.int().nullish(),
  error: z.string().nullish(),
  response_excerpt: z.string().nullish().catch(null),
  /** The oldest first. */
  attempts: z.array(attempt).optional().catch(undefined),
});

export type Webhook = z.output<typeof webhook>;
export type WebhookDelivery = z.output<typeof delivery>;

/** The first page of a filter, or the `next` of the page before. */
interface ListRequest {
  readonly next?: string;
  readonly pageSize?: number;
  readonly status?: string;
}

export interface WebhookCalls {
  /** Returns all webhooks. Throws AppError `not-found` when the service has no list. */
  listWebhooks(signal?: AbortSignal): Promise<Webhook[]>;
  /** The signing key is in the first answer only: a repeated call with the same key is answered without it. */
  createWebhook(
    request: z.input<typeof createWebhookRequest>,
    idempotencyKey: string,
    signal?: AbortSignal,
  ): Promise<z.output<typeof createdWebhook>>;
  readWebhook(uuid: string, signal?: AbortSignal): Promise<Webhook>;
  /** Changes what `changes` names; `is_active: true` resumes a disabled webhook. Returns the webhook. */
  updateWebhook(uuid: string, changes: z.input<typeof updateWebhookRequest>, signal?: AbortSignal): Promise<Webhook>;
  /** Returns one page of what was sent to the webhook, the newest first. */
  listDeliveries(uuid: string, page?: ListRequest, signal?: AbortSignal): Promise<ListPage<WebhookDelivery>>;
  /** Asks the service to send a notification again. */
  resendDelivery(uuid: string, delivery: string, signal?: AbortSignal): Promise<void>;
  /** Does nothing when the webhook does not exist. */
  deleteWebhook(uuid: string, signal?: AbortSignal): Promise<void>;
  /** Asks the service to send a test notification to the webhook. Returns the service's text. */
  testWebhook(uuid: string, signal?: AbortSignal): Promise<string>;
}

/** Creates the calls for webhooks. */
export function createWebhookCalls({ call, readList }: { call: CallApi; readList: ReadList }): WebhookCalls {
  const pathOf = (uuid: string) => `${webhooksPath}/${encodeURIComponent(uuid)}`;
  return {
    async listWebhooks(signal) {
      const found: Webhook[] = [];
      const read = (query: string) => readList({ path: webhooksPath, query, item: webhook }, signal);
      for await (const { items } of readPages(read, queryOf({ page_size: pageSize }))) {
        found.push(...items);
        if (found.length > webhooksMax)
          throw new AppError('unavailable', 'The list of webhooks does not end.', { recovery: { do: 'halt' } });
      }
      return found;
    },
    createWebhook: (request, idempotencyKey, signal) => {
      const secrets = request.authentication ? secretsOf(request.authentication.parameters) : [];
      return call(
        { method: 'POST', path: webhooksPath, body: request, idempotencyKey, secrets },
        createdWebhook,
        signal,
      );
    },
    readWebhook: (uuid, signal) => call({ method: 'GET', path: pathOf(uuid) }, webhook, signal),
    updateWebhook: (uuid, changes, signal) => {
      const secrets = changes.authentication ? secretsOf(changes.authentication.parameters) : [];
      return call({ method: 'PATCH', path: pathOf(uuid), body: changes, secrets }, webhook, signal);
    },
    listDeliveries: (uuid, { next, pageSize, status } = {}, signal) => {
      const query = next ?? queryOf({ page_size: pageSize, status });
      return readList({ path: `${pathOf(uuid)}/deliveries`, query, item: delivery }, signal);
    },
    async resendDelivery(uuid, id, signal) {
      await call(
        {
          method: 'POST',
          path: `${pathOf(uuid)}/deliveries/${encodeURIComponent(id)}/resend`,
          idempotencyKey: randomUUID(),
        },
        z.unknown(),
        signal,
      );
    },
    async deleteWebhook(uuid, signal) {
      try {
        await call({ method: 'DELETE', path: pathOf(uuid) }, z.unknown(), signal);
      } catch (error) {
        if (!(error instanceof AppError) || error.code !== 'not-found') throw error;
      }
    },
    async testWebhook(uuid, signal) {
      const { detail } = await call(
        { method: 'POST', path: `${pathOf(uuid)}/test`, idempotencyKey: randomUUID() },
        z.looseObject({ detail: z.string().default('') }),
        signal,
      );
      return detail;
    },
  };
}
