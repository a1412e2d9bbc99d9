/**
 * Compares what the connector reads and writes with what a system's own description of its services (`$metadata`, EDMX)
 * has: each field that it needs, and the length of its text. The description is XML, of which only the names and numbers
 * in the start tags of four elements are needed; so it is searched, not parsed.
 */
import { attachmentForms, attachmentService } from './attachments.ts';
import { contractForms, contractService } from './contracts.ts';
import { conditionForms, infoRecordForms } from './held-info-records.ts';
import { orderForms } from './held-orders.ts';
import { partnerForms } from './held-partners.ts';
import { conditionService, infoRecordService } from './info-records.ts';
import { fieldLength } from './limits.ts';
import { namesOf } from './odata.ts';
import { fieldInV4, nameInV4, orderServices } from './orders.ts';
import { partnerService } from './partners.ts';
import { quotationForms, quotationService } from './quotations.ts';
import { requisitionForms, requisitionService } from './reads.ts';

type Forms = Readonly<Record<string, Parameters<typeof namesOf>[0]>>;

/** What is read of each set. */
const read: Readonly<Record<string, Forms>> = {
  [orderServices.v2]: orderForms,
  [contractService]: contractForms,
  [infoRecordService]: infoRecordForms,
  [conditionService]: conditionForms,
  [quotationService]: quotationForms,
  [attachmentService]: attachmentForms,
  [requisitionService]: requisitionForms,
  [partnerService]: partnerForms,
};
/** What is only written. */
const written: Readonly<Record<string, string>> = {
  A_PurchaseOrder: 'CompanyCode PurchaseOrderType PurchasingOrganization PurchasingGroup PurchaseOrderDate',
  A_PurchaseOrderItemNote: 'TextObjectType Language PlainLongText',
  A_PurchaseContract: 'PurchaseContractType CompanyCode PurchasingOrganization PurchasingGroup',
  A_PurchasingInfoRecord: 'PurgDocOrderQuantityUnit',
  A_PurgInfoRecdOrgPlantData: 'Currency PurchaseOrderPriceUnit StandardPurchaseOrderQuantity PurchasingGroup',
  A_PurgPrcgConditionRecord: 'ConditionTable ConditionType ConditionCalculationType',
  A_SupplierCompany: 'ReconciliationAccount PaymentTerms',
  A_SupplierPurchasingOrg: 'PurchaseOrderCurrency PaymentTerms',
};

type Fields = Readonly<Record<string, readonly string[]>>;

function fieldsOf(forms: Forms): Fields {
  const fields = Object.entries(forms).map(([set, form]) => [
    set,
    [...namesOf(form), ...(written[set]?.split(' ') ?? [])],
  ]);
  return Object.fromEntries(fields) as Fields;
}

function ordersInV4(): Fields {
  const fields = Object.entries(fieldsOf(orderForms)).map(([set, names]) => [
    nameInV4(set),
    names.map((name) => fieldInV4(set, name)),
  ]);
  return Object.fromEntries(fields) as Fields;
}

/** By service and set, the fields. */
export const neededFields: Readonly<Record<string, Fields>> = {
  ...Object.fromEntries(Object.entries(read).map(([service, forms]) => [service, fieldsOf(forms)])),
  [orderServices.v4]: ordersInV4(),
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
      // Material has 18 characters where long numbers of materials are not switched on.
      return name !== 'Material' && length !== undefined && needed !== undefined && length < needed
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
