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
  line: z
    .string()
    .min(1)
    .max(100)
    .describe("The ERP's number of the line; unique in the requisition, and never reused"),
  name: z.string().min(1).max(255),
  description: z.string().max(1_000).optional(),
  quantity: decimal.optional(),
  unit: z.string().max(50).optional(),
  target_price: decimal.optional(),
  currency: z.string().optional().describe('ISO 4217'),
  needed_by: z
    .string()
    .meta({ format: 'date-time' })
    .optional()
    .describe("UTC with microseconds; left out where it is the requisition's"),
});

/** Base64 of five megabytes: what the files of one requisition may have together. */
const filesLengthMax = 7_000_000;

const requisitionFile = z.strictObject({
  file_name: z.string().min(1).max(255),
  content_type: z.string().max(255).optional(),
  content: z.string().max(filesLengthMax).optional().describe('Base64; left out where the file has a URL'),
  url: z.string().max(2_000).optional().describe('https, which the service can reach; left out where it has content'),
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
    items: z
      .array(requisitionItem)
      .max(10_000)
      .refine((items) => new Set(items.map(({ line }) => line)).size === items.length, {
        message: 'two items have the same line',
      })
      .describe('The lines that are to be sourced, in their order; of a requisition that is not open, perhaps none'),
    files: z
      .array(requisitionFile)
      .max(20)
      .refine((files) => files.every(({ content, url }) => (content === undefined) !== (url === undefined)), {
        message: 'each file has either content or a url',
      })
      .refine((files) => files.reduce((sum, { content = '' }) => sum + content.length, 0) <= filesLengthMax, {
        message: 'the files have more than 5 MB together',
      })
      .optional()
      .describe('Left out where there are none'),
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

/** An entry of the ERP that is no record: a line of a file that cannot be read, a row without a name. */
export interface RecordFault {
  /** Where a person finds it: `vendors.csv, line 17`. */
  readonly where: string;
  /** The ERP's number, where it has one. */
  readonly key?: string | undefined;
  readonly why: string;
}

export interface ReadPage<Stream extends ReadStream = ReadStream> {
  readonly records: readonly RecordOf<Stream>[];
  /** What the page would have had besides its records; the bridge shows each of them to a person. */
  readonly faults?: readonly RecordFault[];
  /** Where a later read continues; text that only this connector understands. */
  readonly checkpoint: string;
}
