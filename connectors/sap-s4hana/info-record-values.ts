/** What an award is as prices in info records: pure, from the document and the settings. */
import { type AwardDocument, type AwardLine, DataError } from 'sourcing-bridge/connector';
import { fitted } from './limits.ts';
import { checkFields } from './mapping-fields.ts';
import { odataDate } from './odata.ts';
import { amountOf, unitOf } from './order-values.ts';
import { netPrice, orderQuantity, type Price } from './prices.ts';
import type { Settings } from './settings.ts';

/** PurchasingInfoRecordCategory: standard. */
export const standard = '0';

export interface WantedPrice {
  readonly lot: string;
  readonly material: string;
  readonly plant: string;
  readonly unit: string;
  readonly quantity: string;
  readonly price: Price;
  /** Fields of A_PurgInfoRecdOrgPlantData beside its key. */
  readonly fields: Readonly<Record<string, string>>;
}

export interface Wanted {
  readonly organization: string;
  readonly currency: string;
  /** Days; undefined where the mapping names none. */
  readonly from: string | undefined;
  readonly to: string | undefined;
  readonly prices: readonly WantedPrice[];
}

/** Throws DataError for a value that SAP cannot keep, with the names of the field and of the lot. */
export function wantedOf(award: AwardDocument, settings: Settings): Wanted {
  const fields: Readonly<Record<string, string>> = award.fields ?? {};
  checkFields(fields, 'info records');
  const { currency } = award;
  if (!/^[A-Z]{3}$/u.test(currency))
    throw new DataError(`the currency is "${currency}", which is no ISO code (Currency)`);
  const { valid_from, valid_to } = fields;
  for (const [name, day] of Object.entries({ valid_from, valid_to })) if (day !== undefined) odataDate(day, name);
  const group = fields['purchasing_group'] ?? settings.purchasing_group;
  const organization = fields['purchasing_organization'] ?? settings.purchasing_organization;
  const prices = award.lines.map((line) => wantedPrice(line, { currency, settings, group }));
  const places = prices.map(({ material, plant }) => `${material} ${plant}`);
  const twice = places.find((place, index) => places.indexOf(place) !== index);
  if (twice !== undefined)
    throw new DataError(`two lots set the price of the same material and plant (Material ${twice})`);
  return {
    organization: fitted('PurchasingOrganization', organization, 'purchasing_organization'),
    currency,
    from: valid_from,
    to: valid_to,
    prices,
  };
}

function wantedPrice(
  line: AwardLine,
  { currency, settings, group }: { currency: string; settings: Settings; group: string },
): WantedPrice {
  const { lot } = line;
  const fields: Readonly<Record<string, string>> = line.fields ?? {};
  const where = `lot "${lot}"`;
  checkFields(fields, 'lines of info records');
  const material = fields['material'] ?? '';
  if (material === '') throw new DataError(`${where} has no material, which an info record needs (Material)`);
  // A lot as one piece at its cost is no price of a material.
  if (line.quantity === undefined && line.unit_price === undefined)
    throw new DataError(`${where} has no unit_price: the flow has to name its column (ConditionRateValue)`);
  const { quantity, unitPrice } = amountOf(line, where);
  const days = fields['delivery_days'];
  if (days !== undefined && !/^\d{1,3}$/u.test(days))
    throw new DataError(`${where}: delivery_days is "${days.slice(0, 20)}" (MaterialPlannedDeliveryDurn, 3 digits)`);
  const tax = fields['tax_code'] ?? settings.tax_code;
  return {
    lot,
    material: fitted('Material', material, `${where}: material`),
    plant: fitted('Plant', fields['plant'] ?? settings.plant ?? '', `${where}: plant`),
    unit: unitOf(fields, settings, where),
    quantity: orderQuantity(quantity, `${where}: quantity`),
    price: netPrice(unitPrice, currency, `${where}: ${line.unit_price === undefined ? 'cost' : 'unit_price'}`),
    fields: {
      PurchasingGroup: fitted('PurchasingGroup', group, 'purchasing_group'),
      ...(tax === undefined ? {} : { TaxCode: fitted('TaxCode', tax, `${where}: tax_code`) }),
      ...(days === undefined ? {} : { MaterialPlannedDeliveryDurn: days }),
    },
  };
}

/** `250/100 EUR`. */
export function shownPrice({ currency }: Wanted, { price }: WantedPrice): string {
  return `${price.amount}/${price.per} ${currency}`;
}

/** A new info record's data for the organization and plant, with the mark of the award. */
export function organizationBody(
  wanted: Wanted,
  { plant, fields, price, unit, quantity }: WantedPrice,
  { mark, from }: { mark: string; from: string },
): object {
  return {
    PurchasingInfoRecordCategory: standard,
    PurchasingOrganization: wanted.organization,
    Plant: plant,
    ...fields,
    SupplierQuotation: mark,
    SupplierQuotationDate: odataDate(from, 'valid_from'),
    Currency: wanted.currency,
    NetPriceAmount: price.amount,
    MaterialPriceUnitQty: price.per,
    PurchaseOrderPriceUnit: unit,
    StandardPurchaseOrderQuantity: quantity,
  };
}

export function rateOf({ currency }: Wanted, { price, unit }: WantedPrice): Record<string, string> {
  return {
    ConditionRateValue: price.amount,
    ConditionRateValueUnit: currency,
    ConditionQuantity: price.per,
    ConditionQuantityUnit: unit,
  };
}

/** A condition record with its validity. */
export function conditionBody(
  given: { wanted: Wanted; price: WantedPrice; supplier: string; from: string; to: string },
  { price_condition_type }: Settings,
): object {
  const { wanted, price, supplier, from, to } = given;
  // ConditionApplication M: purchasing.
  const head = {
    ConditionApplication: 'M',
    ConditionType: price_condition_type,
    ConditionValidityStartDate: odataDate(from, 'valid_from'),
    ConditionValidityEndDate: odataDate(to, 'valid_to'),
  };
  const place = {
    Supplier: supplier,
    Material: price.material,
    PurchasingOrganization: wanted.organization,
    PurchasingInfoRecordCategory: standard,
    Plant: price.plant,
  };
  return {
    // Prices of info records with and without a plant.
    ConditionTable: price.plant === '' ? '018' : '017',
    ConditionSequentialNumber: '1',
    ...head,
    ...rateOf(wanted, price),
    // C: a rate for a quantity.
    ConditionCalculationType: 'C',
    to_PurgPrcgCndnRecdValidity: [{ ...head, ...place }],
  };
}
