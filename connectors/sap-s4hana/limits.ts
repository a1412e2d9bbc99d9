/**
 * The limits of SAP's fields, as the metadata of the services has them. A value is held against them before it is sent,
 * so that the message names the field, its limit and where the value came from.
 */
import { DataError } from 'sourcing-bridge/connector';

/** The longest text of each field (Edm.String, MaxLength). */
const lengths = {
  CompanyCode: 4,
  PurchasingOrganization: 4,
  PurchasingGroup: 3,
  PurchaseOrderType: 4,
  PaymentTerms: 4,
  IncotermsClassification: 3,
  IncotermsLocation1: 70,
  CorrespncInternalReference: 12,
  DocumentCurrency: 3,
  PurchaseOrderItemText: 40,
  Material: 40,
  MaterialGroup: 9,
  SupplierMaterialNumber: 35,
  Plant: 4,
  StorageLocation: 4,
  TaxCode: 2,
  PurchaseOrderItemCategory: 1,
  AccountAssignmentCategory: 1,
  CostCenter: 10,
  GLAccount: 10,
  OrderID: 12,
  WBSElementExternalID: 24,
  PurchaseContractType: 4,
  PurchasingDocumentItemCategory: 1,
  RequestForQuotation: 10,
  PurchaseRequisition: 10,
  PurchaseRequisitionItem: 5,
  SearchTerm1: 20,
  StreetName: 60,
  HouseNumber: 10,
  PostalCode: 10,
  CityName: 40,
  Region: 3,
  Country: 3,
  EmailAddress: 241,
  AddressCommunicationRemarkText: 50,
  BPTaxType: 4,
  BPTaxNumber: 20,
  ReconciliationAccount: 10,
  PurchaseOrderCurrency: 5,
  BusinessPartnerGrouping: 4,
} as const;

export type LimitedField = keyof typeof lengths;

/** Throws DataError for a text that is longer than SAP's field; `source` says where it comes from. */
export function fitted(field: LimitedField, value: string, source: string): string {
  const max = lengths[field];
  if (value.length > max)
    throw new DataError(`${source} is "${value.slice(0, 60)}": SAP keeps ${max} characters there (${field})`);
  return value;
}

/** As many characters as SAP's field has. A character of two code units stays whole. */
export function cut(field: LimitedField, value: string): string {
  let kept = '';
  for (const character of value) {
    if (kept.length + character.length > lengths[field]) break;
    kept += character;
  }
  return kept;
}

/** The longest text that the connector sends in a field; undefined for one that it does not limit. */
export function fieldLength(name: string): number | undefined {
  return Object.hasOwn(lengths, name) ? lengths[name as LimitedField] : undefined;
}
