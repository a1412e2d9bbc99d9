/** The business partners that SAP holds, with what a supplier needs. */
import { z } from 'sourcing-bridge/connector';
import { externalNumber } from './markers.ts';
import { anyOf, expanded, flagOrFalse, metadataForm, type OData, textOrEmpty } from './odata.ts';
import { isSapNumber, partnerService } from './partners.ts';
import type { Settings } from './settings.ts';

const email = z.object({
  AddressID: z.string(),
  Person: textOrEmpty,
  OrdinalNumber: z.string(),
  EmailAddress: textOrEmpty,
  AddressCommunicationRemarkText: textOrEmpty,
  __metadata: metadataForm,
});
const address = z.object({
  AddressID: z.string(),
  StreetName: textOrEmpty,
  HouseNumber: textOrEmpty,
  PostalCode: textOrEmpty,
  CityName: textOrEmpty,
  Region: textOrEmpty,
  Country: textOrEmpty,
  to_EmailAddress: expanded(email),
  __metadata: metadataForm,
});
const taxNumber = z.object({ BPTaxType: z.string(), BPTaxNumber: textOrEmpty, __metadata: metadataForm });
const supplierData = z.object({
  Supplier: z.string(),
  PurchasingIsBlocked: flagOrFalse,
  DeletionIndicator: flagOrFalse,
  to_SupplierCompany: expanded(z.object({ CompanyCode: z.string() })),
  to_SupplierPurchasingOrg: expanded(
    z.object({ PurchasingOrganization: z.string(), PurchasingIsBlockedForSupplier: flagOrFalse }),
  ),
  __metadata: metadataForm,
});

const heldPartner = z.object({
  BusinessPartner: z.string().min(1),
  Supplier: textOrEmpty,
  BusinessPartnerIDByExtSystem: textOrEmpty,
  OrganizationBPName1: textOrEmpty,
  OrganizationBPName2: textOrEmpty,
  OrganizationBPName3: textOrEmpty,
  OrganizationBPName4: textOrEmpty,
  SearchTerm1: textOrEmpty,
  IsMarkedForArchiving: flagOrFalse,
  BusinessPartnerIsBlocked: flagOrFalse,
  to_BusinessPartnerAddress: expanded(address),
  to_BusinessPartnerTax: expanded(taxNumber),
  to_BusinessPartnerRole: expanded(z.object({ BusinessPartnerRole: z.string() })),
  to_Supplier: supplierData.nullish().catch(undefined),
  __metadata: metadataForm,
});

export type HeldPartner = z.output<typeof heldPartner>;

const expand = [
  'to_BusinessPartnerAddress/to_EmailAddress',
  'to_BusinessPartnerTax',
  'to_BusinessPartnerRole',
  'to_Supplier/to_SupplierCompany',
  'to_Supplier/to_SupplierPurchasingOrg',
];
const perRequest = 20;

/** The partners of these keys, by key: by their number in an external system, else by SAP's own number. */
export async function findPartners(
  odata: OData,
  keys: readonly string[],
  { supplier_number }: Settings,
  signal: AbortSignal,
): Promise<Map<string, HeldPartner[]>> {
  const byKey = new Map<string, HeldPartner[]>();
  for (let from = 0; from < keys.length; from += perRequest) {
    const asked = keys.slice(from, from + perRequest);
    const own = supplier_number === 'external' ? [] : asked.filter(isSapNumber);
    const external = supplier_number === 'sap' ? [] : asked.map(externalNumber);
    const filter = [
      ...(external.length === 0 ? [] : [anyOf('BusinessPartnerIDByExtSystem', external)]),
      ...(own.length === 0 ? [] : [anyOf('Supplier', own)]),
    ].join(' or ');
    const rows = filter === '' ? [] : await listPartners(odata, { filter }, signal);
    for (const key of asked) {
      const byExternal = rows.filter(
        (row) => supplier_number !== 'sap' && row.BusinessPartnerIDByExtSystem === externalNumber(key),
      );
      byKey.set(
        key,
        byExternal.length > 0 ? byExternal : rows.filter((row) => own.includes(key) && row.Supplier === key),
      );
    }
  }
  return byKey;
}

export async function listPartners(
  odata: OData,
  query: { filter: string; orderby?: string; top?: number },
  signal: AbortSignal,
): Promise<HeldPartner[]> {
  return odata.list(partnerService, 'A_BusinessPartner', heldPartner, { ...query, expand }, signal);
}

/** The whole name: SAP has four fields of 40 characters for it. */
export function nameOf(partner: HeldPartner): string {
  const { OrganizationBPName1, OrganizationBPName2, OrganizationBPName3, OrganizationBPName4 } = partner;
  return [OrganizationBPName1, OrganizationBPName2, OrganizationBPName3, OrganizationBPName4]
    .filter((part) => part !== '')
    .join(' ');
}
