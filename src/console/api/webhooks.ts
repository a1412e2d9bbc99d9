/** Webhooks: what came in, what was refused and why, what it led to; register, test, rotate. */
import { z } from 'zod';
import { listBridgeWebhooks } from '#bridge/operate/webhooks/list-webhooks.ts';
import { registerWebhook } from '#bridge/operate/webhooks/register-webhook.ts';
import { rotateWebhooks } from '#bridge/operate/webhooks/rotate-webhooks.ts';
import { testWebhooks } from '#bridge/operate/webhooks/test-webhook.ts';
import { type WebhookDeps, webhookUrlOf } from '#bridge/operate/webhooks/webhook-deps.ts';
import { readNotifications } from '#bridge/receive/read-notifications.ts';
import { readRefusals } from '#bridge/receive/refusals.ts';
import { takesJobs } from '#bridge/settings/settings.ts';
import { httpsUrl } from '#contract/scalars.ts';
import { timestampNow } from '#platform/clock.ts';
import { AppError } from '#platform/errors.ts';
import type { Viewer } from '../access/viewer.ts';
import { shareRead } from '../shared-read.ts';
import { actionCall, type ConsoleApiDeps, pageRows, readCall, requireAllFlows, sourcesFor } from './console-call.ts';

const testMs = 30_000;
const listFreshMs = 30_000;
const source = z.string().min(1).max(100);
const notificationsQuery = z.strictObject({
  source: source.optional(),
  before: z.coerce.number().int().min(1).optional(),
});

export type NotificationsAnswer = Awaited<ReturnType<typeof notifications>>;
export type WebhooksAnswer = Awaited<ReturnType<typeof listBridgeWebhooks>>;
export type WebhookTestAnswer = { tested: Awaited<ReturnType<typeof testWebhooks>> };

async function notifications(
  { database, clock, settings }: ConsoleApiDeps,
  viewer: Viewer,
  asked: z.output<typeof notificationsQuery>,
) {
  const sources = sourcesFor(viewer, settings).filter((name) => asked.source === undefined || name === asked.source);
  const found = await readNotifications(database, { sources, before: asked.before, limit: pageRows + 1 });
  const refusals = await Promise.all(
    sources.map(async (name) => ({ source: name, refusals: await readRefusals(database, name, timestampNow(clock)) })),
  );
  const shown = found.slice(0, pageRows);
  return {
    sources: sources.map((name) => ({ name, url: webhookUrlOf(settings, name) })),
    notifications: shown,
    next: found.length > pageRows ? (shown.at(-1)?.id ?? null) : null,
    refusals: refusals.flatMap(({ source: name, refusals: rows }) => rows.map((row) => ({ source: name, ...row }))),
  };
}

function webhookDeps(deps: ConsoleApiDeps, name: string): WebhookDeps {
  const found = deps.settings.sources.find((each) => each.name === name);
  if (!found) throw new AppError('not-found', `There is no source "${name}".`);
  const { database, secrets, clock } = deps;
  const jobs = takesJobs(deps.settings, name);
  return { client: deps.clientOf(name), source: found, jobs, database, secrets, clock };
}

export const notificationsCall = (deps: ConsoleApiDeps) =>
  readCall('/api/notifications', notificationsQuery, ({ viewer, query }) => notifications(deps, viewer, query));

/** Asks the service: for an operator each time, for all viewers together at most twice a minute. */
export const webhooksCall = (deps: ConsoleApiDeps) => {
  const list = (name: string) => listBridgeWebhooks(webhookDeps(deps, name));
  const shared = new Map(
    deps.settings.sources.map(({ name }) => [name, shareRead(() => list(name), deps.clock, listFreshMs)]),
  );
  return readCall('/api/webhooks', z.strictObject({ source }), async ({ viewer, query }): Promise<WebhooksAnswer> => {
    requireAllFlows(viewer);
    const ofViewers = viewer.role === 'operator' ? undefined : shared.get(query.source);
    return ofViewers ? ofViewers.read() : list(query.source);
  });
};

export const registerWebhookCall = (deps: ConsoleApiDeps) =>
  actionCall(
    '/api/webhooks/register',
    z.strictObject({
      source,
      name: z.string().trim().min(1).max(100).default('sourcing-bridge'),
      url: httpsUrl.optional(),
    }),
    async ({ viewer, body }) => {
      requireAllFlows(viewer);
      if (body.url === undefined && deps.settings.port === 0)
        throw new AppError(
          'invalid',
          'The port of the webhook endpoint is not fixed (bridge.port is 0): name the URL.',
        );
      const url = body.url ?? webhookUrlOf(deps.settings, body.source);
      await deps.note(viewer, { what: 'webhook.register', object: `source ${body.source}`, details: { url } });
      return registerWebhook(webhookDeps(deps, body.source), { name: body.name, url });
    },
  );

export const rotateWebhooksCall = (deps: ConsoleApiDeps) =>
  actionCall('/api/webhooks/rotate', z.strictObject({ source }), async ({ viewer, body }) => {
    requireAllFlows(viewer);
    await deps.note(viewer, { what: 'webhook.rotate', object: `source ${body.source}` });
    return rotateWebhooks(webhookDeps(deps, body.source));
  });

export const testWebhooksCall = (deps: ConsoleApiDeps) =>
  actionCall('/api/webhooks/test', z.strictObject({ source }), async ({ viewer, body }): Promise<WebhookTestAnswer> => {
    requireAllFlows(viewer);
    await deps.note(viewer, { what: 'webhook.test', object: `source ${body.source}` });
    const signal = AbortSignal.timeout(2 * testMs);
    const testing = { ...webhookDeps(deps, body.source), fetch: deps.fetch };
    return { tested: await testWebhooks(testing, { uuid: undefined, timeoutMs: testMs, signal }) };
  });
