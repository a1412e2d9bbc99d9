/** The operator's commands under `/admin`: outside the public contract, but fixed. */
import { z } from 'zod';
import { listOf, listQuery } from './list.ts';
import { email, text, timestamp, uuid } from './scalars.ts';
import { externalId } from './supplier.ts';

export const scopes = ['manage', 'jobs', 'feeds', 'webhooks', 'desk'] as const;
export type Scope = (typeof scopes)[number];

export const createOrganisationRequest = z.strictObject({ name: text(255, 1) });

export const organisationAnswer = z.looseObject({ id: uuid, name: z.string() });

const keyUser = z
  .strictObject({ name: text(255, 1), email })
  .describe('The person who uses the key: `created_by` and `roles` show that user.');

const deskSide = z
  .discriminatedUnion('as', [
    z.strictObject({ as: z.literal('buyer') }),
    z.strictObject({ as: z.literal('supplier'), supplier: externalId.describe('Its `external_id`.') }),
  ])
  .describe(
    'Narrows the scope `desk`: to what buyers do, or to what one supplier does and sees. Left out: everything, in the name ' +
      'of the buyer and of every supplier.',
  );

const shownDeskSide = z.looseObject({ as: z.string(), supplier: z.string().optional() });

export const createApiKeyRequest = z.strictObject({
  name: text(255, 1),
  scopes: z.array(z.enum(scopes)).default(['manage', 'jobs', 'feeds', 'webhooks']),
  expires_at: timestamp.optional().describe('In the future.'),
  user: keyUser.optional(),
  desk: deskSide.optional(),
});

export type DeskSideRequest = z.infer<typeof deskSide>;

const shownUser = z.looseObject({ name: z.string(), email: z.string() });

/** This is the only answer that contains the key. */
export const createdApiKey = z.looseObject({
  id: uuid,
  name: z.string(),
  scopes: z.array(z.string()),
  key: z.string(),
  user: shownUser.optional(),
  desk: shownDeskSide.optional(),
});

export const apiKeyList = listOf(
  z.looseObject({
    id: uuid,
    name: z.string(),
    scopes: z.array(z.string()),
    created: timestamp,
    expires_at: timestamp.nullable(),
    revoked_at: timestamp.nullable(),
    user: shownUser.nullable(),
    desk: shownDeskSide.nullable(),
    last_used: z
      .looseObject({ time: timestamp, address: z.string().nullable() })
      .nullable()
      .describe('The last call with the key, to about a minute; null before the first.'),
  }),
);

/** The network guard checks the form of each entry, and names a wrong entry. */
export const webhookDomainsRequest = z.strictObject({ domains: z.array(text(255, 1)).max(1_000) });

export const allowedNetworksRequest = z.strictObject({ cidrs: z.array(text(64, 1)).max(1_000) });

export const createSupplierAttributeRequest = z.strictObject({ name: text(255, 1) });

export const supplierAttributeAnswer = z.looseObject({ id: uuid, name: z.string() });

const days = z.int().min(1).max(36_500).optional();

/** What is left out is the setting of the service. */
export const retentionRequest = z
  .strictObject({
    submission_days: days.describe('Supplier submissions, from when they were processed.'),
    job_payload_days: days.describe('What was sent with a job, from its creation; the job itself stays.'),
    delivery_log_days: days.describe('Finished deliveries of webhooks with their attempts.'),
    event_days: days.describe(
      'Bids, scenarios, answers and contacts of events, from their closing. The event and what the feeds show of it stay.',
    ),
    file_days: days.describe('Files, from their upload, unless an event that is not closed has them.'),
  })
  .meta({ id: 'RetentionRequest' });

export type RetentionRequest = z.infer<typeof retentionRequest>;

/** What is in force. */
export const retentionAnswer = z
  .looseObject({
    submission_days: z.int(),
    job_payload_days: z.int(),
    delivery_log_days: z.int(),
    event_days: z.int().nullable().describe('Null: for ever.'),
    file_days: z.int().nullable().describe('Null: for ever.'),
  })
  .meta({ id: 'Retention' });

/** The states of a notification; `pending` waits for its next attempt. */
const deliveryStates = ['pending', 'sending', 'delivered', 'failed', 'superseded'] as const;

/** Of one webhook. */
export const webhookDeliveriesQuery = z.strictObject({
  ...listQuery,
  /**
   * A state of the delivery, or the HTTP status of its newest attempt. `failed` also finds deliveries that failed and
   * will be attempted again.
   */
  status: z
    .union([z.enum(deliveryStates), z.string().regex(/^[1-5]\d\d$/)], {
      error: `must be one of ${deliveryStates.join(', ')}, or an HTTP status such as 500`,
    })
    .optional(),
});

/** Of all webhooks of an organisation, or of one. */
export const deliveriesQuery = webhookDeliveriesQuery.extend({ webhook: uuid.optional() });

const attempt = z.looseObject({
  time: timestamp,
  status: z.int().nullable().describe("The receiver's; null when no answer came, and `error` says why."),
  duration_ms: z.int(),
  error: z.string().nullable(),
  response_excerpt: z.string().nullable(),
});

/** A notification with its attempts, oldest first. Its own `time`, `status` etc. are those of the newest attempt. */
export const deliveryList = listOf(
  attempt.partial().extend({
    id: uuid,
    webhook: uuid,
    trigger: z.string(),
    state: z.enum(deliveryStates),
    created: timestamp,
    due: timestamp.optional().describe('When the next attempt is made.'),
    attempts: z.array(attempt.extend({ number: z.int() })),
  }),
);

export const resentDelivery = z.looseObject({ id: uuid, webhook: uuid, state: z.enum(deliveryStates) });

export const createOperatorRequest = z.strictObject({
  name: text(255, 1).describe('Stands in the audit log.'),
  expires_at: timestamp.optional().describe('In the future.'),
});

/** This is the only answer that contains the token. */
export const createdOperator = z.looseObject({ id: uuid, name: z.string(), token: z.string() });

export const operatorList = listOf(
  z.looseObject({
    id: uuid,
    name: z.string(),
    created: timestamp,
    expires_at: timestamp.nullable(),
    revoked_at: timestamp.nullable(),
    replaces_setting: z.boolean().describe('It took the place of the token of the settings.'),
  }),
);
