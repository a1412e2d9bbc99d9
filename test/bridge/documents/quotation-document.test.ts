import { describe, expect, test } from 'vitest';
import { makeQuotationDocument } from '#bridge/documents/quotation-document.ts';
import { documentSchemas } from '#connector/documents.ts';
import { eventRecord, idOf } from '../parts.ts';
import { bidRecord, documentOf, inFlow, standing } from './records.ts';

const event = idOf(0xe1);
const [s1, s2] = [idOf(11), idOf(12)];
const noColumns = { quantity: undefined, unitPrice: undefined };

function make(
  bids: readonly { record: unknown; gone: boolean }[],
  more: Partial<Parameters<typeof makeQuotationDocument>[0]> = {},
) {
  return makeQuotationDocument({
    eventId: event,
    supplierId: s1,
    event: inFlow({ record: eventRecord(event, [s1, s2]) }),
    supplier: undefined,
    bids,
    columns: noColumns,
    ...more,
  });
}

describe('a quotation', () => {
  test('shows what one supplier bids: the whole lot, without a share', () => {
    const made = make(
      standing([
        bidRecord(idOf(22), event, s1, '25.00', {
          lot_name: 'B',
          bid_sheet_values: [
            { column_name: 'Volume', value: '10' },
            { column_name: 'Price', value: '2.50', currency: 'USD' },
          ],
          sourcing_request: idOf(90),
        }),
        bidRecord(idOf(21), event, s1, '3', { lot_name: 'A', bid_sheet_values: [{ column_name: 'Cost', value: '3' }] }),
        bidRecord(idOf(23), event, s2, '99', { lot_name: 'A' }),
      ]),
      {
        columns: { quantity: 'Volume', unitPrice: 'Price' },
        event: inFlow({
          record: eventRecord(event, [s1, s2], { secondary_currencies: [{ code: 'USD', exchange_rate: '0.9' }] }),
        }),
      },
    );
    expect(made).toEqual({
      made: 'document',
      wanted: true,
      document: {
        kind: 'quotation',
        key: `${event}/${s1}`,
        event: { id: event, name: 'Office chairs', type: 'RFQ', is_test: false, tags: [] },
        supplier: { id: s1, name: 'Supplier 0' },
        currency: 'EUR',
        exchange_rates: [{ code: 'USD', exchange_rate: '0.9' }],
        lines: [
          { lot: 'A', bids: [{ value: '3' }], values: [{ column: 'Cost', value: '3' }] },
          {
            lot: 'B',
            sourcing_request: idOf(90),
            quantity: '10',
            // 2.50 USD at 0.9.
            unit_price: '2.25',
            bids: [{ value: '25.00' }],
            values: [
              { column: 'Volume', value: '10' },
              { column: 'Price', value: '2.50', currency: 'USD' },
            ],
          },
        ],
      },
    });
    expect(documentSchemas.quotation.parse(documentOf(made))).toEqual(documentOf(made));
  });

  test('with a price and no quantity is rejected', () => {
    const columns = { quantity: 'Volume', unitPrice: 'Price' };
    expect(make(standing([bidRecord(idOf(21), event, s1, '3', { lot_name: 'A' })]), { columns })).toEqual({
      made: 'rejected',
      reason: 'lot "A": it has a unit price and no quantity: the sheet has no column "Volume"; it has: Price',
    });
  });

  test('of a Dutch auction shows each price with its volume', () => {
    const bids = [
      { value: '9.5', volume: '100' },
      { value: '9', volume: '500' },
    ];
    const [line] = documentOf(make(standing([bidRecord(idOf(21), event, s1, null, { bids })]))).lines;
    expect(line).toMatchObject({ bids });
  });

  test('is the same whatever the order of its bids, also for lots with the same name', () => {
    const bids = [1, 2, 3].map((n) => bidRecord(idOf(20 + n), event, s1, `${n}`, { lot_name: n < 3 ? 'B' : 'A' }));
    for (const order of [bids, bids.toReversed()])
      expect(documentOf(make(standing(order))).lines.map(({ bids: [bid] }) => bid?.value)).toEqual(['3', '1', '2']);
  });

  test('keeps a bid that has only a price or only values', () => {
    const [priced, described] = [
      bidRecord(idOf(21), event, s1, null, { bids: [{ value: '1' }] }),
      bidRecord(idOf(22), event, s1, null, { bid_sheet_values: [{ column_name: 'Colour', value: 'red' }] }),
    ];
    expect(documentOf(make(standing([priced, described]))).lines).toMatchObject([
      { bids: [{ value: '1' }], values: [] },
      { bids: [], values: [{ column: 'Colour', value: 'red' }] },
    ]);
  });

  test('loses the line of a bid that was withdrawn, and is not wanted when none is left', () => {
    const [a, b] = [bidRecord(idOf(21), event, s1, '1'), bidRecord(idOf(22), event, s1, '2')];
    const withdrawn = { ...a, bids: [], bid_sheet_values: [] };
    expect(documentOf(make(standing([withdrawn, b]))).lines).toMatchObject([{ bids: [{ value: '2' }] }]);
    expect(make(standing([withdrawn]))).toMatchObject({ made: 'document', wanted: false, document: { lines: [] } });
    // A record may leave out empty members.
    const { bids: _bids, bid_sheet_values: _values, ...bare } = withdrawn;
    expect(make(standing([bare]))).toMatchObject({ made: 'document', wanted: false });
  });

  test('loses the line of a bid that is gone, except in a draft, which hides its bids', () => {
    const bids = [{ record: bidRecord(idOf(21), event, s1, '1'), gone: true }];
    const open = inFlow({ record: eventRecord(event, [s1], { status: 'OPEN' }) });
    const draft = inFlow({ record: eventRecord(event, [s1], { status: 'DRAFT' }) });
    expect(make(bids, { event: open })).toMatchObject({ wanted: false });
    expect(make(bids, { event: draft })).toMatchObject({
      wanted: true,
      document: { lines: [{ bids: [{ value: '1' }] }] },
    });
  });

  test('is withdrawn with a deleted event, and with an event whose record is gone', () => {
    const bids = standing([bidRecord(idOf(21), event, s1, '1')]);
    const deleted = inFlow({ record: eventRecord(event, [s1], { status: 'DELETED' }) });
    const gone = inFlow({ record: eventRecord(event, [s1]), gone: true });
    for (const each of [deleted, gone]) expect(make(bids, { event: each })).toMatchObject({ wanted: false });
  });

  test('names a supplier as a page included it if the event does not, and waits if neither does', () => {
    const bids = standing([bidRecord(idOf(21), event, s1, '1')]);
    const unnamed = inFlow({ record: eventRecord(event, [s2]) });
    expect(make(bids, { event: unnamed })).toMatchObject({ made: 'not-yet' });
    const supplier = { id: s1.toUpperCase(), name: 'Ärmel GmbH', external_id: 'V-1' };
    expect(documentOf(make(bids, { event: unnamed, supplier })).supplier).toEqual({ ...supplier, id: s1 });
    // What the event leaves out is taken from the page, too.
    expect(documentOf(make(bids, { supplier })).supplier).toEqual({ id: s1, name: 'Supplier 0', external_id: 'V-1' });
    expect(documentOf(make(bids, { supplier: { ...supplier, id: s2 } })).supplier).not.toHaveProperty('external_id');
  });

  test('accepts records with null members or without a time, and is rejected for an unreadable record', () => {
    const record = { ...bidRecord(idOf(21), event, s1, '1'), modified: undefined, sourcing_request: null };
    expect(documentOf(make(standing([record]))).lines).toHaveLength(1);
    const wrong = bidRecord(idOf(21), event, s1, null, { bids: [{ value: '1,5' }] });
    expect(make(standing([wrong]))).toEqual({
      made: 'rejected',
      reason: "a bid's record: bids.0.value must be a decimal number as text",
    });
  });
});
