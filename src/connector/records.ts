/**
 * Records: what a connector reads from its ERP for the sourcing service, in the service's terms. As in documents,
 * unknown values are left out, never null. Sources: API document, "Supplier change submission"; decisions, "Jobs"
 * (sourcing request).
 */
import { z } from 'zod';

const decimal = z.string().meta({ pattern: '^-?\\d+(\\.\\d+)?$' });

const supplierRecord = z
  .strictObject({
    external_id: z.string().min(1).max(255).describe("The ERP's number of the supplier"),
    name: z.string().min(1).max(255),
    archived: z.boolean().describe('Blocked or deactivated in the ERP'),
    fields: z
      .record(z.string(), z.string().max(10_000))
      .describe("Further values, by the service's attribute name or the ERP's own name"),
    contacts: z
      .array(z.strictObject({ name: z.string().min(1).max(255), email: z.string() }))
      .describe('All contacts that the ERP has'),
  })
  .describe('A supplier as the ERP holds it now.');

const requisitionItem = z.strictObject({
  name: z.string().min(1).max(255),
  description: z.string().max(1_000).optional(),
  quantity: decimal.optional(),
  unit: z.string().max(50).optional(),
  target_price: decimal.optional(),
  currency: z.string().optional().describe('ISO 4217'),
});

const requisitionRecord = z
  .strictObject({
    reference_id: z.string().min(1).max(255).describe("The ERP's number of the requisition"),
    name: z.string().min(1).max(120),
    description: z.string().max(1_000).optional(),
    requested_by: z.string().max(255).optional(),
    needed_by: z.string().meta({ format: 'date-time' }).optional().describe('UTC with microseconds'),
    category: z.string().max(255).optional(),
    tags: z.array(z.strictObject({ name: z.string(), value: z.string() })),
    items: z.array(requisitionItem).max(10_000),
    open: z.boolean().describe('Whether it is still to be sourced'),
  })
  .describe('What the company needs, as the ERP holds it now.');

/** The schema of each stream's records. */
export const recordSchemas = { supplier: supplierRecord, requisition: requisitionRecord } as const;

export type SupplierRecord = z.infer<typeof supplierRecord>;
export type RequisitionRecord = z.infer<typeof requisitionRecord>;

export const readStreams = ['supplier', 'requisition'] as const;
export type ReadStream = (typeof readStreams)[number];
export type RecordOf<Stream extends ReadStream> = z.infer<(typeof recordSchemas)[Stream]>;

export interface ReadPage<Stream extends ReadStream = ReadStream> {
  readonly records: readonly RecordOf<Stream>[];
  /** Where a later read continues; text that only this connector understands. */
  readonly checkpoint: string;
}
