/** Sourcing requests: what a company needs, before an event is created for it. Source: decisions, "Jobs". */
import { z } from 'zod';
import { currencyCode } from './currency.ts';
import { listQuery } from './list.ts';
import { decimal, nonNegativeDecimal, tagList, text, timestamp, timestampInQuery, uuid } from './scalars.ts';

const item = z.strictObject({
  name: text(255, 1),
  description: text(1_000).optional(),
  quantity: decimal.optional(),
  unit: text(50).optional(),
  target_price: nonNegativeDecimal.optional(),
  currency: currencyCode.optional(),
});

/** A field of an item by the names of the public pages. */
const itemField = z.strictObject({ name: text(255, 1), value: text(10_000) });

const requestNameMax = 120;

/** A create payload as it is sent. */
export const sentSourcingRequest = z
  .strictObject({
    name: text(requestNameMax, 1)
      .optional()
      .describe(`Left out: the first ${requestNameMax} characters of \`description\`, which must then be there.`),
    description: text(1_000).default(''),
    reference_id: text(255).optional(),
    requested_by: text(255).optional(),
    needed_by: timestamp.optional(),
    category: text(255).optional(),
    tags: tagList.default([]),
    items: z.array(item).max(10_000).default([]),
    bot: uuid.optional().describe('Kept and shown: this service has no bots.'),
    bidding_deadline: timestamp.optional().describe('Kept and shown.'),
    item_fields: z
      .array(z.array(itemField).max(1_000))
      .max(10_000)
      .default([])
      .describe('Kept and shown: for each item its fields.'),
  })
  .meta({ id: 'CreateSourcingRequest' });

/** Reads a create payload: it has a name then. `Sent` is `sentSourcingRequest`, or has more members. */
export function asRequestPayload<Sent extends z.ZodType<z.output<typeof sentSourcingRequest>>>(schema: Sent) {
  return schema.transform((sent, context) => {
    // Not half of a character at the end.
    const name =
      sent.name ??
      sent.description
        .trim()
        .slice(0, requestNameMax)
        .replace(/[\uD800-\uDBFF]$/, '');
    if (name === '') context.addIssue({ code: 'custom', path: ['name'], message: 'is missing' });
    return { ...sent, name };
  });
}

/** What was sent of a request, and when it was created. */
const sentMembers = {
  name: z.string(),
  description: z.string(),
  reference_id: z.string().nullable(),
  requested_by: z.string().nullable(),
  needed_by: timestamp.nullable(),
  category: z.string().nullable(),
  tags: z.array(z.looseObject({ name: z.string(), value: z.string() })),
  bot: uuid.nullable(),
  bidding_deadline: timestamp.nullable(),
  created: timestamp,
  sourcing_events: z.array(uuid).describe('The events that serve it; deleted ones do not.'),
};

const shownItemFields = z.array(z.array(z.looseObject({ name: z.string(), value: z.string() })));

/** A request under `/api/manage`. */
export const managedSourcingRequest = z
  .looseObject({
    uuid,
    ...sentMembers,
    modified: timestamp.describe('When it was created, or files were last attached to it.'),
    items: z.array(z.looseObject(item.shape)),
    item_fields: shownItemFields,
    files: z.array(z.looseObject({ file_uuid: uuid, file_name: z.string() })),
  })
  .meta({ id: 'ManagedSourcingRequest' });

export const managedRequestsQuery = z.strictObject({
  ...listQuery,
  reference_id: text(255).optional().describe('Only requests with this reference.'),
  modified_after: timestampInQuery.optional().describe('Only requests created or given files at this time or later.'),
});
