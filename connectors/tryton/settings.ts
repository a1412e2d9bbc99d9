/** What a flow may say about its Tryton. */
import { secret, z } from 'sourcing-bridge/connector';

export const settings = z.strictObject({
  url: z.url({ protocol: /^https?$/ }).describe('Where trytond answers, as https://erp.example.com'),
  database: z
    .string()
    .regex(/^[\w.-]+$/u)
    .describe("The database's name"),
  user: z.string().min(1).describe('The login of a Tryton user with the rights that check names'),
  password: secret().describe("That user's password"),
  company: z
    .string()
    .min(1)
    .optional()
    .describe("The company's party, by code or name; left out: the company that the user works for"),
  ca_file: z
    .string()
    .min(1)
    .optional()
    .describe('PEM of an authority to trust beside the usual ones; a relative path starts at the data directory'),

  awards: z
    .enum(['purchases', 'supplier-prices', 'both'])
    .default('purchases')
    .describe("What an award becomes: a purchase, prices at the product's supplier, or both"),
  purchase_state: z.enum(['draft', 'quotation']).default('draft').describe('The state in which purchases are left'),
  product: z.string().min(1).optional().describe('The code of the product of lines whose mapping names none'),
  unit: z
    .string()
    .min(1)
    .optional()
    .describe("Symbol or name of the unit of lines whose mapping names none; left out: the product's"),
  warehouse: z.string().min(1).optional().describe('Code or name; left out: the only one'),
  missing_supplier: z
    .enum(['create', 'reject'])
    .default('create')
    .describe('What is done with the award, bids or answers of a supplier that Tryton does not have'),
  rounding: z
    .enum(['refuse', 'half-up'])
    .default('refuse')
    .describe('What is done with a price or quantity of more decimals than Tryton takes'),
  quotation_state: z.enum(['draft', 'sent', 'received']).default('received').describe('The state of quotations'),
  attach_to: z
    .enum(['supplier', 'quotation', 'purchase'])
    .default('supplier')
    .describe(
      'Where answers and files are attached; where there is no quotation or purchase of the pair: the supplier',
    ),
  warnings: z
    .enum(['refuse', 'accept'])
    .default('refuse')
    .describe("What is done with Tryton's warnings, which a user would confirm"),

  batch_size: z.int().min(1).max(500).default(50).describe('Most documents in one write'),
  timeout_seconds: z.int().min(5).max(3600).default(120).describe('Longest time of one write'),
  settle_seconds: z
    .int()
    .min(1)
    .max(86_400)
    .default(120)
    .describe('Longer than the longest request that the server may still be working on after the bridge has hung up'),

  read_overlap_seconds: z
    .int()
    .min(0)
    .max(86_400)
    .default(600)
    .describe("How far a read looks back: longer than the longest transaction, and than the machines' clocks differ"),
  read_page: z.int().min(1).max(1_000).default(200).describe('Records in one page of a read'),
  supplier_category: z
    .string()
    .min(1)
    .optional()
    .describe('Only parties of this category are read as suppliers; left out: all that have a code'),
});

export type Settings = z.output<typeof settings>;
