import { describe, expect, test } from 'vitest';
import { eventHead } from '#bridge/documents/event-parts.ts';
import { makeSourcingEventDocument } from '#bridge/documents/sourcing-event-document.ts';
import { documentSchemas } from '#connector/documents.ts';
import { eventRecord, idOf } from '../parts.ts';
import { documentOf, inFlow } from './records.ts';

const event = idOf(0xe1);
const record = (more: Record<string, unknown> = {}) => eventRecord(event, [idOf(12), idOf(11)], more);

describe('an event that a page included', () => {
  const included = record({ status: 'OPEN' });

  test('is used while the record has not been read, if the flow also takes test events', () => {
    expect(inFlow({ included }, { test_events: true })).toMatchObject({ wanted: true, isRecord: false });
    expect(inFlow({ included: { ...included, is_test: false } })).toMatchObject({ wanted: true });
    expect(inFlow({ included })).toEqual({
      made: 'not-yet',
      reason: 'the record of its sourcing event, which says if it is a test, has not been read yet',
    });
  });

  test('is ignored once the record has been read, and makes no document of the event itself', () => {
    const both = inFlow({ record: record({ name: 'As its feed shows it' }), included });
    expect(both).toMatchObject({ isRecord: true, event: { name: 'As its feed shows it' } });
    const made = makeSourcingEventDocument({ eventId: event, event: inFlow({ included }, { test_events: true }) });
    expect(made).toMatchObject({ made: 'not-yet' });
  });
});

describe('a deleted event', () => {
  test('withdraws its documents however little the source still shows of it', () => {
    const tombstone = { id: event, status: 'DELETED', name: null };
    const read = inFlow({ record: tombstone });
    expect(read).toMatchObject({ wanted: false, isRecord: true });
    expect(makeSourcingEventDocument({ eventId: event, event: read })).toMatchObject({
      made: 'document',
      wanted: false,
      document: { status: 'DELETED' },
    });
    expect(inFlow({ record: { ...tombstone, status: 'CLOSED' } })).toMatchObject({ made: 'rejected' });
  });
});

describe('the suppliers of an event', () => {
  test('count once each, and which entry counts does not depend on their order', () => {
    const twice = [
      { id: idOf(11), name: 'A' },
      { id: idOf(11).toUpperCase(), name: 'B', external_id: 'V-2' },
      { id: idOf(11), name: 'Z', external_id: 'V-1' },
    ];
    for (const suppliers of [twice, twice.toReversed(), [twice[2], twice[0], twice[1]]]) {
      const made = makeSourcingEventDocument({ eventId: event, event: inFlow({ record: record({ suppliers }) }) });
      expect(documentOf(made).suppliers).toEqual([{ id: idOf(11), external_id: 'V-1', name: 'Z' }]);
    }
  });
});

test('a tag without a value is accepted', () => {
  const shown = inFlow({ record: record({ tags: [{ name: 'Urgent', value: null }] }) });
  if ('made' in shown) throw new Error(shown.reason);
  expect(eventHead(shown, event).tags).toEqual([{ name: 'Urgent', value: '' }]);
});

describe('the filter of a flow', () => {
  const plant = [{ name: 'Plant', value: '1000' }];
  const only = (tags: Record<string, string | string[]>, status?: string[]) => ({ only: { tags, status } });

  test.each([
    ['without a filter', record(), {}, true],
    ['a test', record({ is_test: true }), {}, false],
    ['a test where tests are taken', record({ is_test: true }), { test_events: true }, true],
    ['the tag', record({ tags: plant }), only({ Plant: '1000' }), true],
    ['one of the values', record({ tags: plant }), only({ Plant: ['2000', '1000'] }), true],
    [
      'one of several tags of that name',
      record({ tags: [{ name: 'Plant', value: '1' }, ...plant] }),
      only({ Plant: '1000' }),
      true,
    ],
    ['another value', record({ tags: plant }), only({ Plant: '2000' }), false],
    ['only one of two tags', record({ tags: plant }), only({ Plant: '1000', Region: 'EMEA' }), false],
    ['no tags', record(), only({ Plant: '1000' }), false],
    ['a status that is taken', record({ status: 'OPEN' }), only({}, ['OPEN', 'CLOSED']), true],
    ['the deletion, whatever statuses are taken', record({ status: 'DELETED' }), only({}, ['OPEN']), false],
  ])('%s: wanted is %s', (_what, shown, flow, wanted) => {
    expect(inFlow({ record: shown }, flow)).toMatchObject({ wanted });
  });

  test('puts documents of events of another status on hold, wanted or not', () => {
    const held = { made: 'held', reason: 'its sourcing event is PAUSED, and this flow takes OPEN, CLOSED' };
    expect(inFlow({ record: record({ status: 'PAUSED' }) }, only({}, ['OPEN', 'CLOSED']))).toEqual(held);
    const left = only({ Plant: '1000' }, ['OPEN', 'CLOSED']);
    expect(inFlow({ record: record({ status: 'PAUSED' }) }, left)).toEqual(held);
    expect(inFlow({ record: record({ status: 'PAUSED' }), gone: true }, left)).toMatchObject({ wanted: false });
  });
});

describe('a sourcing event document', () => {
  const make = (shown: Record<string, unknown>) =>
    makeSourcingEventDocument({ eventId: event, event: inFlow({ record: shown }) });

  test('shows what the feed shows, in a fixed order when the feed has none', () => {
    const made = make(
      record({
        status: 'PONDERED',
        reference_id: 'R-1',
        category: 'Furniture',
        tags: [
          { name: 'b', value: '2' },
          { name: 'b', value: '1' },
          { name: 'a', value: '9' },
        ],
        secondary_currencies: [
          { code: 'USD', exchange_rate: '0.9' },
          { code: 'PLN', exchange_rate: '0.26' },
          { code: 'PLN', exchange_rate: '0.25' },
        ],
        created: '2029-12-31T23:59:59+01:00',
        published: null,
        rounds: [{ status: 'COMPLETE', ends: '2030-01-02T00:00:00Z', awarded_cost: '10.50', awarded_lot_count: 2 }],
        lot_count: 3,
        event_contact: { email: 'a@example.org', phone: '1' },
        columns: [{ name: 'Price' }, { name: 'Volume' }],
        sourcing_requests: [idOf(92), idOf(91)],
        bot: idOf(99),
      }),
    );
    expect(documentOf(made)).toEqual({
      kind: 'sourcing-event',
      key: event,
      event: {
        id: event,
        name: 'Office chairs',
        reference_id: 'R-1',
        type: 'RFQ',
        category: 'Furniture',
        is_test: false,
        tags: [
          { name: 'a', value: '9' },
          { name: 'b', value: '1' },
          { name: 'b', value: '2' },
        ],
      },
      status: 'PONDERED',
      currency: 'EUR',
      exchange_rates: [
        { code: 'PLN', exchange_rate: '0.25' },
        { code: 'PLN', exchange_rate: '0.26' },
        { code: 'USD', exchange_rate: '0.9' },
      ],
      created: '2029-12-31T22:59:59.000000Z',
      rounds: [
        { status: 'COMPLETE', ends: '2030-01-02T00:00:00.000000Z', awarded_cost: '10.50', awarded_lot_count: 2 },
      ],
      lot_count: 3,
      contact: { email: 'a@example.org' },
      columns: ['Price', 'Volume'],
      sourcing_requests: [idOf(91), idOf(92)],
      suppliers: [
        { id: idOf(11), name: 'Supplier 1' },
        { id: idOf(12), name: 'Supplier 0' },
      ],
    });
    expect(documentSchemas['sourcing-event'].parse(documentOf(made))).toEqual(documentOf(made));
  });
});
