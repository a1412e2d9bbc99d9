import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { AwardsHeld } from '#bridge/documents/awards-complete.ts';
import { makeEventAwardsDocument } from '#bridge/documents/event-awards-document.ts';
import type { FlowSettings } from '#bridge/settings/settings.ts';
import { documentSchemas } from '#connector/documents.ts';
import { eventRecord, idOf, lotAwardRecord } from '../parts.ts';
import { documentOf, inFlow } from './records.ts';

const event = idOf(0xe1);
const [s1, s2] = [idOf(11), idOf(12)];
const second = (n: number) => `2030-01-01T00:00:0${n}.000000Z`;
const arrival = { modified: second(1), seen: second(1) };
const readToEnd = { watermark: second(9), lastPull: second(9) };
const closed = (more: Record<string, unknown> = {}) =>
  eventRecord(event, [s1, s2], { columns: [{ name: 'Volume' }, { name: 'Price' }], ...more });
const complete = (lots: number) => [
  { status: 'CLOSED' },
  { status: 'COMPLETE', awarded_cost: '1', awarded_lot_count: lots },
];
const held = (records: readonly unknown[], feed: AwardsHeld['feed'] = readToEnd): AwardsHeld => ({
  awards: records.map((record, index) => ({
    record,
    gone: false,
    modified: second(2 + index),
    seen: second(2 + index),
  })),
  feed,
});

interface Given {
  record?: Record<string, unknown>;
  columns?: { quantity: string | undefined; unitPrice: string | undefined };
  flow?: Partial<FlowSettings>;
  gone?: boolean;
}

function make(awards: AwardsHeld, { record = closed(), flow, gone = false, columns }: Given = {}) {
  return makeEventAwardsDocument({
    eventId: event,
    event: inFlow({ record, gone }, flow),
    arrival,
    held: awards,
    includedSupplierOf: () => undefined,
    columns: columns ?? { quantity: undefined, unitPrice: undefined },
  });
}

const lotA = lotAwardRecord(
  idOf(21),
  event,
  [
    {
      supplier: s2,
      cost: '0.10',
      share: '0.25',
      values: [
        ['Volume', '10'],
        ['Price', '2'],
      ],
    },
    {
      supplier: s1,
      cost: '12345678901234567.89',
      share: '0.75',
      values: [
        ['Volume', '10'],
        ['Price', '2.5'],
      ],
    },
  ],
  { lot_name: 'A' },
);
const lotB = lotAwardRecord(idOf(22), event, [{ supplier: s2, cost: '0.20', values: [['Colour', 'red, "x"\n']] }], {
  lot_name: 'B',
});
const nobody = lotAwardRecord(idOf(23), event, [], { lot_name: 'C' });

describe('the document of all awards of an event', () => {
  test('has a line for each lot and supplier, the total of each supplier and of all, exact', () => {
    const document = documentOf(
      make(held([lotB, nobody, lotA]), { columns: { quantity: 'Volume', unitPrice: 'Price' } }),
    );
    expect(documentSchemas['event-awards'].parse(document)).toEqual(document);
    expect(document).toMatchObject({ key: event, event: { id: event }, total_cost: '12345678901234568.19' });
    expect(
      document.lines.map(({ lot, supplier, share, quantity, unit_price: price, cost }) => [
        lot,
        supplier.id,
        share,
        quantity,
        price,
        cost,
      ]),
    ).toEqual([
      ['A', s1, '0.75', '7.5', '2.5', '12345678901234567.89'],
      ['A', s2, '0.25', '2.5', '2', '0.10'],
      ['B', s2, '1', undefined, undefined, '0.20'],
    ]);
    expect(document.suppliers).toEqual([
      { id: s1, name: 'Supplier 0', total_cost: '12345678901234567.89' },
      { id: s2, name: 'Supplier 1', total_cost: '0.3' },
    ]);
  });

  test('has the bid sheet as one CSV: the columns of the event first, then those that only a line shows', () => {
    const inDollars = structuredClone(lotB);
    Object.assign(inDollars, {
      awards: [
        {
          supplier: s2,
          share_awarded: '1',
          cost: '0.20',
          bid_sheet_values: [
            { column_name: 'Colour', value: 'red, "x"\n' },
            { column_name: 'Price', value: '0.21', currency: 'USD' },
          ],
        },
      ],
    });
    const record = closed({
      suppliers: [
        { id: s1, name: 'Acme', external_id: 'V-1' },
        { id: s2, name: '"B", Ltd' },
      ],
    });
    expect(documentOf(make(held([inDollars, lotA]), { record })).bid_sheet_csv).toBe(
      [
        'lot,supplier,supplier_external_id,share,Volume,Price,Price (currency),Colour',
        'A,Acme,V-1,0.75,10,2.5,,',
        'A,"""B"", Ltd",,0.25,10,2,,',
        'B,"""B"", Ltd",,1,,0.21,USD,"red, ""x""\n"',
        '',
      ].join('\r\n'),
    );
  });

  test('is the same in whatever order the source shows lots and suppliers', () => {
    const expected = make(held([lotA, lotB, nobody]));
    fc.assert(
      fc.property(fc.shuffledSubarray([lotA, lotB, nobody], { minLength: 3 }), fc.boolean(), (records, turned) => {
        const shown = records.map((lot) => ({
          ...lot,
          awards: turned ? (lot['awards'] as unknown[]).toReversed() : lot['awards'],
        }));
        expect(make(held(shown))).toEqual(expected);
      }),
    );
  });

  test('is rejected with the name of the member when one award cannot be read', () => {
    expect(make(held([lotA, { ...lotB, awards: 'none' }]))).toMatchObject({
      made: 'rejected',
      reason: expect.stringContaining('awards'),
    });
    const noNumber = lotAwardRecord(idOf(24), event, [{ supplier: s1, cost: 'much' }], { lot_name: 'D' });
    expect(make(held([noNumber]))).toMatchObject({ made: 'rejected', reason: expect.stringContaining('cost') });
  });
});

describe('is made', () => {
  test.each(['OPEN', 'PAUSED', 'DRAFT', 'PONDERED'])('not while its event is %s: it stays as it is', (status) => {
    expect(make(held([lotA]), { record: closed({ status }) })).toEqual({
      made: 'held',
      reason: `its sourcing event is ${status}: it is made when the event is closed`,
    });
  });

  test('only when as many lots are known as the event’s record says were awarded; a lot without winners is none', () => {
    const share = (given: string) =>
      lotAwardRecord(idOf(24), event, [{ supplier: s1, share: given }], { lot_name: 'D' });
    const record = closed({ rounds: complete(2) });
    expect(make(held([lotA, nobody]), { record })).toEqual({
      made: 'not-yet',
      reason: 'the record of its event says that 2 lots are awarded, and the bridge has read the awards of 1',
    });
    expect(make(held([lotA, lotB, nobody, share('0')]), { record })).toMatchObject({ made: 'document' });
    expect(make(held([lotA, lotB, share('0.5')]), { record })).toMatchObject({ made: 'not-yet' });
  });

  test('by the last of several rounds that are complete', () => {
    const rounds = [...complete(1), ...complete(2), { status: 'CLOSED' }];
    expect(make(held([lotA, lotB]), { record: closed({ rounds }) })).toMatchObject({ wanted: true });
    expect(make(held([lotA]), { record: closed({ rounds }) })).toMatchObject({ made: 'not-yet' });
  });

  test('when the record says nothing of awarded lots, by the feed alone', () => {
    expect(make(held([lotA]), { record: closed({ rounds: [{ status: 'CLOSED' }] }) })).toMatchObject({ wanted: true });
    expect(make(held([lotA]), { record: closed({ rounds: [{ status: 'COMPLETE' }] }) })).toMatchObject({
      wanted: true,
    });
  });

  test.each([
    ['never read', { watermark: null, lastPull: null }, 'not-yet'],
    ['read before the record of the event came', { watermark: second(0), lastPull: second(0) }, 'not-yet'],
    ['read to its end before the last award came', { watermark: second(9), lastPull: second(2) }, 'not-yet'],
    ['read, and not yet past the last award', { watermark: second(2), lastPull: second(9) }, 'not-yet'],
    ['read past the last award, and to its end since', { watermark: second(3), lastPull: second(3) }, 'document'],
  ] as const)('when the feed of awards is %s: %s %s', (_name, feed, made) => {
    expect(make(held([lotA, lotB], feed)).made).toBe(made);
  });

  test('when no award has changed and the feed has been read since the record came, or is known beyond its time', () => {
    expect(make(held([], { watermark: second(0), lastPull: second(1) }))).toMatchObject({ wanted: false });
    expect(make(held([], { watermark: second(1), lastPull: second(0) }))).toMatchObject({ wanted: false });
  });

  test('of awards without a stamp when the feed has been read to its end since', () => {
    const { awards } = held([lotA]);
    const untimed = { awards: awards.map((award) => ({ ...award, modified: null })), feed: readToEnd };
    expect(make({ ...untimed, feed: { watermark: null, lastPull: second(9) } })).toMatchObject({ wanted: true });
  });
});

describe('is withdrawn', () => {
  test('when no award is left, and not before the feed says that none may follow', () => {
    expect(make(held([nobody]))).toMatchObject({
      made: 'document',
      wanted: false,
      document: { lines: [], total_cost: '0' },
    });
    const behind = { watermark: second(1), lastPull: second(9) };
    expect(make(held([nobody], behind))).toMatchObject({ made: 'not-yet' });
  });

  test.each([
    ['deleted', { record: closed({ status: 'DELETED' }) }],
    ['gone from its feed', { gone: true }],
    ['open and no longer of the flow', { record: closed({ status: 'OPEN', is_test: true }) }],
  ])('when its event is %s, whatever is known of the feed', (_name, given) => {
    expect(make(held([lotA], { watermark: null, lastPull: null }), given)).toMatchObject({
      made: 'document',
      wanted: false,
      document: { lines: [], suppliers: [], bid_sheet_csv: '' },
    });
  });
});
