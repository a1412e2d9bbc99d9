/** What the SAP connector makes of documents, without SAP. */
import { assert, bigInt, integer, property } from 'fast-check';
import { describe, expect, test } from 'vitest';
import { Decimal } from '#connector/numbers.ts';
import { externalNumber, keyMarker } from '../../../connectors/sap-s4hana/markers.ts';
import { parseRecord, recordText } from '../../../connectors/sap-s4hana/order-record.ts';
import { itemNumbers, orderBody, orderOf } from '../../../connectors/sap-s4hana/order-values.ts';
import { netPrice, orderQuantity } from '../../../connectors/sap-s4hana/prices.ts';
import { settings } from '../../../connectors/sap-s4hana/settings.ts';
import { sapUnit } from '../../../connectors/sap-s4hana/units.ts';
import { awardOf, lineOf } from './documents.ts';
import { sapSettings } from './sap-settings.ts';

const plain = settings.parse(sapSettings('https://sap.example.com'));

describe('a price', () => {
  test.each([
    ['12.5', 'EUR', '12.5', '1'],
    ['0.0125', 'EUR', '1.25', '100'],
    ['0.5', 'JPY', '5', '10'],
    ['12.345', 'KWD', '12.345', '1'],
    ['12.5', 'TWD', '125', '10'],
  ])('%s %s is %s per %s', (price, currency, amount, per) => {
    expect(netPrice(price, currency, 'a price')).toEqual({ amount, per });
  });

  test.each([
    ['0.00000123', 'EUR'],
    ['1234567890', 'EUR'],
    ['-1', 'EUR'],
  ])('%s %s is refused', (price, currency) => {
    expect(() => netPrice(price, currency, 'lot "A": unit_price')).toThrow(/^lot "A": unit_price .*NetPriceAmount/);
  });

  test('is exact: the amount divided by its units is the price, for every price that is taken', () => {
    assert(
      property(bigInt({ min: 0n, max: 99_999_999_999n }), integer({ min: 0, max: 7 }), (digits, places) => {
        const price = new Decimal(digits.toString()).dividedBy(new Decimal(10).pow(places)).toFixed();
        let kept: { amount: string; per: string };
        try {
          kept = netPrice(price, 'EUR', 'a price');
        } catch {
          return;
        }
        expect(new Decimal(kept.amount).dividedBy(kept.per).toFixed()).toBe(price);
        expect(new Decimal(kept.amount).decimalPlaces()).toBeLessThanOrEqual(2);
      }),
    );
  });
});

test('a quantity has at most three decimals, ten digits before them, and is above zero', () => {
  expect(orderQuantity('2.125', 'a quantity')).toBe('2.125');
  for (const wrong of ['2.1255', '10000000000', '0', '-3', '1e3'])
    expect(() => orderQuantity(wrong, 'lot "A": quantity')).toThrow('lot "A": quantity');
});

test('a unit is an ISO code, one of the settings, or SAP’s own', () => {
  expect(sapUnit('KGM', plain, 'unit')).toBe('KG');
  expect(sapUnit('ROL', plain, 'unit')).toBe('ROL');
  expect(sapUnit('Rolle', { ...plain, units: { Rolle: 'ROL' } }, 'unit')).toBe('ROL');
  expect(() => sapUnit('Rolle', plain, 'lot "A": unit')).toThrow('lot "A": unit is "Rolle"');
});

test('the mark of a key is the beginning of its SHA-256 in base32', () => {
  // printf 'event/supplier' | sha256sum | cut -c1-16 | xxd -r -p | base32 | cut -c1-12
  expect(keyMarker('event/supplier')).toBe('2XEX55J3RVHK');
});

test('a supplier’s key is kept as it is where SAP surely keeps it, else hashed into 20 characters', () => {
  expect(externalNumber('V-4711')).toBe('V-4711');
  const hashed = ['v-4711', 'V'.repeat(21), 'SB-ABC', '3f1c0b6e-95a6-4a8c-9c0e-0d6ad86fb5b9'].map(externalNumber);
  for (const number of hashed) expect(number).toMatch(/^SB-[A-Z2-7]{17}$/);
  expect(new Set(hashed).size).toBe(hashed.length);
});

test('the record of an order is read as it was written, whatever the remarks are', () => {
  const record = {
    key: 'e/s',
    hash: 'ab'.repeat(32),
    supplier: '17300001',
    currency: 'EUR',
    items: [
      { item: '10', lot: 'MZXW6YTBOI23', state: '3 PC 40.16/1' },
      { item: '20', lot: 'ACWVNUCIX4WG', state: 'none' },
    ],
  };
  const remarks = ['Sourcing event: key of\nhash supplier', 'item 10 ABC 1 PC 1/1'];
  expect(parseRecord(recordText(record, remarks))).toEqual(record);
  expect(parseRecord(recordText(record, remarks).replaceAll('\n', '\r\n'))).toEqual(record);
  expect(parseRecord('Call the supplier first')).toBeUndefined();
});

test('items are numbered in tens, after the last one, up to SAP’s last number', () => {
  expect(itemNumbers(2)).toEqual(['10', '20']);
  expect(itemNumbers(2, 35)).toEqual(['40', '50']);
  expect(() => itemNumbers(2, 99_980)).toThrow('PurchaseOrderItem');
});

test('an award is an order with the fields of the mapping and of the settings', () => {
  const award = awardOf({
    fields: { purchasing_group: '002', payment_terms: '0001' },
    lines: [
      lineOf('Sheets', {
        fields: {
          material: 'TG11',
          unit: 'PCE',
          tax_code: 'V1',
          account_assignment_category: 'K',
          cost_center: '10101101',
          delivery_date: '2030-03-31',
          requisition: '10000017',
          requisition_item: '00010',
        },
      }),
    ],
  });
  expect(orderBody(orderOf(award, 'ab'.repeat(32), { number: '17300001' }, plain), ['10'], plain)).toMatchObject({
    CompanyCode: '1010',
    PurchaseOrderType: 'NB',
    PurchasingGroup: '002',
    PaymentTerms: '0001',
    Supplier: '17300001',
    DocumentCurrency: 'EUR',
    CorrespncExternalReference: keyMarker(award.key),
    to_PurchaseOrderItem: [
      {
        PurchaseOrderItem: '10',
        PurchaseOrderItemText: 'Sheets',
        Material: 'TG11',
        Plant: '1010',
        TaxCode: 'V1',
        OrderQuantity: '4',
        PurchaseOrderQuantityUnit: 'PC',
        NetPriceAmount: '2.5',
        NetPriceQuantity: '1',
        AccountAssignmentCategory: 'K',
        PurchaseRequisition: '10000017',
        PurchaseRequisitionItem: '00010',
        to_AccountAssignment: [{ AccountAssignmentNumber: '1', CostCenter: '10101101' }],
        // 2030-03-31 is 22,004 days after 1970-01-01.
        to_ScheduleLine: [{ ScheduleLine: '1', ScheduleLineDeliveryDate: '/Date(1901145600000)/' }],
      },
    ],
  });
});

test('a lot of a Dutch auction, which has a cost and no price of a piece, is ordered at its cost by the quantity', () => {
  const award = awardOf({ lines: [lineOf('Sheets', { quantity: '8', unit_price: undefined, cost: '50' })] });
  const [item] = orderOf(award, 'ab'.repeat(32), { number: '17300001' }, plain).items;
  expect(item).toMatchObject({ quantity: '8', price: { amount: '6.25', per: '1' } });
});

describe('a document that SAP cannot keep is refused before it is sent, with the field’s name', () => {
  const line = (more: Parameters<typeof lineOf>[1]) => awardOf({ lines: [lineOf('Sheets', more)] });
  test.each([
    ['a currency that is none', awardOf({ currency: 'EURO' }), 'DocumentCurrency'],
    ['a purchasing group of 4', awardOf({ fields: { purchasing_group: '0011' } }), 'PurchasingGroup'],
    ['a date that is none', awardOf({ fields: { document_date: '31.12.2030' } }), 'document_date'],
    ['a field that is unknown', awardOf({ fields: { buyer: 'x' } }), 'buyer'],
    [
      'a quantity whose cost has no end as a price',
      line({ quantity: '3', unit_price: undefined }),
      /^lot "Sheets": it has the quantity 3 and no unit price/,
    ],
    ['a quantity of 0', line({ quantity: '0' }), 'OrderQuantity'],
    ['a price with too many decimals', line({ unit_price: '0.1234567' }), 'NetPriceAmount'],
    ['a unit of 5', line({ fields: { unit: 'ROLLE' } }), 'PurchaseOrderQuantityUnit'],
    ['a text of 41', line({ fields: { text: 'x'.repeat(41) } }), 'PurchaseOrderItemText'],
    ['a material without a unit', line({ fields: { material: 'TG11' } }), 'PurchaseOrderQuantityUnit'],
    ['an item category D', line({ fields: { item_category: 'D' } }), 'PurchaseOrderItemCategory'],
    ['a requisition without its item', line({ fields: { requisition: '10000017' } }), 'requisition_item'],
    ['a day that is not in the calendar', line({ fields: { delivery_date: '2030-02-30' } }), 'delivery_date'],
  ])('%s', (_what, award, field) => {
    expect(() => orderOf(award, 'ab'.repeat(32), { number: '17300001' }, plain)).toThrow(field);
  });
});
