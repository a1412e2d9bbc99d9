/**
 * Compares what the connector sends with what a system's own description of its services (`$metadata`, EDMX) has: each
 * field that it needs, and the length of its text. The description is XML, of which only the names and numbers in the
 * start tags of four elements are needed; so it is searched, not parsed.
 */

import { attachmentService } from './attachments.ts';
import { contractService } from './contracts.ts';
import { conditionService, infoRecordService } from './info-records.ts';
import { fieldLength } from './limits.ts';

import { orderService } from './odata.ts';
import { partnerService } from './partners.ts';
import { quotationService } from './quotations.ts';
import { requisitionService } from './reads.ts';

/** What the connector writes or reads: by service and set, the fields. */
export const neededFields: Readonly<Record<string, Readonly<Record<string, readonly string[]>>>> = {
  [orderService]: {
    A_PurchaseOrder: [
      'PurchaseOrder',
      'CompanyCode',
      'PurchaseOrderType',
      'PurchasingOrganization',
      'PurchasingGroup',
      'Supplier',
      'DocumentCurrency',
      'CorrespncExternalReference',
      'CorrespncInternalReference',
      'PurchasingDocumentDeletionCode',
      'PurchasingProcessingStatus',
      'PaymentTerms',
      'IncotermsClassification',
      'IncotermsLocation1',
      'PurchaseOrderDate',
    ],
    A_PurchaseOrderItem: [
      'PurchaseOrderItem',
      'PurchasingDocumentDeletionCode',
      'PurchaseOrderItemText',
      'Material',
      'MaterialGroup',
      'SupplierMaterialNumber',
      'Plant',
      'StorageLocation',
      'TaxCode',
      'PurchaseOrderItemCategory',
      'AccountAssignmentCategory',
      'PurchaseRequisition',
      'PurchaseRequisitionItem',
      'OrderQuantity',
      'PurchaseOrderQuantityUnit',
      'OrderPriceUnit',
      'NetPriceAmount',
      'NetPriceQuantity',
      'IsCompletelyDelivered',
      'IsFinallyInvoiced',
    ],
    A_PurchaseOrderNote: ['TextObjectType', 'Language', 'PlainLongText'],
    A_PurchaseOrderItemNote: ['TextObjectType', 'Language', 'PlainLongText'],
    A_PurchaseOrderScheduleLine: ['ScheduleLine', 'ScheduleLineDeliveryDate', 'ScheduleLineOrderQuantity'],
    A_PurOrdAccountAssignment: [
      'AccountAssignmentNumber',
      'CostCenter',
      'GLAccount',
      'OrderID',
      'WBSElementExternalID',
    ],
  },
  [contractService]: {
    A_PurchaseContract: [
      'PurchaseContract',
      'PurchaseContractType',
      'CorrespncExternalReference',
      'CorrespncInternalReference',
      'ValidityStartDate',
      'ValidityEndDate',
      'PurchasingProcessingStatus',
    ],
    A_PurchaseContractItem: [
      'PurchaseContractItem',
      'RequirementTracking',
      'TargetQuantity',
      'PurgDocReleaseOrderQuantity',
      'ContractNetPriceAmount',
      'OrderQuantityUnit',
    ],
  },
  [infoRecordService]: {
    A_PurchasingInfoRecord: ['PurchasingInfoRecord', 'PurgDocOrderQuantityUnit'],
    A_PurgInfoRecdOrgPlantData: [
      'PurchasingInfoRecordCategory',
      'SupplierQuotation',
      'SupplierQuotationDate',
      'MaterialPriceUnitQty',
      'PurchaseOrderPriceUnit',
      'StandardPurchaseOrderQuantity',
    ],
  },
  [conditionService]: {
    A_PurgPrcgConditionRecord: ['ConditionRecord', 'ConditionTable', 'ConditionRateValue', 'ConditionQuantityUnit'],
    A_PurgPrcgCndnRecdValidity: ['ConditionValidityStartDate', 'ConditionValidityEndDate', 'Supplier', 'Material'],
    A_PurgPrcgCndnRecordScale: ['ConditionScaleLine', 'ConditionScaleQuantity', 'ConditionRateValue'],
  },
  [quotationService]: {
    A_SupplierQuotation: ['SupplierQuotation', 'SupplierQuotationExternalID', 'RequestForQuotation', 'Supplier'],
    A_SupplierQuotationItem: [
      'RequestForQuotationItem',
      'ScheduleLineOrderQuantity',
      'AwardedQuantity',
      'NetPriceAmount',
    ],
  },
  [attachmentService]: {
    AttachmentContentSet: ['LogicalDocument', 'ArchiveDocumentID', 'LinkedSAPObjectKey', 'FileName', 'FileSize'],
  },
  [requisitionService]: {
    A_PurchaseRequisitionHeader: ['PurchaseRequisition', 'PurReqnDescription'],
    A_PurchaseRequisitionItem: [
      'PurchaseRequisition',
      'PurchaseRequisitionItem',
      'PurchaseRequisitionItemText',
      'Material',
      'MaterialGroup',
      'Plant',
      'PurchasingGroup',
      'RequestedQuantity',
      'OrderedQuantity',
      'BaseUnit',
      'PurchaseRequisitionPrice',
      'PurReqnPriceQuantity',
      'PurReqnItemCurrency',
      'DeliveryDate',
      'RequisitionerName',
      'CreatedByUser',
      'IsDeleted',
      'IsClosed',
      'IsPurReqnBlocked',
      'ReleaseIsNotCompleted',
      'CreationDate',
      'LastChangeDateTime',
    ],
    A_PurchaseReqnItemText: ['DocumentText', 'TechnicalObjectType', 'Language', 'NoteDescription'],
  },
  [partnerService]: {
    A_BusinessPartner: [
      'BusinessPartner',
      'Supplier',
      'BusinessPartnerIDByExtSystem',
      'BusinessPartnerCategory',
      'OrganizationBPName1',
      'OrganizationBPName4',
      'SearchTerm1',
      'IsMarkedForArchiving',
      'BusinessPartnerIsBlocked',
      'LastChangeDate',
      'CreationDate',
    ],
    A_BusinessPartnerAddress: ['AddressID', 'StreetName', 'HouseNumber', 'PostalCode', 'CityName', 'Region', 'Country'],
    A_AddressEmailAddress: ['EmailAddress', 'AddressCommunicationRemarkText'],
    A_BusinessPartnerTaxNumber: ['BPTaxType', 'BPTaxNumber'],
    A_BusinessPartnerRole: ['BusinessPartnerRole'],
    A_Supplier: ['Supplier', 'PurchasingIsBlocked', 'DeletionIndicator'],
    A_SupplierCompany: ['CompanyCode', 'ReconciliationAccount', 'PaymentTerms'],
    A_SupplierPurchasingOrg: [
      'PurchasingOrganization',
      'PurchaseOrderCurrency',
      'PurchasingIsBlockedForSupplier',
      'PaymentTerms',
    ],
  },
};

/** The texts of what is missing or shorter in this description; empty when all is as the connector needs it. */
export function differencesOf(service: string, edmx: string): string[] {
  const types = typesIn(edmx);
  return Object.entries(neededFields[service] ?? {}).flatMap(([set, names]) => {
    const fields = types.get(set);
    if (!fields) return [`${set} is missing`];
    const missing = names.filter((name) => !fields.has(name)).map((name) => `${set}.${name} is missing`);
    const shorter = names.flatMap((name) => {
      const length = fields.get(name);
      const needed = fieldLength(name);
      return length !== undefined && needed !== undefined && length < needed
        ? [`${set}.${name} has ${length} characters instead of ${needed}`]
        : [];
    });
    return [...missing, ...shorter];
  });
}

/** The fields of each set, with the longest text of each; undefined for a field without a limit. */
function typesIn(edmx: string): Map<string, Map<string, number | undefined>> {
  const byType = new Map<string, Map<string, number | undefined>>();
  const typeOfSet = new Map<string, string>();
  let fields: Map<string, number | undefined> | undefined;
  for (const [tag, element] of edmx.matchAll(/<(?:\w{1,60}:)?(EntityType|Property|EntitySet)\s[^<>]*>/gu)) {
    const name = attribute(tag, 'Name') ?? '';
    if (element === 'EntityType') {
      fields = new Map();
      byType.set(name, fields);
    } else if (element === 'Property') {
      const length = Number(attribute(tag, 'MaxLength'));
      fields?.set(name, Number.isInteger(length) && length > 0 ? length : undefined);
    } else typeOfSet.set(name, (attribute(tag, 'EntityType') ?? '').split('.').at(-1) ?? '');
  }
  // Some systems list the sets before the types.
  return new Map(
    [...typeOfSet].flatMap(([set, type]) => {
      const known = byType.get(type);
      return known ? [[set, known] as const] : [];
    }),
  );
}

function attribute(tag: string, name: string): string | undefined {
  return new RegExp(`\\s${name}="([^"]*)"`, 'u').exec(tag)?.[1];
}
