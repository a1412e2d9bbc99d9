/** The operator's commands under `/admin`: outside the public contract, but fixed. */
import { z } from 'zod';
import { text, timestamp } from './scalars.ts';

export const scopes = ['manage', 'jobs', 'feeds', 'webhooks', 'desk'] as const;
export type Scope = (typeof scopes)[number];

export const createOrganisationRequest = z.strictObject({ name: text(255, 1) });

export const createApiKeyRequest = z.strictObject({
  name: text(255, 1),
  scopes: z.array(z.enum(scopes)).default(['manage', 'jobs', 'feeds', 'webhooks']),
  expires_at: timestamp.optional(),
});

/** Each entry's form is checked by the network guard, which names the wrong one. */
export const webhookDomainsRequest = z.strictObject({ domains: z.array(text(255, 1)).max(1_000) });

export const allowedNetworksRequest = z.strictObject({ cidrs: z.array(text(64, 1)).max(1_000) });

export const createSupplierAttributeRequest = z.strictObject({ name: text(255, 1) });
