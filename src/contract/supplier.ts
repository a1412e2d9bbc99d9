/** Suppliers and their asynchronous changes. Source: API document, "Supplier" and "Supplier change submission". */
import { z } from 'zod';
import { email, text, timestamp, uuid, valuesByName } from './scalars.ts';

export const externalId = text(255, 1);

const contactChange = z
  .strictObject({ name: text(255, 1).optional(), email, delete: z.boolean().optional() })
  .refine((contact) => contact.delete === true || contact.name !== undefined, {
    path: ['name'],
    message: 'a contact needs a name, unless it is deleted',
  });

const supplierChange = z.strictObject({
  external_id: externalId,
  name: text(255, 1).optional(),
  fields: valuesByName(text(10_000)).optional(),
  contacts: z.array(contactChange).max(1_000).optional(),
  archived: z.boolean().optional(),
});

export type SupplierChange = z.infer<typeof supplierChange>;

export const supplierChangeRequest = z.strictObject({
  change_data: z.strictObject({
    suppliers: z
      .array(supplierChange)
      .min(1)
      .max(1_000)
      .superRefine((suppliers, context) => {
        const seen = new Set<string>();
        for (const [index, supplier] of suppliers.entries()) {
          if (seen.has(supplier.external_id))
            context.addIssue({
              code: 'custom',
              path: [index, 'external_id'],
              message: `"${supplier.external_id}" stands twice in this submission`,
            });
          seen.add(supplier.external_id);
        }
      }),
  }),
});

export const supplierSubmission = z.looseObject({
  uuid,
  current_state: z.string(),
  state_errors: z.record(z.string(), z.unknown()),
  change_summary: z.array(z.looseObject({ header: z.string(), messages: z.array(z.string()) })).nullable(),
  change_warnings: z.array(z.unknown()).nullable(),
  last_changed: timestamp,
  url: z.string(),
});
