/**
 * The whole HTTP API of the service as one table: each route and its endpoint. The endpoint has the scope, the rate
 * limit and the schemas; `npm run docs:api` writes docs/api-table.md, which also shows scope and limit. If two routes
 * match a request, the first one answers.
 */
import { feedNames } from '#contract/feed.ts';
import type { Clock } from '#platform/clock.ts';
import type { Endpoint } from '#platform/http/endpoint.ts';
import type { SecretBox } from '#platform/secrets.ts';
import { createApiKey, listApiKeys, revokeApiKey } from './admin/api-keys.ts';
import { createOrganisation } from './admin/create-organisation.ts';
import { createSupplierAttribute } from './admin/create-supplier-attribute.ts';
import { listDeliveries } from './admin/list-deliveries.ts';
import { putAllowedNetworks, putWebhookDomains } from './admin/network-rules.ts';
import { putLimits } from './admin/put-limits.ts';
import { resendDelivery } from './admin/resend-delivery.ts';
import type { Caller, Operator } from './caller.ts';
import { awardEvent } from './desk/award-event.ts';
import { addRound, closeRound, extendRound, reopenRound } from './desk/change-rounds.ts';
import { closeEvent } from './desk/close-event.ts';
import { deleteEvent } from './desk/delete-event.ts';
import { editBids } from './desk/edit-bids.ts';
import { inviteSuppliers } from './desk/invite-suppliers.ts';
import { pauseEvent, resumeEvent } from './desk/pause-event.ts';
import { publishEvent } from './desk/publish-event.ts';
import { putBuyerValues } from './desk/put-buyer-values.ts';
import { putQuestions } from './desk/put-questions.ts';
import { putScenario } from './desk/put-scenario.ts';
import { listEvents, readEvent } from './desk/read-events.ts';
import { removeAnswerFile } from './desk/remove-answer-file.ts';
import { reopenEvent } from './desk/reopen-event.ts';
import { submitAnswers } from './desk/submit-answers.ts';
import { submitBid } from './desk/submit-bid.ts';
import { unpublishEvent } from './desk/unpublish-event.ts';
import { withdrawBids } from './desk/withdraw-bids.ts';
import { readFeed } from './feeds/read-feed.ts';
import type { FileStorage } from './files/storage/file-storage.ts';
import { uploadFile } from './files/upload-file.ts';
import { listJobs, readJob, readJobsOfType } from './jobs/read-jobs.ts';
import { submitJob, submitJobs } from './jobs/submit-job.ts';
import type { Profile } from './profile/profile.ts';
import { listManagedRequests, readManagedRequest } from './requests/read-managed-requests.ts';
import { listSupplierSubmissions, readSupplierSubmission } from './suppliers/read-supplier-submissions.ts';
import { listSuppliers, readSupplier } from './suppliers/read-suppliers.ts';
import { submitSupplierChange } from './suppliers/submit-supplier-change.ts';
import type { AccessTokens } from './webhooks/access-tokens.ts';
import { createWebhook } from './webhooks/create-webhook.ts';
import { deleteWebhook } from './webhooks/delete-webhook.ts';
import { listWebhookDeliveries } from './webhooks/list-webhook-deliveries.ts';
import { listWebhooks, readWebhook } from './webhooks/read-webhooks.ts';
import { resendWebhookDelivery } from './webhooks/resend-webhook-delivery.ts';
import { testWebhook } from './webhooks/test-webhook.ts';
import { updateWebhook } from './webhooks/update-webhook.ts';

interface Deps {
  clock: Clock;
  secrets: SecretBox;
  accessTokens: AccessTokens;
  storage: FileStorage;
  /** What the files of an organisation may have together, unless the operator says otherwise. */
  fileBytesMax: number;
  profile: Profile;
}

/**
 * The endpoints that are called with an organisation's API key, the public contract and the desk, as the profile has them.
 */
export function organisationApi(deps: Deps): Endpoint<Caller>[] {
  const endpoints = endpointsOf({
    'GET /api/manage/suppliers': listSuppliers,
    'GET /api/manage/suppliers/:external_id': readSupplier,
    'POST /api/manage/supplier_changes': submitSupplierChange(deps),
    'GET /api/manage/supplier_changes': listSupplierSubmissions,
    'GET /api/manage/supplier_changes/:uuid': readSupplierSubmission,
    'GET /api/manage/sourcing_requests': listManagedRequests,
    'GET /api/manage/sourcing_requests/:uuid': readManagedRequest,

    'POST /api/jobs/{type}': submitJobs(deps),
    'POST /api/jobs': submitJob(deps),
    'GET /api/jobs': listJobs,
    'GET /api/jobs/{type}/:id': readJobsOfType,
    'GET /api/jobs/:id': readJob,

    'GET /api/feeds/{feed}': feedNames.map((feed) => readFeed(feed, deps.profile.feeds)),

    'POST /api/webhooks': createWebhook(deps),
    'GET /api/webhooks': listWebhooks,
    'GET /api/webhooks/:uuid': readWebhook,
    'PATCH /api/webhooks/:uuid': updateWebhook(deps),
    'DELETE /api/webhooks/:uuid': deleteWebhook,
    'POST /api/webhooks/:uuid/test': testWebhook(deps),
    'GET /api/webhooks/:uuid/deliveries': listWebhookDeliveries,
    'POST /api/webhooks/:uuid/deliveries/:id/resend': resendWebhookDelivery(deps),

    'POST /desk/files': uploadFile(deps),
    'GET /desk/events': listEvents,
    'GET /desk/events/:id': readEvent(deps),
    'POST /desk/events/:id/publish': publishEvent(deps),
    'POST /desk/events/:id/unpublish': unpublishEvent(deps),
    'POST /desk/events/:id/pause': pauseEvent(deps),
    'POST /desk/events/:id/resume': resumeEvent(deps),
    'POST /desk/events/:id/close': closeEvent(deps),
    'POST /desk/events/:id/reopen': reopenEvent(deps),
    'POST /desk/events/:id/delete': deleteEvent(deps),
    'POST /desk/events/:id/rounds': addRound(deps),
    'POST /desk/events/:id/rounds/:number/close': closeRound(deps),
    'POST /desk/events/:id/rounds/:number/extend': extendRound(deps),
    'POST /desk/events/:id/rounds/:number/reopen': reopenRound(deps),
    'POST /desk/events/:id/invitations': inviteSuppliers(deps),
    'POST /desk/events/:id/bids': submitBid(deps),
    'POST /desk/events/:id/bids/withdraw': withdrawBids(deps),
    'PATCH /desk/events/:id/bids': editBids(deps),
    'PUT /desk/events/:id/buyer-values': putBuyerValues(deps),
    'PUT /desk/events/:id/scenarios/:name': putScenario(deps),
    'POST /desk/events/:id/award': awardEvent(deps),
    'PUT /desk/events/:id/questions': putQuestions(deps),
    'POST /desk/events/:id/answers': submitAnswers(deps),
    'DELETE /desk/events/:id/answers/:supplier/:question/files/:file': removeAnswerFile(deps),
  });
  return deps.profile.endpoints(endpoints);
}

/** The endpoints that are called with the operator's token. */
export function operatorApi(deps: Pick<Deps, 'clock' | 'fileBytesMax' | 'profile'>): Endpoint<Operator>[] {
  return endpointsOf({
    'POST /admin/organisations': createOrganisation(deps),
    'POST /admin/organisations/:id/api-keys': createApiKey(deps),
    'GET /admin/organisations/:id/api-keys': listApiKeys,
    'DELETE /admin/organisations/:id/api-keys/:keyId': revokeApiKey(deps),
    'PUT /admin/organisations/:id/webhook-domains': putWebhookDomains,
    'PUT /admin/organisations/:id/allowed-networks': putAllowedNetworks,
    'POST /admin/organisations/:id/supplier-attributes': createSupplierAttribute,
    'PUT /admin/organisations/:id/limits': putLimits(deps),
    'GET /admin/organisations/:id/deliveries': listDeliveries,
    'POST /admin/deliveries/:id/resend': resendDelivery(deps),
  });
}

/**
 * The endpoints of a table, in its order. A row has one endpoint, or several that differ in what stands in braces.
 * Throws for an endpoint that stands in the row of another route.
 */
function endpointsOf<Who>(table: Readonly<Record<string, Endpoint<Who> | readonly Endpoint<Who>[]>>): Endpoint<Who>[] {
  return Object.entries(table).flatMap(([route, given]) => {
    const endpoints = [given].flat();
    const form = new RegExp(`^${route.replaceAll(/\{\w+\}/g, '[^/]+')}$`);
    const wrong = endpoints.find(({ method, path }) => !form.test(`${method} ${path}`));
    if (wrong) throw new Error(`src/service/api.ts: ${wrong.method} ${wrong.path} stands in the row ${route}.`);
    return endpoints;
  });
}
