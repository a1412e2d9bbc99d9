/**
 * What the OpenAPI documents say of each operation besides its schemas: its name (verb and noun, for generated
 * clients), its group, and what a caller should know. The descriptions summarise the API document.
 */
import type { FeedName } from '#contract/feed.ts';
import { jobPathsOf, jobTypeNames } from '#contract/job.ts';
import type { Method } from '#platform/http/endpoint.ts';

interface Operation {
  readonly id: string;
  readonly tag: string;
  readonly description?: string;
  /** The API document's own spelling of the path, where it ends in a slash: a strict proxy compares it. */
  readonly listedAs?: string;
}

const job =
  'The body is checked first; then the job is taken, and worked on after the answer. Read it to see its end, or subscribe a webhook to `JOB_UPDATED`.';
const aboutFeeds =
  'Records come in the order in which they were added or changed, oldest first; a changed record moves to the end under its `id`. Follow `next` until it is null, and poll later with the last `modified` as `modified_after`.';

/** What a caller should know of one feed, besides what is true of all feeds. */
const feedNotes: Readonly<Record<FeedName, string>> = {
  'sourcing-events': '',
  'latest-bids':
    'A record with empty `bids` and empty `bid_sheet_values` is a bid that was withdrawn. Events in draft show no bids.',
  awards: 'Empty `awards`: no supplier won this lot, or its award was taken back.',
  'rfi-responses': 'One record for each supplier and answered question. Events in draft show none.',
};

const operations: Readonly<Record<string, Operation>> = {
  'GET /api/manage/suppliers': { id: 'list-suppliers', tag: 'Suppliers' },
  'GET /api/manage/suppliers/:external_id': { id: 'read-supplier', tag: 'Suppliers' },
  'POST /api/manage/supplier_changes': {
    id: 'submit-supplier-changes',
    tag: 'Suppliers',
    description:
      'A new `external_id` creates a supplier, a known one updates it. Contacts are matched by e-mail: a new one is added, another name renames, `delete: true` removes, and those left out stay. Attributes named in `fields` must exist. The submission is applied after the answer, supplier by supplier: one that cannot be applied is named in `state_errors`, and the others are applied.',
  },
  'GET /api/manage/supplier_changes': {
    id: 'list-supplier-changes',
    tag: 'Suppliers',
    listedAs: '/api/manage/supplier_changes/',
  },
  'GET /api/manage/supplier_changes/:uuid': { id: 'read-supplier-change', tag: 'Suppliers' },

  'GET /api/manage/sourcing_requests': {
    id: 'list-managed-requests',
    tag: 'Sourcing requests',
    description:
      'Newest first. Poll with `modified_after`: a request counts as modified when files are attached to it.',
  },
  'GET /api/manage/sourcing_requests/:uuid': { id: 'read-managed-request', tag: 'Sourcing requests' },

  ...Object.fromEntries(
    jobTypeNames.flatMap((type) =>
      jobPathsOf(type).flatMap((path, index) => {
        const id = `${type.toLowerCase().replaceAll('_', '-')}${index === 0 ? '' : '-too'}`;
        return [
          [`POST /api/jobs/${path}`, { id, tag: 'Jobs', description: job }],
          [`GET /api/jobs/${path}/:id`, { id: `read-${id}-job`, tag: 'Jobs' }],
        ];
      }),
    ),
  ),
  'POST /api/jobs': {
    id: 'submit-job',
    tag: 'Jobs',
    description: `\`type\` says which job it is; the other members are the payload of that type. ${job}`,
  },
  'GET /api/jobs': { id: 'list-jobs', tag: 'Jobs', description: 'Newest first.', listedAs: '/api/jobs/' },
  'GET /api/jobs/:id': { id: 'read-job', tag: 'Jobs' },

  ...Object.fromEntries(
    Object.entries(feedNotes).map(([feed, note]) => [
      `GET /api/feeds/${feed}`,
      { id: `read-${feed}`, tag: 'Feeds', description: note === '' ? aboutFeeds : `${aboutFeeds} ${note}` },
    ]),
  ),

  'POST /api/webhooks': {
    id: 'create-webhook',
    tag: 'Webhooks',
    description:
      'The `signing_key` (and the `standard_webhooks_key`) is in this answer and in no other. An organisation may have 50 webhooks unless the operator has set another number: 409 beyond. The host of `url` must be whitelisted by the operator. With `authentication` a token is fetched at once, and sent as bearer with each notification: where none can be had the creation fails with 400.',
  },
  'GET /api/webhooks': { id: 'list-webhooks', tag: 'Webhooks' },
  'GET /api/webhooks/:uuid': { id: 'read-webhook', tag: 'Webhooks' },
  'PATCH /api/webhooks/:uuid': {
    id: 'update-webhook',
    tag: 'Webhooks',
    description:
      'What is left out stays as it is. `authentication` replaces all parameters, and null removes them; a token is fetched at once, as at the creation. `is_active: true` resumes a disabled webhook: the newest notification of each trigger, which it has kept, is sent soon. `url` and `description` cannot be changed.',
  },
  'DELETE /api/webhooks/:uuid': {
    id: 'delete-webhook',
    tag: 'Webhooks',
    description: 'What waits to be delivered to it goes with it.',
  },
  'POST /api/webhooks/:uuid/test': {
    id: 'test-webhook',
    tag: 'Webhooks',
    description: 'Sends a `TEST` notification to this webhook, also if it does not subscribe to `TEST`.',
  },
  'GET /api/webhooks/:uuid/deliveries': {
    id: 'list-webhook-deliveries',
    tag: 'Webhooks',
    description:
      'What was sent to this webhook, when, and what came back; newest first. Deliveries are kept for a limited time.',
  },
  'POST /api/webhooks/:uuid/deliveries/:id/resend': {
    id: 'resend-webhook-delivery',
    tag: 'Webhooks',
    description:
      'Sends the same bytes again under the same `webhook-id`. A disabled webhook becomes active again, and what it has kept is sent, too.',
  },

  'POST /desk/files': { id: 'upload-file', tag: 'Files' },
  'GET /desk/events': { id: 'list-events', tag: 'Events' },
  'GET /desk/events/:id': {
    id: 'read-event',
    tag: 'Events',
    description: 'The live event, which the feeds may lag behind. `allowed` names the commands that its state permits.',
  },
  'POST /desk/events/:id/publish': { id: 'publish-event', tag: 'Events' },
  'POST /desk/events/:id/unpublish': { id: 'unpublish-event', tag: 'Events' },
  'POST /desk/events/:id/pause': { id: 'pause-event', tag: 'Events' },
  'POST /desk/events/:id/resume': { id: 'resume-event', tag: 'Events' },
  'POST /desk/events/:id/close': { id: 'close-event', tag: 'Events' },
  'POST /desk/events/:id/reopen': { id: 'reopen-event', tag: 'Events' },
  'POST /desk/events/:id/delete': { id: 'delete-event', tag: 'Events' },
  'POST /desk/events/:id/rounds': { id: 'add-round', tag: 'Rounds' },
  'POST /desk/events/:id/rounds/:number/close': { id: 'close-round', tag: 'Rounds' },
  'POST /desk/events/:id/rounds/:number/extend': { id: 'extend-round', tag: 'Rounds' },
  'POST /desk/events/:id/rounds/:number/reopen': { id: 'reopen-round', tag: 'Rounds' },
  'POST /desk/events/:id/invitations': { id: 'invite-suppliers', tag: 'Bids' },
  'POST /desk/events/:id/bids': { id: 'submit-bid', tag: 'Bids' },
  'POST /desk/events/:id/bids/withdraw': { id: 'withdraw-bids', tag: 'Bids' },
  'PATCH /desk/events/:id/bids': { id: 'edit-bids', tag: 'Bids' },
  'PUT /desk/events/:id/buyer-values': { id: 'set-buyer-values', tag: 'Bids' },
  'PUT /desk/events/:id/scenarios/:name': { id: 'save-scenario', tag: 'Awards' },
  'POST /desk/events/:id/award': { id: 'choose-scenario', tag: 'Awards' },
  'PUT /desk/events/:id/questions': { id: 'replace-questions', tag: 'RFI' },
  'POST /desk/events/:id/answers': { id: 'submit-answers', tag: 'RFI' },
  'DELETE /desk/events/:id/answers/:supplier/:question/files/:file': { id: 'remove-answer-file', tag: 'RFI' },

  'POST /admin/organisations': { id: 'create-organisation', tag: 'Organisations' },
  'POST /admin/organisations/:id/api-keys': {
    id: 'issue-api-key',
    tag: 'API keys',
    description: 'The key is in this answer and in no other.',
  },
  'GET /admin/organisations/:id/api-keys': { id: 'list-api-keys', tag: 'API keys' },
  'DELETE /admin/organisations/:id/api-keys/:keyId': { id: 'revoke-api-key', tag: 'API keys' },
  'PUT /admin/organisations/:id/webhook-domains': { id: 'set-webhook-domains', tag: 'Organisations' },
  'PUT /admin/organisations/:id/allowed-networks': { id: 'set-allowed-networks', tag: 'Organisations' },
  'POST /admin/organisations/:id/supplier-attributes': { id: 'create-supplier-attribute', tag: 'Organisations' },
  'PUT /admin/organisations/:id/limits': { id: 'set-limits', tag: 'Organisations' },
  'GET /admin/organisations/:id/deliveries': { id: 'list-deliveries', tag: 'Deliveries' },
  'POST /admin/deliveries/:id/resend': { id: 'resend-delivery', tag: 'Deliveries' },
};

/** Throws for an endpoint that is not described here: the document would have no name for it. */
export function operationOf(method: Method, path: string): Operation {
  const found = operations[`${method} ${path}`];
  if (!found) throw new Error(`${method} ${path} has no place in src/service/openapi/operations.ts.`);
  return found;
}

/** Every operation that is described, as `METHOD path`. */
export const describedOperations: readonly string[] = Object.keys(operations);
