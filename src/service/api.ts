/** The whole HTTP API of the service as one table. Method, path, scope and schemas stand with each endpoint. */
import { feedNames } from '#contract/feed.ts';
import type { Clock } from '#platform/clock.ts';
import type { Endpoint } from '#platform/http/endpoint.ts';
import type { SecretBox } from '#platform/secrets.ts';
import { createApiKey, listApiKeys, revokeApiKey } from './admin/api-keys.ts';
import { createOrganisation } from './admin/create-organisation.ts';
import { createSupplierAttribute } from './admin/create-supplier-attribute.ts';
import { putAllowedNetworks, putWebhookDomains } from './admin/network-rules.ts';
import type { Caller, Operator } from './caller.ts';
import { awardEvent } from './desk/award-event.ts';
import { closeEvent } from './desk/close-event.ts';
import { publishEvent } from './desk/publish-event.ts';
import { putScenario } from './desk/put-scenario.ts';
import { listEvents, readEvent } from './desk/read-events.ts';
import { submitBid } from './desk/submit-bid.ts';
import { readFeed } from './feeds/read-feed.ts';
import { readJob } from './jobs/read-job.ts';
import { submitCreateSourcingEvent } from './jobs/submit-job.ts';
import { readSupplierSubmission } from './suppliers/read-supplier-submission.ts';
import { submitSupplierChange } from './suppliers/submit-supplier-change.ts';
import { createWebhook } from './webhooks/create-webhook.ts';
import { deleteWebhook } from './webhooks/delete-webhook.ts';
import { listWebhooks, readWebhook } from './webhooks/read-webhooks.ts';
import { testWebhook } from './webhooks/test-webhook.ts';

interface Deps {
  clock: Clock;
  secrets: SecretBox;
}

/** Called with an organisation's API key: the public contract and the desk. */
export function organisationApi(deps: Deps): Endpoint<Caller>[] {
  return [
    submitSupplierChange(deps),
    readSupplierSubmission,

    submitCreateSourcingEvent(deps),
    readJob,

    ...feedNames.map(readFeed),

    createWebhook(deps),
    listWebhooks,
    readWebhook,
    deleteWebhook,
    testWebhook(deps),

    listEvents,
    readEvent,
    publishEvent(deps),
    submitBid(deps),
    putScenario(deps),
    awardEvent(deps),
    closeEvent(deps),
  ];
}

/** Called with the operator's token. */
export function operatorApi(deps: Deps): Endpoint<Operator>[] {
  return [
    createOrganisation(deps),
    createApiKey(deps),
    listApiKeys,
    revokeApiKey(deps),
    putWebhookDomains,
    putAllowedNetworks,
    createSupplierAttribute,
  ];
}
