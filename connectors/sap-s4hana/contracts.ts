/**
 * Awards as purchase contracts (API_PURCHASECONTRACT_PROCESS_SRV), for flows with the setting `awards: contracts`. SAP
 * keeps no text with a contract, so each item carries what the connector needs in RequirementTracking: the mark of its lot
 * and of the state in which it was written. An item whose state has another mark was changed by a person. The service
 * deletes neither contracts nor items: a contract that is withdrawn, or that loses a lot, ends today. It takes changes
 * inside of a batch only, and of approved contracts only (KBA 3338491).
 */
import {
  type AwardDocument,
  ConflictError,
  DataError,
  type Kind,
  LockedError,
  timeFromMs,
  z,
} from 'sourcing-bridge/connector';
import type { Change } from './batch.ts';
import { type Deps, kindOfParts, referenceOf } from './kind.ts';
import { checkFields } from './mapping-fields.ts';
import { contractItemMark, contractLot, keyMarker } from './markers.ts';
import { dayOfDate, decimalOrZero, expanded, metadataForm, odataDate, textOrEmpty } from './odata.ts';
import { itemState } from './order-record.ts';
import { headerOf, itemFields, itemNumbers, itemOf, type OrderItem, present, stateOf } from './order-values.ts';
import { findSuppliers, type PartnerOf } from './partners.ts';
import { changedHeader, decideDocument, expectUnchanged, marksOf, type Shape } from './purchasing-documents.ts';
import { changed, differing, isSameCode, isSameNumber, pricedTogether, shown } from './sap-values.ts';
import type { Settings } from './settings.ts';

export const contractService = 'API_PURCHASECONTRACT_PROCESS_SRV';
const object = 'PurchaseContract';
const dayMs = 86_400_000;

const heldCondition = z.object({
  ConditionType: textOrEmpty,
  ConditionRateValue: decimalOrZero,
  ConditionQuantity: decimalOrZero,
});
const shownItemForm = z.object({
  PurchaseContractItem: z.string(),
  PurchasingContractDeletionCode: textOrEmpty,
  PurchaseContractItemText: textOrEmpty,
  Material: textOrEmpty,
  MaterialGroup: textOrEmpty,
  SupplierMaterialNumber: textOrEmpty,
  Plant: textOrEmpty,
  StorageLocation: textOrEmpty,
  TaxCode: textOrEmpty,
  PurchasingDocumentItemCategory: textOrEmpty,
  AccountAssignmentCategory: textOrEmpty,
  RequirementTracking: textOrEmpty,
  TargetQuantity: decimalOrZero,
  PurgDocReleaseOrderQuantity: decimalOrZero,
  OrderQuantityUnit: textOrEmpty,
  OrderPriceUnit: textOrEmpty,
  ContractNetPriceAmount: decimalOrZero,
  NetPriceQuantity: decimalOrZero,
  to_PurContrItemCondition: expanded(heldCondition),
  __metadata: metadataForm,
});
/** A contract that starts later shows the net price 0.00 (KBA 3703619): its price is the condition then. */
const heldItem = shownItemForm.transform((given) => {
  const item = {
    ...given,
    OrderPriceUnit: given.OrderPriceUnit === '' ? given.OrderQuantityUnit : given.OrderPriceUnit,
  };
  const [price, second] = item.to_PurContrItemCondition.filter(
    ({ ConditionRateValue: rate }) => !isSameNumber(rate, '0'),
  );
  if (!price || second || !isSameNumber(item.ContractNetPriceAmount, '0')) return item;
  return { ...item, ContractNetPriceAmount: price.ConditionRateValue, NetPriceQuantity: price.ConditionQuantity };
});
const heldContract = z.object({
  PurchaseContract: z.string().min(1),
  PurchasingDocumentDeletionCode: textOrEmpty,
  PurchasingProcessingStatus: textOrEmpty,
  Supplier: textOrEmpty,
  DocumentCurrency: textOrEmpty,
  CorrespncExternalReference: textOrEmpty,
  PaymentTerms: textOrEmpty,
  IncotermsClassification: textOrEmpty,
  IncotermsLocation1: textOrEmpty,
  ValidityStartDate: z.string().nullish(),
  ValidityEndDate: z.string().nullish(),
  to_PurchaseContractItem: expanded(heldItem),
  __metadata: metadataForm,
});
export const contractForms = {
  A_PurchaseContract: heldContract,
  A_PurchaseContractItem: shownItemForm,
  A_PurContrItemCondition: heldCondition,
};
type HeldItem = z.output<typeof heldItem>;
type HeldContract = z.output<typeof heldContract>;

/** What a contract has to be. */
interface Contract {
  readonly key: string;
  readonly supplier: string;
  readonly currency: string;
  readonly header: Readonly<Record<string, string>>;
  /** Days; undefined where the mapping names none. */
  readonly from: string | undefined;
  readonly to: string | undefined;
  readonly items: readonly OrderItem[];
}

interface Held {
  readonly contracts: readonly HeldContract[];
  readonly partnerOf: PartnerOf;
}

export function createContracts(deps: Deps): Kind<'award'> {
  const { odata } = deps;

  async function find(documents: readonly AwardDocument[], signal: AbortSignal): Promise<HeldContract[]> {
    const query = { expand: ['to_PurchaseContractItem/to_PurContrItemCondition'] };
    const filters = marksOf(documents);
    const all = await odata.listAny(contractService, 'A_PurchaseContract', heldContract, filters, query, signal);
    return all.filter(({ PurchasingDocumentDeletionCode: code }) => code !== 'L');
  }

  return kindOfParts<'award', Held>(
    {
      async read(operations, signal) {
        const documents = operations.map(({ document }) => document);
        const written = operations.filter(({ action }) => action !== 'cancel');
        const contracts = await find(documents, signal);
        const suppliers = written.map(({ document }) => document.supplier);
        return { contracts, partnerOf: await findSuppliers(odata, suppliers, signal) };
      },
      decideOn: (operation, { contracts, partnerOf }, isWritten) =>
        decideDocument(shapeWith(deps, partnerOf), operation, ofKey(operation.document.key, contracts), isWritten),
      async lookup(documents, signal) {
        const all = await find(documents, signal);
        return documents.flatMap(({ key }) =>
          ofKey(key, all).map(({ PurchaseContract }) => ({
            key,
            reference: referenceOf(object, PurchaseContract),
            contentHash: undefined,
          })),
        );
      },
    },
    deps,
  );
}

function ofKey(key: string, all: readonly HeldContract[]): HeldContract[] {
  return all.filter(({ CorrespncExternalReference: mark }) => mark.trimEnd() === keyMarker(key));
}

function shapeWith(deps: Deps, partnerOf: PartnerOf): Shape<HeldContract, Contract> {
  const { odata, settings } = deps;
  return {
    name: 'purchase contract',
    object,
    numberOf: ({ PurchaseContract }) => PurchaseContract,
    wantedOf: ({ document }) => contractOf(document, partnerOf(document.supplier).number, settings),
    changesOf: (wanted, held, isWritten) => {
      const changes = changesOf(wanted, held);
      if (changes && changes.length > 0 && !isWritten) expectChangeable(held);
      return changes;
    },
    expectChangeable,
    create: (wanted, signal) => {
      const body = contractBody(wanted, today(deps), settings);
      return odata.change(contractService, { what: 'create', method: 'POST', set: 'A_PurchaseContract', body }, signal);
    },
    change: (changes, signal) => odata.changeAll(contractService, changes, signal),
    removal: 'end',
    remove: (held, signal) => odata.changeAll(contractService, [ending(held, today(deps))], signal),
  };
}

function today({ clock }: Deps): string {
  return timeFromMs(clock.nowMs()).slice(0, 10);
}

/** In one change: a contract without the mark is no longer the document's. */
function ending(held: HeldContract, day: string): Change {
  const start = dayOfDate(held.ValidityStartDate) ?? '';
  const stop = dayOfDate(held.ValidityEndDate) ?? '9999-12-31';
  const last = [day, start].sort().at(-1) as string;
  const body = {
    ...(last < stop ? { ValidityEndDate: odataDate(last, 'the last day') } : {}),
    CorrespncExternalReference: '',
    CorrespncInternalReference: held.CorrespncExternalReference,
  };
  return { what: 'end', method: 'PATCH', ...contractEntity(held), body, etag: held.__metadata?.etag };
}

function contractEntity({ PurchaseContract }: HeldContract) {
  return { set: 'A_PurchaseContract', key: PurchaseContract };
}

/** The body of a POST that makes the whole contract. */
function contractBody(wanted: Contract, day: string, { validity_days }: Settings): object {
  const from = wanted.from ?? day;
  const numbers = itemNumbers(wanted.items.length);
  return {
    ...wanted.header,
    Supplier: wanted.supplier,
    DocumentCurrency: wanted.currency,
    ValidityStartDate: odataDate(from, 'valid_from'),
    ValidityEndDate: odataDate(wanted.to ?? dayAfter(from, validity_days), 'valid_to'),
    CorrespncExternalReference: keyMarker(wanted.key),
    to_PurchaseContractItem: wanted.items.map((item, index) => itemBody(item, numbers[index] ?? '')),
  };
}

/** What differs; undefined where only another contract can be as the award says. */
function changesOf(wanted: Contract, held: HeldContract): Change[] | undefined {
  const { PurchaseContract, to_PurchaseContractItem: all } = held;
  if (!isSameCode(held.Supplier, wanted.supplier) || held.DocumentCurrency !== wanted.currency) return undefined;
  const own = new Map(
    all
      .filter((item) => item.RequirementTracking !== '' && !isDeleted(item))
      .map((item) => [contractLot(item.RequirementTracking), item]),
  );
  const lots = new Set(wanted.items.map(lotOf));
  // A lot that is gone: the service deletes no items.
  if ([...own.keys()].some((lot) => !lots.has(lot))) return undefined;
  const entity = contractEntity(held);
  const header = headerChanges(wanted, held);
  const { etag } = held.__metadata ?? {};
  const changes: Change[] =
    Object.keys(header).length === 0
      ? []
      : [{ what: `set ${shown(header)}`, method: 'PATCH', ...entity, body: header, etag }];
  for (const item of wanted.items) {
    const is = own.get(lotOf(item));
    if (!is) continue;
    if (differing(fixedFields(item), is).length > 0) return undefined;
    const body = changedItem(item, is);
    if (Object.keys(body).length === 0) continue;
    const { PurchaseContractItem, __metadata } = is;
    changes.push({
      what: `change item ${PurchaseContractItem} (${item.lot}) from ${stateOfHeld(is)} to ${stateOfItem(item)}`,
      method: 'PATCH',
      set: 'A_PurchaseContractItem',
      key: { PurchaseContract, PurchaseContractItem },
      body,
      etag: __metadata?.etag,
    });
  }
  const added = wanted.items.filter((item) => !own.has(lotOf(item)));
  const numbers = itemNumbers(added.length, Math.max(0, ...all.map((item) => Number(item.PurchaseContractItem))));
  return [
    ...changes,
    ...added.map((item, index): Change => {
      const body = itemBody(item, numbers[index] ?? '');
      const what = `add ${item.lot}: ${stateOfItem(item)}`;
      return { what, method: 'POST', ...entity, navigation: 'to_PurchaseContractItem', body };
    }),
  ];
}

function lotOf({ lot }: OrderItem): string {
  return contractLot(contractItemMark(lot, ''));
}

function headerChanges(wanted: Contract, held: HeldContract): Record<string, string> {
  const fields = changedHeader(wanted.header, held);
  if (wanted.from !== undefined && wanted.from !== dayOfDate(held.ValidityStartDate))
    fields['ValidityStartDate'] = odataDate(wanted.from, 'valid_from');
  if (wanted.to !== undefined && wanted.to !== dayOfDate(held.ValidityEndDate))
    fields['ValidityEndDate'] = odataDate(wanted.to, 'valid_to');
  return fields;
}

/** Throws for a contract that SAP changes not now, or never, that a person has changed, or that has call-offs. */
function expectChangeable(held: HeldContract): void {
  const { PurchaseContract: number, PurchasingProcessingStatus: status } = held;
  if (status === '03')
    throw new LockedError(`purchase contract ${number} is in approval in SAP, which changes approved ones only`);
  if (status === '08')
    throw new ConflictError(`purchase contract ${number} was rejected in SAP, which changes it no more`);
  const blocked = [
    held.PurchasingDocumentDeletionCode,
    ...held.to_PurchaseContractItem.map((item) => item.PurchasingContractDeletionCode),
  ];
  if (blocked.includes('S'))
    throw new ConflictError(
      `purchase contract ${number}, or an item of it, is blocked in SAP (deletion code S), so it is not changed`,
    );
  expectUnchanged(`purchase contract ${number}`, changesByPersons(held));
  const called = held.to_PurchaseContractItem.find((item) => !isSameNumber(item.PurgDocReleaseOrderQuantity, '0'));
  if (called)
    throw new ConflictError(
      `item ${called.PurchaseContractItem} of purchase contract ${number} has call-offs in SAP (PurgDocReleaseOrderQuantity ${called.PurgDocReleaseOrderQuantity}), so it is not changed`,
    );
}

/** What in the contract is not as the connector wrote it. */
function changesByPersons({ to_PurchaseContractItem: items }: HeldContract): string[] {
  return items.flatMap((item) => {
    const { PurchaseContractItem: number, RequirementTracking: mark } = item;
    if (mark === '') return isDeleted(item) ? [] : [`item ${number} was added`];
    if (isDeleted(item)) return [`item ${number} was deleted`];
    const expected = contractLot(mark) + contractItemMark('', stateOfHeld(item)).slice(contractLot(mark).length);
    return mark === expected ? [] : [`item ${number} has ${stateOfHeld(item)}, which the bridge has not written`];
  });
}

function isDeleted({ PurchasingContractDeletionCode }: HeldItem): boolean {
  return PurchasingContractDeletionCode === 'L';
}

function stateOfHeld(item: HeldItem): string {
  return itemState({
    quantity: item.TargetQuantity,
    unit: item.OrderQuantityUnit,
    priceUnit: item.OrderPriceUnit,
    amount: item.ContractNetPriceAmount,
    per: item.NetPriceQuantity,
  });
}

function stateOfItem(item: OrderItem): string {
  return stateOf({ ...item, deliveryDate: undefined, account: {} });
}

/** A contract has other names for some fields of an order. */
const contractNames: Readonly<Record<string, string>> = {
  PurchaseOrderItemText: 'PurchaseContractItemText',
  PurchaseOrderItemCategory: 'PurchasingDocumentItemCategory',
  OrderQuantity: 'TargetQuantity',
  PurchaseOrderQuantityUnit: 'OrderQuantityUnit',
  NetPriceAmount: 'ContractNetPriceAmount',
};

function contractFields(fields: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(fields).map(([name, value]) => [contractNames[name] ?? name, value]));
}

/** Fields that only a new item can have. */
function fixedFields({ fixed, unit }: OrderItem): Record<string, string> {
  return contractFields({ ...fixed, PurchaseOrderQuantityUnit: unit });
}

function changedItem(item: OrderItem, held: HeldItem): Record<string, string> {
  const wanted = {
    ...contractFields(itemFields(item)),
    RequirementTracking: contractItemMark(item.lot, stateOfItem(item)),
  };
  return pricedTogether(changed(wanted, held), wanted);
}

function itemBody(item: OrderItem, number: string): object {
  return {
    PurchaseContractItem: number,
    ...contractFields(itemFields(item)),
    RequirementTracking: contractItemMark(item.lot, stateOfItem(item)),
  };
}

/** Throws DataError for a value that SAP cannot keep, with the names of the field and of the lot. */
export function contractOf(award: AwardDocument, supplier: string, settings: Settings): Contract {
  const { key, currency, lines } = award;
  const fields: Readonly<Record<string, string>> = award.fields ?? {};
  checkFields(fields, 'contracts');
  const { valid_from, valid_to } = fields;
  for (const [name, day] of Object.entries({ valid_from, valid_to })) if (day !== undefined) odataDate(day, name);
  if (valid_from !== undefined && valid_to !== undefined && valid_to < valid_from)
    throw new DataError(`valid_to is ${valid_to}, before valid_from ${valid_from} (ValidityEndDate)`);
  // The account assignment of a contract's items is a call-off's matter.
  const own = { ...settings, account_assignment_category: undefined };
  const items = lines.map((line) => itemOf(line, currency, own, 'lines of contracts'));
  if (new Set(items.map(lotOf)).size < items.length)
    throw new DataError('two lots have the same mark in RequirementTracking: give one of them another name');
  return {
    key,
    supplier,
    currency,
    header: {
      ...headerOf(award, settings),
      ...present({ PurchaseContractType: ['contract_type', fields['contract_type'] ?? settings.contract_type] }),
    },
    from: valid_from,
    to: valid_to,
    items,
  };
}

/** The last of so many days, of which `day` is the first. */
export function dayAfter(day: string, days: number): string {
  return new Date(Date.parse(`${day}T00:00:00Z`) + (days - 1) * dayMs).toISOString().slice(0, 10);
}
