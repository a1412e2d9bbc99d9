import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { documentKeysOf, documentKeysOfResource, pairKey, readPairKey } from '#bridge/documents/document-keys.ts';
import { feedNames } from '#contract/feed.ts';
import { idOf } from '../parts.ts';

const event = idOf(0xe1);
const s1 = idOf(11);
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
