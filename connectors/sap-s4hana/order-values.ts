/** What an award is as a purchase order of SAP: pure, from the document, the settings and the supplier's number. */
import { type AwardDocument, type AwardLine, awardAmount, DataError, type LotAmount } from 'sourcing-bridge/connector';
import { cut, fitted, type LimitedField } from './limits.ts';
import { checkFields } from './mapping-fields.ts';
import { keyMarker, lotMarker } from './markers.ts';
import { dayOfDate, odataDate } from './odata.ts';
import { accountText, type ItemState, itemState, type OrderRecord, recordText } from './order-record.ts';
import { netPrice, orderQuantity, type Price } from './prices.ts';
import type { Settings } from './settings.ts';
import { sapUnit } from './units.ts';

export interface OrderItem {
  readonly lot: string;
  readonly mark: string;
  readonly quantity: string;
  readonly unit: string;
  readonly price: Price;
  /** PurchaseOrderItemText: the lot's name, or its beginning. */
  readonly text: string;
  /** Fields of A_PurchaseOrderItem that SAP lets be changed, beside quantity, price and text. */
  readonly changeable: Readonly<Record<string, string>>;
  /** Fields of it that only a new item can have. */
  readonly fixed: Readonly<Record<string, string>>;
  /** Fields of A_PurOrdAccountAssignment; empty without an account assignment. */
  readonly account: Readonly<Record<string, string>>;
  /** `/Date(…)/`. */
  readonly deliveryDate: string | undefined;
}

export interface Order {
  readonly key: string;
  readonly marker: string;
  readonly hash: string;
  readonly supplier: string;
  readonly currency: string;
  /** The supplier's, in which SAP prints the order; undefined: SAP's. */
  readonly language: string | undefined;
  /** Fields of A_PurchaseOrder beside supplier, currency and marker. */
  readonly header: Readonly<Record<string, string>>;
  readonly items: readonly OrderItem[];
  readonly remarks: readonly string[];
}

const itemStep = 10;
/** PurchaseOrderItem has five digits. */
const itemMax = 99_990;

/** Throws DataError for a value that SAP cannot keep, with the names of the field and of the lot. */
export function orderOf(
  award: AwardDocument,
  hash: string,
  { number: supplier, language }: { readonly number: string; readonly language?: string | undefined },
  settings: Settings,
): Order {
  const { key, currency, event, lines, total_cost } = award;
  const fields: Readonly<Record<string, string>> = award.fields ?? {};
  checkFields(fields, 'awards');
  const header = {
    ...headerOf(award, settings),
    ...present({ PurchaseOrderType: ['order_type', fields['order_type'] ?? settings.order_type] }),
  };
  const date = fields['document_date'];
  const { name, reference_id } = event;
  return {
    key,
    marker: keyMarker(key),
    hash,
    supplier,
    currency,
    language,
    header: date === undefined ? header : { ...header, PurchaseOrderDate: odataDate(date, 'the field document_date') },
    items: lines.map((line) => itemOf(line, currency, settings)),
    remarks: [
      `Sourcing event: ${name}${reference_id === undefined ? '' : ` (${reference_id})`}`,
      `Total cost: ${total_cost} ${currency}`,
      ...lines.map((line) => remarkOf(line, currency)),
    ],
  };
}

/** The fields of the header that orders and contracts share. */
export function headerOf(award: AwardDocument, settings: Settings): Record<string, string> {
  const { currency } = award;
  const fields: Readonly<Record<string, string>> = award.fields ?? {};
  if (!/^[A-Z]{3}$/u.test(currency))
    throw new DataError(`the currency is "${currency}", which is no ISO code (DocumentCurrency)`);
  const from = (name: 'company_code' | 'purchasing_organization' | 'purchasing_group') =>
    [name, fields[name] ?? settings[name]] as const;
  return present({
    CompanyCode: from('company_code'),
    PurchasingOrganization: from('purchasing_organization'),
    PurchasingGroup: from('purchasing_group'),
    PaymentTerms: ['payment_terms', fields['payment_terms']],
    IncotermsClassification: ['incoterms', fields['incoterms']],
    IncotermsLocation1: ['incoterms_location', fields['incoterms_location']],
    CorrespncInternalReference: ['our_reference', fields['our_reference']],
  });
}

/** `owner`: whose fields the line's mapping may set. */
export function itemOf(
  line: AwardLine,
  currency: string,
  settings: Settings,
  owner: 'lines of awards' | 'lines of contracts' = 'lines of awards',
): OrderItem {
  const { lot } = line;
  const fields: Readonly<Record<string, string>> = line.fields ?? {};
  checkFields(fields, owner);
  const where = `lot "${lot}"`;
  const from = (name: string, setting: string | undefined) => fields[name] ?? setting;
  const lotFields = (given: Parameters<typeof present>[0]) => present(given, `${where}: `);
  const material = fields['material'];
  const category = from('account_assignment_category', settings.account_assignment_category);
  const requisition = fields['requisition'];
  if ((requisition === undefined) !== (fields['requisition_item'] === undefined))
    throw new DataError(`${where}: requisition and requisition_item are set together`);
  const { quantity, unitPrice } = amountOf(line, where);
  const date = fields['delivery_date'];
  return {
    lot,
    mark: lotMarker(lot),
    quantity: orderQuantity(quantity, `${where}: quantity`),
    unit: unitOf(fields, settings, where),
    price: netPrice(unitPrice, currency, `${where}: ${line.unit_price === undefined ? 'cost' : 'unit_price'}`),
    text:
      fields['text'] === undefined
        ? cut('PurchaseOrderItemText', lot)
        : fitted('PurchaseOrderItemText', fields['text'], `${where}: text`),
    changeable: lotFields({
      TaxCode: ['tax_code', from('tax_code', settings.tax_code)],
      StorageLocation: ['storage_location', fields['storage_location']],
    }),
    fixed: lotFields({
      Material: ['material', material],
      MaterialGroup: [
        'material_group',
        from('material_group', material === undefined ? settings.material_group : undefined),
      ],
      SupplierMaterialNumber: ['supplier_material', fields['supplier_material']],
      Plant: ['plant', from('plant', settings.plant)],
      PurchaseOrderItemCategory: ['item_category', categoryOf(fields['item_category'], where)],
      AccountAssignmentCategory: ['account_assignment_category', category],
      PurchaseRequisition: ['requisition', requisition],
      PurchaseRequisitionItem: ['requisition_item', fields['requisition_item']],
    }),
    account:
      category === undefined
        ? {}
        : lotFields({
            CostCenter: ['cost_center', from('cost_center', settings.cost_center)],
            GLAccount: ['gl_account', from('gl_account', settings.gl_account)],
            OrderID: ['order', fields['order']],
            WBSElementExternalID: ['wbs_element', fields['wbs_element']],
          }),
    deliveryDate: date === undefined ? undefined : odataDate(date, `${where}: delivery_date`),
  };
}

/** Throws DataError, with the lot, for a line that is ordered by neither its numbers nor its cost. */
export function amountOf(line: AwardLine, where: string): LotAmount {
  try {
    return awardAmount(line);
  } catch (error) {
    if (error instanceof DataError) throw new DataError(`${where}: ${error.message}`, { cause: error });
    throw error;
  }
}

/** KBA 3555741: the item categories that SAP's service takes, by their internal symbols. */
const itemCategories: ReadonlySet<string> = new Set(['0', '2', '3', '5', 'A']);

function categoryOf(category: string | undefined, where: string): string | undefined {
  if (category === undefined || category === '' || itemCategories.has(category)) return category;
  throw new DataError(
    `${where}: item_category is "${category.slice(0, 20)}": SAP's service takes ${[...itemCategories].join(', ')} (the internal symbols, PurchaseOrderItemCategory)`,
  );
}

/** A unit of SAP. A material has units of its own in SAP, so the setting's is never used beside one. */
export function unitOf(fields: Readonly<Record<string, string>>, settings: Settings, where: string): string {
  const { unit, material = '' } = fields;
  if (unit === undefined && material !== '')
    throw new DataError(
      `${where} has the material ${material.slice(0, 40)} and no unit: the mapping has to name one of the material's units in SAP (unit, PurchaseOrderQuantityUnit)`,
    );
  return sapUnit(unit ?? settings.unit, settings, `${where}: unit`);
}

/** The fields that are set, each held against its length. */
export function present(
  given: Readonly<Partial<Record<LimitedField, readonly [field: string, value: string | undefined]>>>,
  where = '',
): Record<string, string> {
  const known: Record<string, string> = {};
  for (const [name, [field, value]] of Object.entries(given) as [LimitedField, readonly [string, string | undefined]][])
    if (value !== undefined && value !== '') known[name] = fitted(name, value, `${where}${field}`);
  return known;
}

/** Cost and savings are for the buyer: the record's text is not printed. */
function remarkOf({ lot, share, cost, historic_cost, savings }: AwardLine, currency: string): string {
  const more = [
    ...(historic_cost === undefined ? [] : [`historic cost ${historic_cost} ${currency}`]),
    ...(savings === undefined ? [] : [`savings ${savings} ${currency}`]),
  ];
  return `${lot}: share ${share}, ${[`cost ${cost} ${currency}`, ...more].join(', ')}`;
}

export function stateOf({ quantity, unit, price, deliveryDate, account }: OrderItem): ItemState {
  return itemState({
    quantity,
    unit,
    priceUnit: unit,
    amount: price.amount,
    per: price.per,
    due: dayOfDate(deliveryDate),
    account: Object.keys(account).length === 0 ? undefined : accountText(account),
  });
}

/** Item numbers after `last`: 10, 20, 30. Throws DataError where SAP has no further one. */
export function itemNumbers(count: number, last = 0): string[] {
  const begin = Math.ceil((last + 1) / itemStep) * itemStep;
  const numbers = Array.from({ length: count }, (_, index) => begin + index * itemStep);
  if (count > 0 && (numbers.at(-1) as number) > itemMax)
    throw new DataError(
      `the order would have an item ${numbers.at(-1)}: SAP's last one is ${itemMax} (PurchaseOrderItem)`,
    );
  return numbers.map(String);
}

/** The record of a new order, whose items have these numbers. */
export function recordOf(order: Order, numbers: readonly string[]): OrderRecord {
  const { key, hash, supplier, currency, items } = order;
  return {
    key,
    hash,
    supplier,
    currency,
    items: items.map((item, index) => ({ item: numbers[index] ?? '', lot: item.mark, state: stateOf(item) })),
  };
}

/** The body of a POST that makes the whole order. */
export function orderBody(order: Order, numbers: readonly string[], settings: Settings): object {
  const { supplier, currency, language, marker, header, items, remarks } = order;
  return {
    ...header,
    Supplier: supplier,
    DocumentCurrency: currency,
    ...(language === undefined ? {} : { Language: language }),
    CorrespncExternalReference: marker,
    to_PurchaseOrderItem: items.map((item, index) => itemBody(item, numbers[index] ?? '', language, settings)),
    to_PurchaseOrderNote: [
      noteBody(recordText(recordOf(order, numbers), remarks), settings.note_type, settings.language),
    ],
  };
}

/** The fields of A_PurchaseOrderItem that the connector writes. */
export function itemFields({ quantity, unit, price, text, changeable, fixed }: OrderItem): Record<string, string> {
  return {
    PurchaseOrderItemText: text,
    ...fixed,
    ...changeable,
    OrderQuantity: quantity,
    PurchaseOrderQuantityUnit: unit,
    OrderPriceUnit: unit,
    NetPriceAmount: price.amount,
    NetPriceQuantity: price.per,
  };
}

/** The body of a POST that adds an item, with its text in the language of the order, in which SAP prints it. */
export function itemBody(item: OrderItem, number: string, language: string | undefined, settings: Settings): object {
  const { quantity, account, deliveryDate, lot } = item;
  return {
    PurchaseOrderItem: number,
    ...itemFields(item),
    ...(Object.keys(account).length === 0
      ? {}
      : { to_AccountAssignment: [{ AccountAssignmentNumber: '1', ...account }] }),
    ...(deliveryDate === undefined
      ? {}
      : {
          to_ScheduleLine: [
            { ScheduleLine: '1', ScheduleLineDeliveryDate: deliveryDate, ScheduleLineOrderQuantity: quantity },
          ],
        }),
    to_PurchaseOrderItemNote: [noteBody(lot, settings.item_text_type, language ?? settings.language)],
  };
}

export function noteBody(text: string, type: string, language: string): object {
  return { TextObjectType: type, Language: language, PlainLongText: text };
}
