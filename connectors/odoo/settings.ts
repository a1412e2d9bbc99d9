/** The settings of a flow with this connector. */
import { secret, z } from 'sourcing-bridge/connector';

export const settings = z.strictObject({
  url: z.url({ protocol: /^https?$/ }).describe('The address of Odoo, such as https://erp.example.com'),
  database: z
    .string()
    .regex(/^[\w.-]+$/u)
    .describe('The name of the database'),
  api_key: secret().describe(
    'An API key of the Odoo user that only the bridge uses. `check` says which rights it needs',
  ),
  company: z.string().min(1).optional().describe("Name of the company that orders. Default: the user's own company"),
  ca_file: z
    .string()
    .min(1)
    .optional()
    .describe('PEM file of another certificate authority to trust. A relative path starts at the data directory'),

  awards: z
    .enum(['orders', 'pricelists', 'blanket-orders'])
    .default('orders')
    .describe("What an award becomes: a purchase order, prices in the vendor's pricelist, or a blanket order"),
  order_state: z
    .enum(['draft', 'confirmed'])
    .default('draft')
    .describe(
      'The state in which the connector leaves orders and blanket orders of awards. Confirmed orders follow a changed award only with confirmed, as long as nothing was received or billed',
    ),
  alternatives: z
    .enum(['cancel', 'keep'])
    .default('cancel')
    .describe("What becomes of an event's other requests for quotation when one of them is awarded"),
  product: z
    .string()
    .min(1)
    .optional()
    .describe('The internal reference of the product of lines whose mapping names none'),
  warehouse: z
    .string()
    .min(1)
    .optional()
    .describe("Name of the warehouse that receives the goods. Default: the company's first"),
  match: z
    .array(z.enum(['vat', 'name', 'email']))
    .default([])
    .describe(
      'How a contact without a reference is found for a supplier, in this order; only a single match counts. It gets the reference then',
    ),
  missing_supplier: z
    .enum(['wait', 'create'])
    .default('wait')
    .describe(
      'What to do with awards, bids and answers of a supplier that Odoo does not have: wait until it has, or create the contact, whose country, and with it the taxes of the orders, is then not known',
    ),
  batch_size: z.int().min(1).max(200).default(20).describe('Maximum number of documents in one write'),
  timeout_seconds: z.int().min(5).max(3600).default(120).describe('Maximum duration of one write'),
  settle_seconds: z
    .int()
    .min(1)
    .max(86_400)
    .default(120)
    .describe("How long Odoo may still work on a call that was cut off: at least the server's limit_time_real"),

  read_page: z.int().min(1).max(1_000).default(200).describe('Number of records in one page of a read'),
});

export type Settings = z.output<typeof settings>;
