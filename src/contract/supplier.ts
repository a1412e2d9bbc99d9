/** Suppliers and their asynchronous changes. Source: API document, "Supplier" and "Supplier change submission". */
import { z } from 'zod';
import { listQuery } from './list.ts';
import { email, onceInList, text, timestamp, timestampInQuery, uuid, valuesByName } from './scalars.ts';

export const externalId = text(255, 1);

/** The most attributes that one change sets. */
const attributesMax = 1_000;

const contactChange = z
  .strictObject({
    name: text(255, 1).optional().describe('Needed unless the contact is deleted.'),
    email: email.describe('Identifies the contact within its supplier; upper and lower case are the same.'),
    delete: z.boolean().optional().describe('Removes the contact.'),
  })
  .refine((contact) => contact.delete === true || contact.name !== undefined, {
    path: ['name'],
    message: 'a contact needs a name, unless it is deleted',
  })
  .meta({ id: 'ContactChange' });

const supplierChange = z
  .strictObject({
    external_id: externalId.describe('Of the supplier that is created or updated; once in a submission.'),
    name: text(255, 1).optional(),
    fields: valuesByName(text(10_000), attributesMax)
      .optional()
      .describe('Values by attribute; the attributes must exist.'),
    contacts: z.array(contactChange).max(1_000).optional().describe('Those left out stay as they are.'),
    archived: z.boolean().optional(),
  })
  .meta({ id: 'SupplierChange' });

export type SupplierChange = z.infer<typeof supplierChange>;

export const supplierChangeRequest = z
  .strictObject({
    change_data: z.strictObject({
      suppliers: z
        .array(supplierChange)
        .min(1)
        .max(1_000)
        .superRefine(onceInList('external_id', (id) => `"${id}" stands twice in this submission`)),
    }),
  })
  .meta({ id: 'SupplierChangeRequest' });

/** A supplier in an answer. */
export const supplier = z
  .looseObject({
    external_id: z.string(),
    name: z.string(),
    fields: z.record(z.string(), z.string()),
    archived: z.boolean(),
    contacts: z.array(z.looseObject({ name: z.string(), email: z.string() })),
  })
  .meta({ id: 'Supplier' });

export const listSuppliersQuery = z.strictObject({
  ...listQuery,
  archived: z
    .enum(['true', 'false'])
    .transform((flag) => flag === 'true')
    .meta({ type: 'boolean' })
    .optional()
    .describe('only suppliers that are in the archive, or only those that are not'),
  name: text(255, 1).optional().describe('the whole name, in the same upper and lower case'),
  external_id: externalId.optional().describe('the whole identifier'),
  modified_after: timestampInQuery.optional().describe('suppliers changed at this time or later'),
});

export const submissionReceipt = z.looseObject({ url: z.string(), uuid }).meta({ id: 'SubmissionReceipt' });

const note = z.looseObject({ header: z.string(), messages: z.array(z.string()) }).meta({ id: 'SubmissionNote' });

export const supplierSubmission = z
  .looseObject({
    uuid,
    current_state: z.string().describe('`UNPROCESSED`, then `PROCESSED`.'),
    state_errors: z.record(z.string(), z.unknown()).describe('By `external_id`; empty when there are no errors.'),
    change_summary: z.array(note).nullable().describe('One for each supplier, once it is processed.'),
    change_warnings: z.array(z.unknown()).nullable(),
    created_by: uuid.optional().describe('The user of the API key that sent it; of a key without a user, the key.'),
    user_name: z.string().optional().describe('The name of that user or key.'),
    last_changed: timestamp,
    url: z.string(),
    organisation: uuid.optional(),
    state: z
      .looseObject({
        current: z.string(),
        errors: z.record(z.string(), z.unknown()),
        is_transitioning: z.boolean().describe('True until it is processed.'),
        attempts: z.int().describe('How often it was processed: 0 or 1.'),
        parameters: z.looseObject({}),
      })
      // A name of its own: generators that make names from places made one of `state.errors` and `state_errors`.
      .meta({ id: 'SubmissionState' })
      .optional(),
    change_type: z.string().optional(),
  })
  .meta({ id: 'SupplierChangeSubmission' });

/** A supplier as `include=suppliers` shows it. */
export const includedSupplier = z
  .looseObject({
    id: uuid,
    name: z.string(),
    external_id: z.string().optional(),
    bidder_contacts: z
      .array(z.looseObject({ name: z.string(), email: z.string(), invitation_state: z.string() }))
      .describe('The contacts that were invited to bid in the events of the page.'),
    contacts: z.array(z.looseObject({ id: uuid, name: z.string(), email: z.string() })),
  })
  .meta({ id: 'IncludedSupplier' });
