/** The operator's commands under `/admin`: outside the public contract, but fixed. */
import { z } from 'zod';
import { listOf, listQuery } from './list.ts';
import { email, text, timestamp, uuid } from './scalars.ts';

export const scopes = ['manage', 'jobs', 'feeds', 'webhooks', 'desk'] as const;
export type Scope = (typeof scopes)[number];

export const createOrganisationRequest = z.strictObject({ name: text(255, 1) });

export const organisationAnswer = z.looseObject({ id: uuid, name: z.string() });

const keyUser = z
  .strictObject({ name: text(255, 1), email })
  .describe('The person who uses the key: `created_by` and `roles` show that user.');

export const createApiKeyRequest = z.strictObject({
  name: text(255, 1),
  scopes: z.array(z.enum(scopes)).default(['manage', 'jobs', 'feeds', 'webhooks']),
  expires_at: timestamp.optional().describe('In the future.'),
  user: keyUser.optional(),
});

const shownUser = z.looseObject({ name: z.string(), email: z.string() });

/** This is the only answer that contains the key. */
export const createdApiKey = z.looseObject({
  id: uuid,
  name: z.string(),
  scopes: z.array(z.string()),
  key: z.string(),
  user: shownUser.optional(),
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

export const supplierAttributeAnswer = z.looseObject({ name: z.string() });

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
    .union([
      z.enum(deliveryStates),
      // `abort`: else zod takes the fault of this branch for that of the whole.
      z.string().regex(/^[1-5]\d\d$/, { abort: true, error: 'must be an HTTP status, such as 500' }),
    ])
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
