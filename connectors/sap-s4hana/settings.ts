/** The settings of a flow with this connector. Their names are those of SAP's own screens, in small letters. */
import { secret, z } from 'sourcing-bridge/connector';

const code = (length: number) =>
  z.string().regex(new RegExp(`^[\\w.+ /-]{1,${length}}$`, 'u'), `1 to ${length} characters`);

const oauth = z.strictObject({
  token_url: z.url({ protocol: /^https?$/ }).describe('The token endpoint, as the communication arrangement shows it'),
  client_id: z.string().min(1).describe('The id of the OAuth client'),
  client_secret: secret().describe('The secret of the OAuth client'),
  scope: z.string().min(1).optional().describe('The scope to ask for. Default: none'),
});

export const settings = z
  .strictObject({
    url: z.url({ protocol: /^https?$/ }).describe('The address of SAP, such as https://my300000-api.s4hana.cloud.sap'),
    service_path: z
      .string()
      .regex(/^\/[\w./-]*[\w]$/u)
      .default('/sap/opu/odata/sap')
      .describe('Where the OData V2 services are'),
    client: z
      .string()
      .regex(/^\d{3}$/u)
      .optional()
      .describe('The SAP client (sap-client), such as 100. Default: the default client of the system'),
    language: z
      .string()
      .regex(/^[A-Z]{2}$/u)
      .default('EN')
      .describe('The language of texts and messages (sap-language)'),
    user: z.string().min(1).optional().describe('The communication user, for a login with a password'),
    password: secret().optional().describe('The password of the communication user'),
    oauth: oauth.optional().describe('A login by OAuth 2.0 client credentials, instead of user and password'),
    client_certificate_file: z
      .string()
      .min(1)
      .optional()
      .describe('PEM file of the client certificate and its private key, for a login by certificate'),
    ca_file: z
      .string()
      .min(1)
      .optional()
      .describe('PEM file of another certificate authority to trust. A relative path starts at the data directory'),

    company_code: code(4).describe('Company code of orders, such as 1010'),
    purchasing_organization: code(4).describe('Purchasing organization, such as 1010'),
    purchasing_group: code(3).describe('Purchasing group, such as 001'),
    awards: z
      .enum(['purchase-orders', 'contracts', 'info-records'])
      .default('purchase-orders')
      .describe('What an award becomes: a purchase order, a purchase contract, or prices in info records'),
    purchase_orders: z
      .enum(['v2', 'v4'])
      .optional()
      .describe(
        "Version of SAP's service for purchase orders. Default: v4 where the system has it and can change texts of orders, else v2",
      ),
    order_type: code(4).default('NB').describe('Type of purchase orders'),
    contract_type: code(4).default('MK').describe('Type of purchase contracts, such as MK (quantity contract)'),
    validity_days: z
      .int()
      .min(1)
      .max(36_500)
      .default(365)
      .describe('How long contracts and prices are valid whose mapping names no valid_to'),
    price_condition_type: code(4)
      .default('PPR0')
      .describe('Condition type of the gross price in info records: PPR0, or PB00 in older systems'),
    plant: code(4).optional().describe('Plant of lines whose mapping names none'),
    material_group: code(9).optional().describe('Material group of lines without a material'),
    account_assignment_category: code(1)
      .optional()
      .describe('Account assignment category of lines whose mapping names none, such as K (cost center)'),
    cost_center: code(10).optional().describe('Cost center of lines with an account assignment'),
    gl_account: code(10).optional().describe('G/L account of lines with an account assignment'),
    tax_code: code(2).optional().describe('Tax code of lines whose mapping names none'),
    unit: z.string().min(1).default('PC').describe('Unit of lines whose mapping names neither a unit nor a material'),
    units: z
      .record(z.string(), code(3))
      .default({})
      .describe(
        "SAP's units (at most 3 characters) by the unit of the bid sheet, in addition to the ISO codes that are known",
      ),
    note_type: code(4)
      .default('F02')
      .describe("Text of the order's header with the connector's record of what it wrote; it must not be printed"),
    item_text_type: code(4).default('F01').describe("Text of an item with the lot's whole name"),
    requisition_text_type: code(4)
      .default('B02')
      .describe("Text of a requisition's items that shows what became of it; it must not be printed on orders"),
    supplier_grouping: code(4)
      .optional()
      .describe('Grouping (number range) of new business partners. Default: that of SAP'),
    supplier_roles: z
      .array(code(6))
      .min(1)
      .default(['FLVN00', 'FLVN01'])
      .describe('Roles of new business partners: supplier in financial accounting, and supplier'),
    supplier_country: code(3)
      .optional()
      .describe(
        'Country of suppliers whose mapping names none. Without either they get no address, and no e-mail addresses',
      ),
    supplier_currency: code(5)
      .optional()
      .describe('Order currency of new suppliers whose mapping names none, such as EUR'),
    reconciliation_account: code(10)
      .optional()
      .describe('Reconciliation account of new suppliers in the company code whose mapping names none'),

    batch_size: z.int().min(1).max(50).default(20).describe('Maximum number of documents in one write'),
    connections: z.int().min(1).max(20).default(4).describe('Maximum number of requests at once'),
    timeout_seconds: z.int().min(5).max(3600).default(180).describe('Maximum duration of one write'),
    settle_seconds: z
      .int()
      .min(1)
      .max(86_400)
      .default(600)
      .describe(
        'How long SAP may still work on a call that was cut off. Not shorter than its limit for a dialog step (rdisp/max_wprun_time)',
      ),
    read_page: z.int().min(1).max(1_000).default(200).describe('Number of records in one page of a read'),
  })
  .superRefine(({ user, password, oauth, client_certificate_file }, context) => {
    if ((user === undefined) !== (password === undefined))
      context.addIssue({
        code: 'custom',
        path: [user === undefined ? 'user' : 'password'],
        message: 'user and password are set together',
      });
    const logins = [user, oauth, client_certificate_file].filter((login) => login !== undefined).length;
    if (logins !== 1)
      context.addIssue({
        code: 'custom',
        path: ['user'],
        message: `one login is set: user and password, oauth, or client_certificate_file; here are ${logins}`,
      });
  });

export type Settings = z.output<typeof settings>;
