/** The fields that a flow's mapping may set, by kind of document. README.md says where each is written in SAP. */
import { DataError } from 'sourcing-bridge/connector';

export const taxPrefix = 'tax_number_';

const knownFields = {
  suppliers: [
    'name',
    'person',
    'search_term',
    'street',
    'house_number',
    'postal_code',
    'city',
    'region',
    'country',
    'currency',
    'payment_terms',
    'incoterms',
    'incoterms_location',
    'reconciliation_account',
    `${taxPrefix}<type>, such as ${taxPrefix}DE0`,
  ],
  awards: [
    'company_code',
    'purchasing_organization',
    'purchasing_group',
    'order_type',
    'payment_terms',
    'incoterms',
    'incoterms_location',
    'our_reference',
    'document_date',
  ],
  'lines of awards': [
    'text',
    'material',
    'material_group',
    'supplier_material',
    'plant',
    'storage_location',
    'unit',
    'tax_code',
    'item_category',
    'account_assignment_category',
    'cost_center',
    'gl_account',
    'order',
    'wbs_element',
    'delivery_date',
    'requisition',
    'requisition_item',
  ],
  contracts: [
    'company_code',
    'purchasing_organization',
    'purchasing_group',
    'contract_type',
    'payment_terms',
    'incoterms',
    'incoterms_location',
    'our_reference',
    'valid_from',
    'valid_to',
  ],
  'lines of contracts': [
    'text',
    'material',
    'material_group',
    'supplier_material',
    'plant',
    'storage_location',
    'unit',
    'tax_code',
    'item_category',
    'account_assignment_category',
  ],
  'info records': ['purchasing_organization', 'purchasing_group', 'valid_from', 'valid_to'],
  'lines of info records': ['material', 'plant', 'unit', 'tax_code', 'delivery_days'],
  quotations: ['rfq', 'submission_date'],
  'lines of quotations': ['rfq_item'],
  attachments: ['attach_to'],
} as const;

export type FieldOwner = keyof typeof knownFields;

/** Throws DataError for a field that this connector does not read: the mapping contains a mistake. */
export function checkFields(fields: Readonly<Record<string, string>> | undefined, owner: FieldOwner): void {
  const names: readonly string[] = knownFields[owner];
  for (const name of Object.keys(fields ?? {}))
    if (!names.includes(name) && !(owner === 'suppliers' && name.startsWith(taxPrefix)))
      throw new DataError(
        `The flow's mapping sets for ${owner} the field "${name}", which the SAP connector does not know. It knows: ${names.join(', ')}.`,
      );
}
