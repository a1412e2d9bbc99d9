/** The fields that a flow's mapping may give, by kind of document; README.md says what becomes of each. */
import { DataError } from 'sourcing-bridge/connector';

export const identifierPrefix = 'identifier_';
export const addressFields = ['street', 'postal_code', 'city', 'country'];
export const mechanismFields = ['phone', 'mobile', 'fax', 'website'];

const known = {
  suppliers: ['name', ...addressFields, ...mechanismFields, `${identifierPrefix}<type>, as ${identifierPrefix}eu_vat`],
  awards: ['reference', 'description', 'comment', 'purchase_date', 'delivery_date', 'warehouse'],
  'lines of awards': ['product', 'unit', 'description', 'delivery_date'],
  quotations: ['warehouse'],
  'lines of quotations': ['product', 'unit', 'description', 'supply_date', 'request'],
} as const;

/** Throws DataError for a field that nobody reads: it is a mistake of whoever wrote the mapping. */
export function checkFields(fields: Record<string, string> | undefined, of: keyof typeof known): void {
  const names: readonly string[] = known[of];
  for (const name of Object.keys(fields ?? {}))
    if (!names.includes(name))
      throw new DataError(
        `The flow's mapping gives ${of} the field "${name}", which the Tryton connector does not know. It knows: ${names.join(', ')}.`,
      );
}
