/** The fields that a flow's mapping may set, by kind of document. README.md says where each is written in Tryton. */
import { DataError } from 'sourcing-bridge/connector';
import type { Settings } from './settings.ts';

export const identifierPrefix = 'identifier_';
export const addressFields = ['street', 'postal_code', 'city', 'country'];
export const mechanismFields = ['phone', 'mobile', 'fax', 'website'];

const knownFields = {
  suppliers: [
    'name',
    ...addressFields,
    ...mechanismFields,
    `${identifierPrefix}<type>, such as ${identifierPrefix}eu_vat`,
  ],
  awards: ['reference', 'description', 'comment', 'purchase_date', 'delivery_date', 'warehouse'],
  'lines of awards': ['product', 'unit', 'description', 'delivery_date'],
  quotations: ['warehouse'],
  'lines of quotations': ['product', 'unit', 'description', 'supply_date', 'request'],
} as const;

/** Throws DataError for a field that this connector does not read: the mapping contains a mistake. */
export function checkFields(fields: Record<string, string> | undefined, owner: keyof typeof knownFields): void {
  const names: readonly string[] = knownFields[owner];
  for (const name of Object.keys(fields ?? {}))
    if (!names.includes(name))
      throw new DataError(
        `The flow's mapping sets for ${owner} the field "${name}", which the Tryton connector does not know. It knows: ${names.join(', ')}.`,
      );
}

/** The code of a line's product: from the flow's mapping, else from `settings.product`. */
export function productCodeOf(
  line: { fields?: Record<string, string> | undefined },
  settings: Settings,
): string | undefined {
  return line.fields?.['product'] ?? settings.product;
}
