/**
 * The profile `public`: how a real service of this kind speaks, as far as its public pages say. Only `/api` differs; the
 * desk and the operator's commands are ours, except that the headers of rate limits are the same for all calls.
 *
 * | What | Here |
 * |---|---|
 * | next page | in the header `Link` alone: `next` of the body is null |
 * | `page_size` | 10 to 200, else 400 |
 * | unknown, expired or revoked key, missing scope | 403 with an empty body |
 * | other errors | `{errors: [text], field_errors: {path: [text]}}` |
 * | rate limits | `RateLimit-Limit`, `RateLimit-Remaining`, `RateLimit-Reset`: of the window with the least left |
 * | jobs | 120 an hour and 500 a day |
 * | trigger of the awards feed | `AWARD_FEED_UPDATED`; a webhook shows its triggers as a list |
 * | not there | the header `Feed-Order`, and `feed_modified` in notifications |
 */
import { z } from 'zod';
import { feedQueriesWith } from '#contract/feed.ts';
import { issuesMax } from '#contract/issue.ts';
import { limits } from '#contract/limits.ts';
import { listPageSize } from '#contract/list.ts';
import {
  createdWebhook,
  createWebhookRequest,
  type Trigger,
  triggerNameElsewhere,
  triggers,
  updateWebhookRequest,
  webhook,
  webhookList,
} from '#contract/webhook.ts';
import type { AppError } from '#platform/errors.ts';
import type { Answer, Endpoint } from '#platform/http/endpoint.ts';
import { type ErrorAnswer, problemAnswers, publicTextOf } from '#platform/http/problem.ts';
import type { Caller } from '../caller.ts';
import type { Profile, WindowState } from './profile.ts';

const pageSizes = { min: 10, max: 200 };

const errorBody = z
  .looseObject({
    errors: z.array(z.string()),
    field_errors: z.record(z.string(), z.array(z.string())).describe('What is wrong at each path of the body.'),
  })
  .meta({ id: 'Errors' });

export const publicProfile: Profile = {
  name: 'public',
  feeds: { queries: feedQueriesWith(pageSizes), nextInBody: false, declaresOrder: false },
  endpoints: (table) => table.map(publicEndpoint),
  limits: {
    ...limits,
    jobs_write: {
      burst: { ...limits.jobs_write.burst, requests: 120 },
      sustained: { ...limits.jobs_write.sustained, requests: 500 },
    },
  },
  rateLimitHeaders,
  headerNames: ['RateLimit-Limit', 'RateLimit-Remaining', 'RateLimit-Reset'],
  errors: { answer: answerError, schema: errorBody, mediaType: 'application/json' },
  triggerName: triggerNameElsewhere,
  sendsFeedModified: false,
  words: {
    errors:
      '`{errors: [text], field_errors: {path: [text]}}`. A key that is unknown, expired or revoked, or lacks the scope, is answered with 403 and an empty body.',
    limits:
      '`RateLimit-Limit`, `RateLimit-Remaining` and `RateLimit-Reset` (seconds) say what is left of the limit that is reached first.',
  },
};

function rateLimitHeaders(_bucket: string, windows: readonly WindowState[]): Record<string, string> {
  const [first] = windows.toSorted((a, b) => a.remaining - b.remaining);
  if (!first) return {};
  return {
    'RateLimit-Limit': String(first.requests),
    'RateLimit-Remaining': String(first.remaining),
    'RateLimit-Reset': String(first.resetSeconds),
  };
}

function answerError(error: AppError): ErrorAnswer {
  if (error.code === 'unauthorized' || error.code === 'forbidden') return { status: 403 };
  const issues = error.code === 'internal' ? [] : error.issues.slice(0, issuesMax);
  const fields = Map.groupBy(issues, ({ path }) => path);
  const body: z.input<typeof errorBody> = {
    errors: [publicTextOf(error)],
    field_errors: Object.fromEntries([...fields].map(([path, ofPath]) => [path, ofPath.map(({ message }) => message)])),
  };
  return { status: problemAnswers[error.code].status, mediaType: 'application/json', body };
}

function publicEndpoint(endpoint: Endpoint<Caller>): Endpoint<Caller> {
  if (!endpoint.path.startsWith('/api/')) return endpoint;
  const change = ofWebhooks[`${endpoint.method} ${endpoint.path}`] ?? ((same: Endpoint<Caller>) => same);
  return change(asList(endpoint));
}

/** A list has public page sizes, and its next page in `Link` alone. Every other endpoint stays as it is. */
function asList(endpoint: Endpoint<Caller>): Endpoint<Caller> {
  const { query } = endpoint;
  if (!(query instanceof z.ZodObject) || !('page_size' in query.shape)) return endpoint;
  return answering({ ...endpoint, query: query.extend({ page_size: listPageSize(pageSizes) }) }, (body: object) => ({
    ...body,
    next: null,
  }));
}

/** The endpoint with another body in its answers. */
function answering(endpoint: Endpoint<Caller>, change: (body: never) => object): Endpoint<Caller> {
  return {
    ...endpoint,
    handle: async (call, prepared): Promise<Answer> => {
      const answer = await endpoint.handle(call, prepared);
      return { ...answer, body: change(answer.body as never) };
    },
  };
}

const nameOfTrigger = new Map(triggers.map((trigger) => [triggerNameElsewhere(trigger), trigger]));

/** As in a request of the contract, by public names. */
const triggerList = z
  .array(z.enum([...nameOfTrigger.keys()]))
  .min(1)
  .refine((list) => new Set(list).size === list.length, 'a trigger stands twice')
  .transform((list) => list.flatMap((name) => nameOfTrigger.get(name) ?? []));

const shownTriggers = { triggers: z.array(z.string()) };
const publicWebhook = webhook.extend(shownTriggers);

/** The contract shows triggers as the text `[A, B]`. */
function showWebhook(shown: { triggers: string }) {
  const names = shown.triggers.slice(1, -1).split(', ') as Trigger[];
  return { ...shown, triggers: names.map(triggerNameElsewhere) };
}

const ofWebhooks: Readonly<Record<string, (endpoint: Endpoint<Caller>) => Endpoint<Caller>>> = {
  'POST /api/webhooks': (endpoint) => ({
    ...answering(endpoint, showWebhook),
    body: createWebhookRequest.extend({ triggers: triggerList }),
    answers: { 201: createdWebhook.extend(shownTriggers) },
  }),
  'GET /api/webhooks': (endpoint) => ({
    ...answering(endpoint, (list: { result: { triggers: string }[] }) => ({
      ...list,
      result: list.result.map(showWebhook),
    })),
    answers: { 200: webhookList.extend({ result: z.array(publicWebhook) }) },
  }),
  'GET /api/webhooks/:uuid': (endpoint) => ({
    ...answering(endpoint, showWebhook),
    answers: { 200: publicWebhook },
  }),
  'PATCH /api/webhooks/:uuid': (endpoint) => ({
    ...answering(endpoint, showWebhook),
    body: updateWebhookRequest.extend({ triggers: triggerList.optional() }),
    answers: { 200: publicWebhook },
  }),
  'GET /api/webhooks/:uuid/deliveries': (endpoint) =>
    answering(endpoint, (list: { result: { trigger: Trigger }[] }) => ({
      ...list,
      result: list.result.map((delivery) => ({ ...delivery, trigger: triggerNameElsewhere(delivery.trigger) })),
    })),
};
