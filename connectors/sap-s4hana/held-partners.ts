/** The business partners that SAP holds, with what a supplier needs. */
import { z } from 'sourcing-bridge/connector';
import { expanded, flagOrFalse, metadataForm, type OData, textOrEmpty } from './odata.ts';
import { filtersOf, partnerService, rowsOf } from './partners.ts';

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
const role = z.object({ BusinessPartnerRole: z.string() });
const company = z.object({ CompanyCode: z.string() });
const organization = z.object({ PurchasingOrganization: z.string(), PurchasingIsBlockedForSupplier: flagOrFalse });
const supplierData = z.object({
  Supplier: z.string(),
  PurchasingIsBlocked: flagOrFalse,
  DeletionIndicator: flagOrFalse,
  to_SupplierCompany: expanded(company),
  to_SupplierPurchasingOrg: expanded(organization),
  __metadata: metadataForm,
});

const heldPartner = z.object({
  BusinessPartner: z.string().min(1),
  Supplier: textOrEmpty,
  BusinessPartnerIDByExtSystem: textOrEmpty,
  BusinessPartnerCategory: textOrEmpty,
  FirstName: textOrEmpty,
  LastName: textOrEmpty,
  OrganizationBPName1: textOrEmpty,
  OrganizationBPName2: textOrEmpty,
  OrganizationBPName3: textOrEmpty,
  OrganizationBPName4: textOrEmpty,
  SearchTerm1: textOrEmpty,
  SearchTerm2: textOrEmpty,
  IsMarkedForArchiving: flagOrFalse,
  BusinessPartnerIsBlocked: flagOrFalse,
  to_BusinessPartnerAddress: expanded(address),
  to_BusinessPartnerTax: expanded(taxNumber),
  to_BusinessPartnerRole: expanded(role),
  to_Supplier: supplierData.nullish().catch(undefined),
  __metadata: metadataForm,
});

export const partnerForms = {
  A_BusinessPartner: heldPartner,
  A_BusinessPartnerAddress: address,
  A_AddressEmailAddress: email,
  A_BusinessPartnerTaxNumber: taxNumber,
  A_BusinessPartnerRole: role,
  A_Supplier: supplierData,
  A_SupplierCompany: company,
  A_SupplierPurchasingOrg: organization,
};
export type HeldPartner = z.output<typeof heldPartner>;

const expand = [
  'to_BusinessPartnerAddress/to_EmailAddress',
  'to_BusinessPartnerTax',
  'to_BusinessPartnerRole',
  'to_Supplier/to_SupplierCompany',
  'to_Supplier/to_SupplierPurchasingOrg',
];

/** The partners of these keys, by key: by their number in an external system, else by SAP's own number. */
export async function findPartners(
  odata: OData,
  keys: readonly string[],
  signal: AbortSignal,
): Promise<Map<string, HeldPartner[]>> {
  const rows = await listPartnersAny(odata, keys.flatMap(filtersOf), signal);
  return new Map(keys.map((key) => [key, rowsOf(key, rows)]));
}

/** Those for which one of the filters holds. */
export async function listPartnersAny(odata: OData, filters: readonly string[], signal: AbortSignal) {
  return odata.listAny(partnerService, 'A_BusinessPartner', heldPartner, filters, { expand }, signal);
}

/** A page of all. */
export async function listPartners(
  odata: OData,
  query: { filter: string; orderby: string; top: number },
  signal: AbortSignal,
): Promise<HeldPartner[]> {
  return odata.list(partnerService, 'A_BusinessPartner', heldPartner, { ...query, expand }, signal);
}

/** BusinessPartnerCategory: a person, such as a sole trader, has other fields for its name than an organization. */
export const person = '1';

/** The whole name, of a person or of an organization: SAP has four fields of 40 characters for that. */
export function nameOf(partner: HeldPartner): string {
  const { OrganizationBPName1, OrganizationBPName2, OrganizationBPName3, OrganizationBPName4 } = partner;
  const parts =
    partner.BusinessPartnerCategory === person
      ? [partner.FirstName, partner.LastName]
      : [OrganizationBPName1, OrganizationBPName2, OrganizationBPName3, OrganizationBPName4];
  return parts.filter((part) => part !== '').join(' ');
}
