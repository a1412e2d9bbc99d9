/** Sourcing requests: what a company needs, before an event is created for it. Source: decisions, "Jobs". */
import { z } from 'zod';
import { shownFile } from './file.ts';
import { currencyCode, decimal, tag, text, timestamp, uuid } from './scalars.ts';

const item = z.strictObject({
  name: text(255, 1),
  description: text(1_000).optional(),
  quantity: decimal.optional(),
  unit: text(50).optional(),
  target_price: decimal.optional(),
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

/** A request as the desk shows it. */
const requestMembers = {
  id: uuid,
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

export const listedSourcingRequest = z
  .looseObject({ ...requestMembers, item_count: z.int() })
  .meta({ id: 'ListedSourcingRequest' });

export const sourcingRequest = z
  .looseObject({
    ...requestMembers,
    items: z.array(z.looseObject(item.shape)),
    files: z.array(shownFile),
  })
  .meta({ id: 'SourcingRequest' });
