/** The settings of a flow with this connector. */
import { secret, z } from 'sourcing-bridge/connector';

export const settings = z.strictObject({
  url: z.url({ protocol: /^https?$/ }).describe('The address of trytond, such as https://erp.example.com'),
  database: z
    .string()
    .regex(/^[\w.-]+$/u)
    .describe('The name of the database'),
  user: z.string().min(1).describe('The login of a Tryton user. `check` says which rights the user needs'),
  password: secret().describe("The user's password"),
  company: z
    .string()
    .min(1)
    .optional()
    .describe("Code or name of the company's party. Default: the company of the user"),
  ca_file: z
    .string()
    .min(1)
    .optional()
    .describe('PEM file of another certificate authority to trust. A relative path starts at the data directory'),

  awards: z
    .enum(['purchases', 'supplier-prices', 'both'])
    .default('purchases')
    .describe("What an award becomes: a purchase, prices of the product's supplier, or both"),
  purchase_state: z
    .enum(['draft', 'quotation', 'confirmed'])
    .default('draft')
    .describe('The state in which the connector leaves purchases'),
  requisition_intakes: z
    .array(z.string().min(1))
    .optional()
    .describe('The intakes whose requisitions are those of this Tryton. Default: all. [] links no requisition'),
  product: z.string().min(1).optional().describe('Code of the product of lines whose mapping names no product'),
  unit: z
    .string()
    .min(1)
    .optional()
    .describe("Symbol or name of the unit of lines whose mapping names no unit. Default: the product's unit"),
  warehouse: z.string().min(1).optional().describe('Code or name of the warehouse. Default: the only warehouse'),
  missing_supplier: z
    .enum(['create', 'reject'])
    .default('create')
    .describe('What to do with awards, bids and answers of a supplier that Tryton does not have'),
  rounding: z
    .enum(['refuse', 'half-up'])
    .default('refuse')
    .describe('What to do with a price or quantity that has more decimals than Tryton keeps'),
  quotation_state: z
    .enum(['draft', 'sent', 'received'])
    .default('received')
    .describe('The state in which the connector leaves quotations'),
  attach_to: z
    .enum(['supplier', 'quotation', 'purchase'])
    .default('supplier')
    .describe(
      'Where answers and files are attached. If the event and supplier have no quotation or purchase: the supplier',
    ),
  warnings: z
    .enum(['refuse', 'accept'])
    .default('refuse')
    .describe('What to do when Tryton warns and asks the user to confirm'),

  batch_size: z.int().min(1).max(500).default(50).describe('Maximum number of documents in one write'),
  timeout_seconds: z.int().min(5).max(3600).default(120).describe('Maximum duration of one write'),
  settle_seconds: z
    .int()
    .min(1)
    .max(86_400)
    .default(120)
    .describe(
      'How long Tryton may still work on a call that was cut off. Longer than the longest request of the server',
    ),

  read_overlap_seconds: z
    .int()
    .min(0)
    .max(86_400)
    .default(600)
    .describe(
      'How far a read looks back. Set it longer than the longest transaction and than the difference of the clocks',
    ),
  read_page: z.int().min(1).max(1_000).default(200).describe('Number of records in one page of a read'),
  supplier_category: z
    .string()
    .min(1)
    .optional()
    .describe('Only parties of this category are read as suppliers. Default: all parties with a code'),
});

export type Settings = z.output<typeof settings>;
