/** Sourcing requests: what a company needs, before an event is created for it. Source: decisions, "Jobs". */
import { z } from 'zod';
import { currencyCode } from './currency.ts';
import { shownFile } from './file.ts';
import { listQuery } from './list.ts';
import { decimal, nonNegativeDecimal, tag, text, timestamp, timestampInQuery, uuid } from './scalars.ts';

const item = z.strictObject({
  name: text(255, 1),
  description: text(1_000).optional(),
  quantity: decimal.optional(),
  unit: text(50).optional(),
  target_price: nonNegativeDecimal.optional(),
  currency: currencyCode.optional(),
});

export const createSourcingRequestPayload = z
  .strictObject({
    name: text(120, 1),
    description: text(1_000).default(''),
    reference_id: text(255).optional(),
    requested_by: text(255).optional(),
    needed_by: timestamp.optional(),
    category: text(255).optional(),
    tags: z.array(tag).max(100).default([]),
    items: z.array(item).max(10_000).default([]),
  })
  .meta({ id: 'CreateSourcingRequest' });

/** What was sent of a request, and when it was created. */
const sentMembers = {
  name: z.string(),
  description: z.string(),
  reference_id: z.string().nullable(),
  requested_by: z.string().nullable(),
  needed_by: timestamp.nullable(),
  category: z.string().nullable(),
  tags: z.array(z.looseObject({ name: z.string(), value: z.string() })),
  created: timestamp,
  sourcing_events: z.array(uuid).describe('The events that serve it; deleted ones do not.'),
};

/** A request as the desk shows it. */
const requestMembers = { id: uuid, ...sentMembers };

export const listedSourcingRequest = z
  .looseObject({ ...requestMembers, item_count: z.int() })
  .meta({ id: 'ListedSourcingRequest' });

export const sourcingRequest = z
  .looseObject({
    ...requestMembers,
    items: z.array(
      z.looseObject({ ...item.shape, target_price: z.string().optional(), currency: z.string().optional() }),
    ),
    files: z.array(shownFile),
  })
  .meta({ id: 'SourcingRequest' });

/** A request under `/api/manage`. */
export const managedSourcingRequest = z
  .looseObject({
    uuid,
    ...sentMembers,
    modified: timestamp.describe('When it was created, or files were last attached to it.'),
    items: z.array(z.looseObject(item.shape)),
    files: z.array(z.looseObject({ file_uuid: uuid, file_name: z.string() })),
  })
  .meta({ id: 'ManagedSourcingRequest' });

export const managedRequestsQuery = z.strictObject({
  ...listQuery,
  reference_id: text(255).optional().describe('Only requests with this reference.'),
  modified_after: timestampInQuery.optional().describe('Only requests created or given files at this time or later.'),
});
