/** What an award is as prices in info records: pure, from the document and the settings. */
import { type AwardDocument, type AwardLine, DataError, readDecimal } from 'sourcing-bridge/connector';
import { fitted } from './limits.ts';
import { checkFields, scalePrefix } from './mapping-fields.ts';
import { odataDate } from './odata.ts';
import { isSameNumber, netPrice, orderQuantity, type Price, pricesPerSame } from './prices.ts';
import type { Settings } from './settings.ts';
import { sapUnit } from './units.ts';

export interface WantedPrice {
  readonly lot: string;
  readonly material: string;
  readonly plant: string;
  readonly unit: string;
  readonly quantity: string;
  readonly price: Price;
  /** From the smallest quantity on; empty without scales. The first is the price itself. */
  readonly scales: readonly { readonly from: string; readonly amount: string }[];
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
  const { lot, quantity, unit_price: unitPrice } = line;
  const fields: Readonly<Record<string, string>> = line.fields ?? {};
  const where = `lot "${lot}"`;
  checkFields(fields, 'lines of info records');
  const material = fields['material'] ?? '';
  if (material === '') throw new DataError(`${where} has no material, which an info record needs (Material)`);
  if (unitPrice === undefined)
    throw new DataError(`${where} has no unit_price: the flow has to name its column (ConditionRateValue)`);
  const given = Object.entries(fields).filter(([name, value]) => name.startsWith(scalePrefix) && value !== '');
  const scales = given
    .map(([name, value]) => ({
      from: orderQuantity(name.slice(scalePrefix.length), `${where}: the quantity in ${name}`),
      price: netPrice(value, currency, `${where}: ${name}`),
    }))
    .toSorted((a, b) => readDecimal(a.from, where).comparedTo(readDecimal(b.from, where)));
  const base = netPrice(unitPrice, currency, `${where}: unit_price`);
  const [price = base, ...rates] = pricesPerSame([base, ...scales.map((scale) => scale.price)], where);
  const lines = scales.map(({ from }, index) => ({ from, amount: rates[index]?.amount ?? '' }));
  const days = fields['delivery_days'];
  if (days !== undefined && !/^\d{1,3}$/u.test(days))
    throw new DataError(`${where}: delivery_days is "${days.slice(0, 20)}" (MaterialPlannedDeliveryDurn, 3 digits)`);
  const tax = fields['tax_code'] ?? settings.tax_code;
  const isFirst = lines[0] !== undefined && isSameNumber(lines[0].from, '1');
  return {
    lot,
    material: fitted('Material', material, `${where}: material`),
    plant: fitted('Plant', fields['plant'] ?? settings.plant ?? '', `${where}: plant`),
    unit: sapUnit(fields['unit'] ?? settings.unit, settings, `${where}: unit`),
    quantity: orderQuantity(quantity ?? '1', `${where}: quantity`),
    price,
    scales: lines.length === 0 || isFirst ? lines : [{ from: '1', amount: price.amount }, ...lines],
    fields: {
      PurchasingGroup: fitted('PurchasingGroup', group, 'purchasing_group'),
      ...(tax === undefined ? {} : { TaxCode: fitted('TaxCode', tax, `${where}: tax_code`) }),
      ...(days === undefined ? {} : { MaterialPlannedDeliveryDurn: days }),
    },
  };
}
