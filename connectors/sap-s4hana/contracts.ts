/**
 * Awards as purchase contracts (API_PURCHASECONTRACT_PROCESS_SRV), for flows with the setting `awards: contracts`. SAP
 * keeps no text with a contract, so each item carries what the connector needs in RequirementTracking: the mark of its lot
 * and of the state in which it was written. An item whose state has another mark was changed by a person. The service
 * deletes neither contracts nor items: a contract that is withdrawn, or that loses a lot, ends today.
 */
import {
  type AwardDocument,
  ConflictError,
  DataError,
  type Operation,
  type Outcome,
  timeFromMs,
  UnknownOutcome,
  z,
} from 'sourcing-bridge/connector';
import { type Deps, type Kind, kindOfParts, nothingToDo, referenceOf, type Task } from './kind.ts';
import { checkFields } from './mapping-fields.ts';
import { contractItemMark, contractLot, keyMarker } from './markers.ts';
import {
  anyOf,
  dayOfDate,
  decimalOrZero,
  entityPath,
  expanded,
  metadataForm,
  odataDate,
  textOrEmpty,
} from './odata.ts';
import { itemState, plainCode } from './order-record.ts';
import { itemNumbers, itemOf, type OrderItem, present } from './order-values.ts';
import { isSameNumber } from './prices.ts';
import type { Settings } from './settings.ts';

export const contractService = 'API_PURCHASECONTRACT_PROCESS_SRV';
const objectName = 'PurchaseContract';
const dayMs = 86_400_000;

const heldItem = z.object({
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
  ContractNetPriceAmount: decimalOrZero,
  NetPriceQuantity: decimalOrZero,
  __metadata: metadataForm,
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
type HeldItem = z.output<typeof heldItem>;
type HeldContract = z.output<typeof heldContract>;
const made = z.object({ PurchaseContract: z.string().min(1) });

/** What a contract has to be. */
interface Contract {
  readonly supplier: string;
  readonly currency: string;
  readonly header: Readonly<Record<string, string>>;
  /** Days; undefined where the mapping names none. */
  readonly from: string | undefined;
  readonly to: string | undefined;
  readonly items: readonly OrderItem[];
}

/** PurchasingProcessingStatus: partially released, and release completed. */
const released: ReadonlySet<string> = new Set(['04', '05']);
const headerFields = ['PaymentTerms', 'IncotermsClassification', 'IncotermsLocation1'] as const;

export function createContracts(deps: Deps): Kind<'award'> {
  const { odata, settings, partners, clock } = deps;

  async function find(documents: readonly AwardDocument[], signal: AbortSignal): Promise<HeldContract[]> {
    const filter = anyOf(
      'CorrespncExternalReference',
      documents.map(({ key }) => keyMarker(key)),
    );
    const query = { filter, expand: ['to_PurchaseContractItem'] };
    const all = await odata.list(contractService, 'A_PurchaseContract', heldContract, query, signal);
    return all.filter(({ PurchasingDocumentDeletionCode: code }) => code === '');
  }

  const ofKey = (key: string, all: readonly HeldContract[]) =>
    all.filter(({ CorrespncExternalReference: mark }) => mark === keyMarker(key));

  const today = () => timeFromMs(clock.nowMs()).slice(0, 10);

  function taskOf({ document, action, reference }: Operation<'award'>, all: readonly HeldContract[]): Task {
    const { key } = document;
    const [held, ...others] = ofKey(key, all);
    if (held && others.length > 0)
      throw new ConflictError(
        `SAP holds ${others.length + 1} purchase contracts for ${key}: ${[held, ...others].map(({ PurchaseContract }) => PurchaseContract).join(', ')}. Remove "Your reference" from all but one of them in SAP.`,
      );
    if (action === 'cancel' || document.lines.length === 0) return ending(held, reference);
    if (action === 'amend' && !held && reference !== undefined)
      throw new ConflictError(
        `${reference} is no longer in SAP: a person has deleted it, or has changed its "Your reference" (CorrespncExternalReference)`,
      );
    const wanted = contractOf(document, partners.numberOf(document.supplier), settings);
    if (!held)
      return {
        action: 'create',
        steps: [`create a purchase contract with supplier ${wanted.supplier}`, ...wanted.items.map(shownItem)],
        run: async (signal) => ({ status: 'created', reference: await create(key, wanted, signal) }),
      };
    const { add, changes, isOther } = compare(wanted, held);
    if (!isOther && add.length === 0 && changes.length === 0)
      return nothingToDo(referenceOf(objectName, held.PurchaseContract));
    expectChangeable(held, settings);
    if (isOther)
      return {
        action: 'amend',
        steps: [`end purchase contract ${held.PurchaseContract}, and create another`, ...wanted.items.map(shownItem)],
        run: async (signal) => {
          await end(held, signal);
          try {
            return { status: 'updated', reference: await create(key, wanted, signal) };
          } catch (error) {
            // The old contract has ended: only a lookup finds the way on.
            throw new UnknownOutcome(
              `purchase contract ${held.PurchaseContract} was ended, and the one in its place: ${error instanceof Error ? error.message : String(error)}`,
              { answered: true, cause: error },
            );
          }
        },
      };
    return {
      action: 'amend',
      steps: [...changes.map(({ what }) => what), ...add.map(({ item }) => `add ${shownItem(item)}`)],
      run: async (signal): Promise<Outcome> => {
        const path = entityPath('A_PurchaseContract', held.PurchaseContract);
        for (const { path: place, body, etag } of changes)
          await odata.patch(contractService, place, body, etag, signal);
        for (const { item, number } of add)
          await odata.post(contractService, `${path}/to_PurchaseContractItem`, itemBody(item, number), signal);
        await expectWritten(held.PurchaseContract, changesIn(held), signal);
        return { status: 'updated', reference: referenceOf(objectName, held.PurchaseContract) };
      },
    };
  }

  function ending(held: HeldContract | undefined, reference: string | undefined): Task {
    if (!held)
      return { action: 'none', steps: [], run: async () => ({ status: 'cancelled', reference: reference ?? '' }) };
    expectChangeable(held, settings);
    return {
      action: 'cancel',
      steps: [`end purchase contract ${held.PurchaseContract}`],
      run: async (signal) => {
        await end(held, signal);
        return { status: 'cancelled', reference: referenceOf(objectName, held.PurchaseContract) };
      },
    };
  }

  /** In one request: a contract without the mark is no longer the document's. */
  async function end(held: HeldContract, signal: AbortSignal): Promise<void> {
    const start = dayOfDate(held.ValidityStartDate) ?? '';
    const stop = dayOfDate(held.ValidityEndDate) ?? '9999-12-31';
    const last = [today(), start].sort().at(-1) as string;
    const body = {
      ...(last < stop ? { ValidityEndDate: odataDate(last, 'the last day') } : {}),
      CorrespncExternalReference: '',
      CorrespncInternalReference: held.CorrespncExternalReference,
    };
    const path = entityPath('A_PurchaseContract', held.PurchaseContract);
    await odata.patch(contractService, path, body, held.__metadata?.etag, signal);
  }

  async function create(key: string, wanted: Contract, signal: AbortSignal): Promise<string> {
    const from = wanted.from ?? today();
    const to = wanted.to ?? dayAfter(from, settings.validity_days);
    const numbers = itemNumbers(wanted.items.length);
    const { entity } = await odata.post(
      contractService,
      'A_PurchaseContract',
      {
        ...wanted.header,
        Supplier: wanted.supplier,
        DocumentCurrency: wanted.currency,
        ValidityStartDate: odataDate(from, 'valid_from'),
        ValidityEndDate: odataDate(to, 'valid_to'),
        CorrespncExternalReference: keyMarker(key),
        to_PurchaseContractItem: wanted.items.map((item, index) => itemBody(item, numbers[index] ?? '')),
      },
      signal,
    );
    const { data } = made.safeParse(entity);
    if (!data)
      throw new UnknownOutcome('SAP made a purchase contract and did not return its number', { answered: true });
    await expectWritten(data.PurchaseContract, [], signal);
    return referenceOf(objectName, data.PurchaseContract);
  }

  /** Reads it back. `known`: changes of a person that were there before, and that the settings allow. */
  async function expectWritten(number: string, known: readonly string[], signal: AbortSignal): Promise<void> {
    const query = { filter: anyOf('PurchaseContract', [number]), expand: ['to_PurchaseContractItem'] };
    let held: HeldContract | undefined;
    try {
      [held] = await odata.list(contractService, 'A_PurchaseContract', heldContract, query, signal);
    } catch (error) {
      throw new UnknownOutcome(`purchase contract ${number} was written, but could not be read back`, {
        answered: true,
        cause: error,
      });
    }
    const changes = held ? changesIn(held).filter((change) => !known.includes(change)) : ['SAP does not show it'];
    if (changes.length > 0)
      throw new DataError(
        `SAP took purchase contract ${number}, and holds other values than were sent: ${changes.slice(0, 10).join('; ')}. Correct it in SAP, then replay the document.`,
      );
  }

  return kindOfParts(
    {
      async read(operations, signal) {
        const documents = operations.map(({ document }) => document);
        const held = await find(documents, signal);
        const written = operations.filter(({ action }) => action !== 'cancel');
        await partners.find(
          written.map(({ document }) => document.supplier),
          signal,
        );
        return held;
      },
      taskOf,
      async lookup(documents, signal) {
        const all = await find(documents, signal);
        return documents.flatMap(({ key }) =>
          ofKey(key, all).map(({ PurchaseContract: number }) => ({
            key,
            reference: referenceOf(objectName, number),
            contentHash: undefined,
          })),
        );
      },
      refused: ({ document }) => partners.forget(document.supplier),
    },
    deps,
  );
}

interface Change {
  readonly what: string;
  readonly path: string;
  readonly body: object;
  readonly etag: string | undefined;
}

/** What differs. `isOther`: only another contract can be as the award says. */
function compare(
  wanted: Contract,
  held: HeldContract,
): { add: { item: OrderItem; number: string }[]; changes: Change[]; isOther: boolean } {
  const number = held.PurchaseContract;
  const own = new Map(
    held.to_PurchaseContractItem
      .filter((item) => item.RequirementTracking !== '' && !isDeleted(item))
      .map((item) => [contractLot(item.RequirementTracking), item]),
  );
  const changes: Change[] = [];
  const header = headerChanges(wanted, held);
  if (Object.keys(header).length > 0)
    changes.push({
      what: `set ${Object.keys(header).join(', ')}`,
      path: entityPath('A_PurchaseContract', number),
      body: header,
      etag: held.__metadata?.etag,
    });
  const toAdd: OrderItem[] = [];
  let isOther = held.Supplier !== wanted.supplier || held.DocumentCurrency !== wanted.currency;
  for (const item of wanted.items) {
    const lot = contractLot(contractItemMark(item.lot, ''));
    const heldOne = own.get(lot);
    own.delete(lot);
    if (!heldOne) toAdd.push(item);
    else if (isOtherItem(item, heldOne)) isOther = true;
    else {
      const body = changedItem(item, heldOne);
      if (Object.keys(body).length === 0) continue;
      const { PurchaseContractItem, __metadata } = heldOne;
      changes.push({
        what: `change item ${PurchaseContractItem} (${item.lot}) from ${stateOfHeld(heldOne)} to ${stateOfItem(item)}`,
        path: entityPath('A_PurchaseContractItem', { PurchaseContract: number, PurchaseContractItem }),
        body,
        etag: __metadata?.etag,
      });
    }
  }
  // A lot that is gone: the service deletes no items.
  if (own.size > 0) isOther = true;
  const last = Math.max(0, ...held.to_PurchaseContractItem.map((item) => Number(item.PurchaseContractItem)));
  const numbers = itemNumbers(toAdd.length, last);
  return { add: toAdd.map((item, index) => ({ item, number: numbers[index] ?? '' })), changes, isOther };
}

function headerChanges(wanted: Contract, held: HeldContract): Record<string, string> {
  const fields: Record<string, string> = {};
  for (const name of headerFields) {
    const value = wanted.header[name];
    if (value !== undefined && value !== held[name]) fields[name] = value;
  }
  if (wanted.from !== undefined && wanted.from !== dayOfDate(held.ValidityStartDate))
    fields['ValidityStartDate'] = odataDate(wanted.from, 'valid_from');
  if (wanted.to !== undefined && wanted.to !== dayOfDate(held.ValidityEndDate))
    fields['ValidityEndDate'] = odataDate(wanted.to, 'valid_to');
  return fields;
}

/** Throws ConflictError for a contract that a person has changed, that is released, or that has call-offs. */
function expectChangeable(held: HeldContract, { changed_orders, released_orders }: Settings): void {
  const { PurchaseContract: number, PurchasingProcessingStatus: status } = held;
  const changes = changesIn(held);
  if (changes.length > 0 && changed_orders === 'refuse')
    throw new ConflictError(
      `purchase contract ${number} was changed in SAP, so it is not overwritten (settings.changed_orders): ${changes.slice(0, 10).join('; ')}`,
    );
  if (released_orders === 'change') return;
  if (released.has(status))
    throw new ConflictError(
      `purchase contract ${number} is released in SAP (PurchasingProcessingStatus ${status}), so it is not changed (settings.released_orders)`,
    );
  const called = held.to_PurchaseContractItem.find((item) => !isSameNumber(item.PurgDocReleaseOrderQuantity, '0'));
  if (called)
    throw new ConflictError(
      `item ${called.PurchaseContractItem} of purchase contract ${number} has call-offs in SAP (PurgDocReleaseOrderQuantity ${called.PurgDocReleaseOrderQuantity}), so it is not changed (settings.released_orders)`,
    );
}

/** What in the contract is not as the connector wrote it. */
function changesIn({ to_PurchaseContractItem: items }: HeldContract): string[] {
  return items.flatMap((item) => {
    const { PurchaseContractItem: number, RequirementTracking: mark } = item;
    if (mark === '') return isDeleted(item) ? [] : [`item ${number} was added`];
    if (isDeleted(item)) return [`item ${number} was deleted`];
    const expected = contractLot(mark) + contractItemMark('', stateOfHeld(item)).slice(contractLot(mark).length);
    return mark === expected ? [] : [`item ${number} has ${stateOfHeld(item)}, which the bridge has not written`];
  });
}

function isDeleted({ PurchasingContractDeletionCode }: HeldItem): boolean {
  return PurchasingContractDeletionCode !== '';
}

function stateOfHeld(item: HeldItem): string {
  const { TargetQuantity, OrderQuantityUnit, ContractNetPriceAmount, NetPriceQuantity } = item;
  return itemState({
    quantity: TargetQuantity,
    unit: OrderQuantityUnit,
    amount: ContractNetPriceAmount,
    per: NetPriceQuantity,
    due: undefined,
    account: undefined,
  });
}

function stateOfItem({ quantity, unit, price }: OrderItem): string {
  return itemState({ quantity, unit, amount: price.amount, per: price.per, due: undefined, account: undefined });
}

function shownItem(item: OrderItem): string {
  return `${item.lot}: ${stateOfItem(item)}`;
}

/** Fields that only a new item can have. */
function isOtherItem(item: OrderItem, held: HeldItem): boolean {
  if (item.unit !== held.OrderQuantityUnit) return true;
  const members = held as Readonly<Record<string, unknown>>;
  return Object.entries(fixedFields(item)).some(
    ([name, value]) => plainCode(value) !== plainCode(String(members[name])),
  );
}

function changedItem(item: OrderItem, held: HeldItem): Record<string, string> {
  const changed: Record<string, string> = {};
  if (!isSameNumber(item.quantity, held.TargetQuantity)) changed['TargetQuantity'] = item.quantity;
  const isSamePrice =
    isSameNumber(item.price.amount, held.ContractNetPriceAmount) && isSameNumber(item.price.per, held.NetPriceQuantity);
  if (!isSamePrice)
    Object.assign(changed, { ContractNetPriceAmount: item.price.amount, NetPriceQuantity: item.price.per });
  if (item.text !== held.PurchaseContractItemText) changed['PurchaseContractItemText'] = item.text;
  for (const [name, value] of Object.entries(item.changeable))
    if (value !== held[name as 'TaxCode' | 'StorageLocation']) changed[name] = value;
  const mark = contractItemMark(item.lot, stateOfItem(item));
  if (mark !== held.RequirementTracking) changed['RequirementTracking'] = mark;
  return changed;
}

/** A contract calls the item category by another name. */
function fixedFields({ fixed }: OrderItem): Record<string, string> {
  const { PurchaseOrderItemCategory: category, ...others } = fixed;
  return category === undefined ? others : { ...others, PurchasingDocumentItemCategory: category };
}

function itemBody(item: OrderItem, number: string): object {
  const { quantity, unit, price, text, changeable } = item;
  return {
    PurchaseContractItem: number,
    PurchaseContractItemText: text,
    ...fixedFields(item),
    ...changeable,
    TargetQuantity: quantity,
    OrderQuantityUnit: unit,
    OrderPriceUnit: unit,
    ContractNetPriceAmount: price.amount,
    NetPriceQuantity: price.per,
    RequirementTracking: contractItemMark(item.lot, stateOfItem(item)),
  };
}

/** Throws DataError for a value that SAP cannot keep, with the names of the field and of the lot. */
export function contractOf(award: AwardDocument, supplier: string, settings: Settings): Contract {
  const { currency, lines } = award;
  const fields: Readonly<Record<string, string>> = award.fields ?? {};
  checkFields(fields, 'contracts');
  if (!/^[A-Z]{3}$/u.test(currency))
    throw new DataError(`the currency is "${currency}", which is no ISO code (DocumentCurrency)`);
  const from = (name: string, setting: string | undefined) => fields[name] ?? setting;
  const { valid_from, valid_to } = fields;
  for (const [name, day] of Object.entries({ valid_from, valid_to })) if (day !== undefined) odataDate(day, name);
  if (valid_from !== undefined && valid_to !== undefined && valid_to < valid_from)
    throw new DataError(`valid_to is ${valid_to}, before valid_from ${valid_from} (ValidityEndDate)`);
  // The account assignment of a contract's items is a call-off's matter.
  const own = { ...settings, account_assignment_category: undefined };
  const items = lines.map((line) => itemOf(line, currency, own, 'lines of contracts'));
  const lots = new Set(items.map(({ lot }) => contractLot(contractItemMark(lot, ''))));
  if (lots.size < items.length)
    throw new DataError('two lots have the same mark in RequirementTracking: give one of them another name');
  return {
    supplier,
    currency,
    header: present({
      CompanyCode: ['company_code', from('company_code', settings.company_code)],
      PurchaseContractType: ['contract_type', from('contract_type', settings.contract_type)],
      PurchasingOrganization: [
        'purchasing_organization',
        from('purchasing_organization', settings.purchasing_organization),
      ],
      PurchasingGroup: ['purchasing_group', from('purchasing_group', settings.purchasing_group)],
      PaymentTerms: ['payment_terms', from('payment_terms', settings.payment_terms)],
      IncotermsClassification: ['incoterms', from('incoterms', settings.incoterms)],
      IncotermsLocation1: ['incoterms_location', from('incoterms_location', settings.incoterms_location)],
      CorrespncInternalReference: ['our_reference', fields['our_reference']],
    }),
    from: valid_from,
    to: valid_to,
    items,
  };
}

/** The last of so many days, of which `day` is the first. */
export function dayAfter(day: string, days: number): string {
  return new Date(Date.parse(`${day}T00:00:00Z`) + (days - 1) * dayMs).toISOString().slice(0, 10);
}
