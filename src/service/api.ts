/** The whole HTTP API of the service as one table. Method, path, scope and schemas stand with each endpoint. */
import { feedNames } from '#contract/feed.ts';
import type { Clock } from '#platform/clock.ts';
import type { FileStorage } from '#platform/file-storage.ts';
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
import { listSourcingRequests, readSourcingRequest } from './desk/read-sourcing-requests.ts';
import { removeAnswerFile } from './desk/remove-answer-file.ts';
import { reopenEvent } from './desk/reopen-event.ts';
import { submitAnswers } from './desk/submit-answers.ts';
import { submitBid } from './desk/submit-bid.ts';
import { unpublishEvent } from './desk/unpublish-event.ts';
import { withdrawBids } from './desk/withdraw-bids.ts';
import { readFeed } from './feeds/read-feed.ts';
import { uploadFile } from './files/upload-file.ts';
import { listJobs, readJob, readJobsOfType } from './jobs/read-jobs.ts';
import { submitJob, submitJobs } from './jobs/submit-job.ts';
import { listSupplierSubmissions, readSupplierSubmission } from './suppliers/read-supplier-submissions.ts';
import { listSuppliers, readSupplier } from './suppliers/read-suppliers.ts';
import { submitSupplierChange } from './suppliers/submit-supplier-change.ts';
import type { AccessTokens } from './webhooks/access-tokens.ts';
import { createWebhook } from './webhooks/create-webhook.ts';
import { deleteWebhook } from './webhooks/delete-webhook.ts';
import { listWebhooks, readWebhook } from './webhooks/read-webhooks.ts';
import { testWebhook } from './webhooks/test-webhook.ts';

interface Deps {
  clock: Clock;
  secrets: SecretBox;
  accessTokens: AccessTokens;
  storage: FileStorage;
}

/** Called with an organisation's API key: the public contract and the desk. */
export function organisationApi(deps: Deps): Endpoint<Caller>[] {
  return [
    listSuppliers,
    readSupplier,
    submitSupplierChange(deps),
    listSupplierSubmissions,
    readSupplierSubmission,

    ...submitJobs(deps),
    submitJob(deps),
    listJobs,
    ...readJobsOfType,
    readJob,

    ...feedNames.map(readFeed),

    createWebhook(deps),
    listWebhooks,
    readWebhook,
    deleteWebhook,
    testWebhook(deps),

    uploadFile(deps),
    listEvents,
    readEvent(deps),
    publishEvent(deps),
    unpublishEvent(deps),
    pauseEvent(deps),
    resumeEvent(deps),
    closeEvent(deps),
    reopenEvent(deps),
    deleteEvent(deps),
    addRound(deps),
    closeRound(deps),
    extendRound(deps),
    reopenRound(deps),
    inviteSuppliers(deps),
    submitBid(deps),
    withdrawBids(deps),
    editBids(deps),
    putBuyerValues(deps),
    putScenario(deps),
    awardEvent(deps),
    putQuestions(deps),
    submitAnswers(deps),
    removeAnswerFile(deps),
    listSourcingRequests,
    readSourcingRequest,
  ];
}

/** Called with the operator's token. */
export function operatorApi(deps: Pick<Deps, 'clock'>): Endpoint<Operator>[] {
  return [
    createOrganisation(deps),
    createApiKey(deps),
    listApiKeys,
    revokeApiKey(deps),
    putWebhookDomains,
    putAllowedNetworks,
    createSupplierAttribute,
    putLimits,
    listDeliveries,
    resendDelivery(deps),
  ];
}
