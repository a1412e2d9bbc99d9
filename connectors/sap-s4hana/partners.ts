/** SAP's suppliers as orders and other documents need them: asked for with each batch, by the supplier's key. */
import { ConflictError, LockedError, z } from 'sourcing-bridge/connector';
import { externalNumber } from './markers.ts';
import { equals, expanded, type OData, textOrEmpty } from './odata.ts';
import { isSameCode } from './sap-values.ts';

export const partnerService = 'API_BUSINESS_PARTNER';

/** A supplier as a document names it. */
interface Named {
  readonly id: string;
  readonly external_id?: string | undefined;
  readonly name: string;
}

export interface Partner {
  readonly number: string;
  /** Of its address, in which SAP prints its orders; undefined where it has none. */
  readonly language: string | undefined;
}

/** Throws LockedError for a supplier that SAP does not have yet, ConflictError for one that it has twice. */
export type PartnerOf = (supplier: Named) => Partner;

const row = z.object({
  BusinessPartner: z.string().min(1),
  Supplier: textOrEmpty,
  BusinessPartnerIDByExtSystem: textOrEmpty,
  CorrespondenceLanguage: textOrEmpty,
  to_BusinessPartnerAddress: expanded(z.object({ Language: textOrEmpty })),
});
const query = {
  select: [
    'BusinessPartner',
    'Supplier',
    'BusinessPartnerIDByExtSystem',
    'CorrespondenceLanguage',
    'to_BusinessPartnerAddress/Language',
  ],
  expand: ['to_BusinessPartnerAddress'],
};

export async function findSuppliers(
  odata: OData,
  suppliers: readonly Named[],
  signal: AbortSignal,
): Promise<PartnerOf> {
  const filters = [...new Set(suppliers.map(keyOf))].flatMap(filtersOf);
  const rows = await odata.listAny(partnerService, 'A_BusinessPartner', row, filters, query, signal);
  return (supplier) => {
    const key = keyOf(supplier);
    const found = rowsOf(key, rows).filter(({ Supplier }) => Supplier !== '');
    const [only, second] = found;
    if (!only)
      throw new LockedError(
        `SAP has no supplier "${supplier.name}" (${key}): it is neither the number in an external system (BusinessPartnerIDByExtSystem ${externalNumber(key)}) of a business partner that is a supplier, nor a number of SAP`,
      );
    if (second)
      throw new ConflictError(
        `SAP has several suppliers for "${supplier.name}" (${key}): ${found.map(({ Supplier }) => Supplier).join(', ')}. Only one of them may have this number in an external system.`,
      );
    return asPartner(only);
  };
}

/** The business partners with this number in an external system, or of SAP. */
export function filtersOf(key: string): string[] {
  const external = equals('BusinessPartnerIDByExtSystem', [externalNumber(key)]);
  return isSapNumber(key) ? [...external, ...equals('Supplier', [key])] : external;
}

/** Those of the key: by the number in an external system, else by SAP's own. */
export function rowsOf<Row extends { Supplier: string; BusinessPartnerIDByExtSystem: string }>(
  key: string,
  rows: readonly Row[],
): Row[] {
  const byExternal = rows.filter((one) => isSameCode(one.BusinessPartnerIDByExtSystem, externalNumber(key)));
  if (byExternal.length > 0 || !isSapNumber(key)) return byExternal;
  return rows.filter((one) => isSameCode(one.Supplier, key));
}

function asPartner({ Supplier, CorrespondenceLanguage, to_BusinessPartnerAddress: addresses }: z.output<typeof row>) {
  const [language = CorrespondenceLanguage] = addresses.flatMap(({ Language }) => (Language === '' ? [] : [Language]));
  return { number: Supplier, language: language === '' ? undefined : language };
}

function keyOf({ id, external_id }: Named): string {
  return external_id ?? id;
}

/** A_Supplier-Supplier has 10 characters. */
function isSapNumber(key: string): boolean {
  return /^[\dA-Z]{1,10}$/u.test(key);
}
