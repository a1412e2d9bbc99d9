/** What SAP makes of values that it keeps, and of values that it shows. */
import type { Behaviour } from './behaviour.ts';
import type { Entity } from './business-rules.ts';

/** Fields with the conversion ALPHA or of the type NUMC, and their lengths. */
const numberLengths: Readonly<Record<string, number>> = {
  Supplier: 10,
  BusinessPartner: 10,
  CostCenter: 10,
  GLAccount: 10,
  Material: 18,
  PurchaseOrderItem: 5,
  PurchaseContractItem: 5,
  PurchasingDocumentItem: 5,
  PurchaseRequisition: 10,
  PurchaseRequisitionItem: 5,
  RequestForQuotationItem: 5,
  SupplierQuotationItem: 5,
};

/** Numbers lose their zeros, texts their blanks at the end; search terms are in capitals. */
export function asSapKeeps(entity: Entity): Entity {
  const kept: Entity = {};
  for (const [name, value] of Object.entries(entity)) {
    if (Array.isArray(value)) kept[name] = value.map((child) => asSapKeeps(child as Entity));
    else if (typeof value === 'object' && value !== null) kept[name] = asSapKeeps(value as Entity);
    else kept[name] = typeof value === 'string' ? keptText(name, value) : value;
  }
  return kept;
}

function keptText(name: string, value: string): string {
  const text = value.trimEnd();
  if (/^SearchTerm[12]$/.test(name)) return text.toUpperCase();
  return name in numberLengths ? text.replace(/^0+(?=\d+$)/, '') : text;
}

/** Keys and filters, with numbers as SAP's database compares them. */
export function plainNumbersIn(url: string): string {
  if (url.includes('API_CV_ATTACHMENT_SRV')) return url;
  return decodeKeys(url).replaceAll(/'0+(\d+)'/g, "'$1'");
}

/** Only what the rule looks for: quotation marks. */
function decodeKeys(url: string): string {
  return url.replaceAll('%27', "'");
}

/** Changes the entities of an answer in place. */
export function asSapShows(value: unknown, behaviour: Behaviour): void {
  if (Array.isArray(value)) return value.forEach((entry) => asSapShows(entry, behaviour));
  if (typeof value !== 'object' || value === null) return;
  const entity = value as Entity;
  showContract(entity, behaviour);
  for (const [name, member] of Object.entries(entity)) {
    const length = numberLengths[name];
    if (behaviour.padsNumbers && length !== undefined && typeof member === 'string' && /^\d+$/.test(member))
      entity[name] = member.padStart(length, '0');
    asSapShows(member, behaviour);
  }
}

/** The price of an item is a condition; for a contract that starts later, the net price is not determined yet. */
function showContract(entity: Entity, { hidesLaterPrices }: Behaviour): void {
  const items = (entity['to_PurchaseContractItem'] as Entity | undefined)?.['results'] as Entity[] | undefined;
  if (!items) return;
  const startMs = Number(/\d+/.exec(entity['ValidityStartDate'] ?? '')?.[0] ?? 0);
  for (const item of items) {
    const condition = {
      ConditionType: 'PPR0',
      ConditionValidityStartDate: entity['ValidityStartDate'],
      ConditionValidityEndDate: entity['ValidityEndDate'],
      ConditionRateValue: item['ContractNetPriceAmount'],
      ConditionRateValueUnit: item['DocumentCurrency'],
      ConditionQuantity: item['NetPriceQuantity'],
      ConditionQuantityUnit: item['OrderPriceUnit'],
    };
    if (item['to_PurContrItemCondition']?.results) item['to_PurContrItemCondition'] = { results: [condition] };
    if (hidesLaterPrices && startMs > Date.now()) item['ContractNetPriceAmount'] = '0.00';
  }
}
