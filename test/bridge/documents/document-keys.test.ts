import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  documentKeysOf,
  documentKeysOfResource,
  pairKey,
  partsNaming,
  idOf as readId,
  readPairKey,
  recordId,
} from '#bridge/documents/document-keys.ts';
import { documentKinds } from '#connector/documents.ts';
import { type FeedName, feedNames } from '#contract/feed.ts';
import { eventRecord, idOf, lotAwardRecord } from '../parts.ts';
import { answerRecord, bidRecord, questionObject } from './records.ts';

const event = idOf(0xe1);
const [s1, s2] = [idOf(11), idOf(12)];
const texts = (keys: readonly { kind: string; key: string; noteOnly?: boolean }[]) =>
  keys.map(({ kind, key, noteOnly }) => `${kind} ${key}${noteOnly ? ' (noted)' : ''}`);

describe('the key of a document', () => {
  test('is made of the two UUIDs, and ids of any other form can be read back from it, too', () => {
    expect(pairKey(event, s1)).toBe(`${event}/${s1}`);
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme' }), fc.string({ unit: 'grapheme' }), (one, other) => {
        const key = pairKey(one, other);
        expect(key).not.toContain('\0');
        expect(readPairKey(key)).toEqual({ event: one, supplier: other });
      }),
    );
  });

  test('also comes from the version before', () => {
    const before = lotAwardRecord(idOf(21), event, [{ supplier: s1 }]);
    const after = lotAwardRecord(idOf(21), event, [{ supplier: s2.toUpperCase() }]);
    expect(texts(documentKeysOf('awards', after, before))).toEqual([
      `award ${event}/${s2}`,
      `event-awards ${event}`,
      `event-awards ${event} (noted)`,
      `award ${event}/${s1}`,
      `event-awards ${event}`,
      `event-awards ${event} (noted)`,
    ]);
  });

  test.each([
    ['latest-bids', bidRecord(idOf(21), event, s1, '1'), [`quotation ${event}/${s1}`]],
    [
      'rfi-responses',
      answerRecord(7, event, s1, idOf(31), { document_file_uuids: [idOf(41)] }),
      [`rfi-answers ${event}/${s1}`, `file ${idOf(41)}`],
    ],
    [
      'sourcing-events',
      eventRecord(event, [], { suppliers: [{ id: s1, external_id: 'V-1' }, { id: s2 }] }),
      [`sourcing-event ${event}`, 'supplier V-1', `supplier ${s1} (noted)`, `supplier ${s2}`],
    ],
  ] as const)('of a record of %s', (feed, record, keys) => {
    expect(texts(documentKeysOf(feed, record))).toEqual(keys);
  });

  test('of a resource', () => {
    expect(texts(documentKeysOfResource('supplier-master', { external_id: 'V-1' }))).toEqual(['supplier V-1']);
    expect(texts(documentKeysOfResource('supplier', { id: s1, external_id: 'V-1' }, { id: s1 }))).toEqual([
      'supplier V-1',
      `supplier ${s1} (noted)`,
      `supplier ${s1}`,
    ]);
    const question = questionObject(idOf(31), event, '1', { attachment_file_uuids: [idOf(41)] });
    expect(texts(documentKeysOfResource('question', question))).toEqual([`file ${idOf(41)}`]);
    expect(documentKeysOfResource('sourcing-event', eventRecord(event, [s1]))).toEqual([]);
  });

  test('of a supplier is its id when the external id is empty or too long for a key', () => {
    for (const external_id of ['', 'x'.repeat(256), 7, null])
      expect(texts(documentKeysOfResource('supplier', { id: s1.toUpperCase(), external_id }))).toEqual([
        `supplier ${s1}`,
      ]);
    expect(texts(documentKeysOfResource('supplier-master', { external_id: 'x'.repeat(256) }))).toEqual([]);
    expect(texts(documentKeysOfResource('supplier-master', { external_id: 'x'.repeat(255) }))).toHaveLength(1);
  });

  test('can be stored, whatever the record contains', () => {
    const text = fc.oneof(fc.string({ unit: 'binary' }), fc.constantFrom('\0', '\ud800', 'x'.repeat(300), idOf(1)));
    const anything = fc.oneof(fc.anything(), text);
    const hostile = fc.record(
      {
        id: anything,
        sourcing_event: anything,
        supplier: anything,
        external_id: anything,
        suppliers: fc.array(fc.record({ id: anything, external_id: anything })),
        awards: fc.array(fc.oneof(anything, fc.record({ supplier: anything }))),
        document_file_uuids: fc.array(anything),
        attachment_file_uuids: fc.array(anything),
      },
      { requiredKeys: [] },
    );
    fc.assert(
      fc.property(hostile, (record) => {
        const keys = [
          ...feedNames.flatMap((feed) => documentKeysOf(feed, record)),
          ...(['supplier', 'supplier-master', 'question'] as const).flatMap((kind) =>
            documentKeysOfResource(kind, record),
          ),
        ];
        for (const { key, sourcingEvent, supplier, namedBy } of keys)
          for (const stored of [key, sourcingEvent, supplier, namedBy?.id]) {
            expect(stored ?? '').not.toContain('\0');
            expect((stored ?? '').isWellFormed()).toBe(true);
            expect((stored ?? '').length).toBeLessThan(2_000);
          }
      }),
    );
  });
});

describe('the tables of what feeds and resources make', () => {
  test.each(documentKinds)('a feed or a resource names the keys of %s documents', (kind) => {
    const { feeds, resources } = partsNaming(kind);
    expect([...feeds, ...resources], 'feedDocuments or resourceDocuments in document-keys.ts').not.toEqual([]);
  });

  test('a record names documents of the kinds of its row, and no others', () => {
    const records = {
      'sourcing-events': eventRecord(event, [s1]),
      'latest-bids': bidRecord(idOf(21), event, s1, '1'),
      awards: lotAwardRecord(idOf(21), event, [{ supplier: s1 }]),
      'rfi-responses': answerRecord(7, event, s1, idOf(31), { document_file_uuids: [idOf(41)] }),
    } satisfies Record<FeedName, object>;
    for (const feed of feedNames) {
      const kinds = documentKinds.filter((kind) => partsNaming(kind).feeds.includes(feed));
      expect([feed, new Set(documentKeysOf(feed, records[feed]).map(({ kind }) => kind))]).toEqual([
        feed,
        new Set(kinds),
      ]);
    }
  });
});

test('ids are read as the schema reads them, except ids that cannot be stored', () => {
  fc.assert(
    fc.property(
      fc.oneof(
        fc.uuid(),
        fc.uuid().map((id) => id.toUpperCase()),
        fc.string({ maxLength: 300 }),
      ),
      (id) => {
        expect(readId(id)).toBe(id.includes('\0') ? undefined : recordId.safeParse(id).data);
      },
    ),
  );
  expect([readId(''), readId(7), readId('a\0'), readId('\ud800')]).toEqual([
    undefined,
    undefined,
    undefined,
    undefined,
  ]);
});
