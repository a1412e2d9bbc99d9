import { createHash } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { readVersionKey, versionsOf } from '#bridge/mirror/read-version.ts';
import type { FeedName } from '#contract/feed.ts';
import { idOf } from '../parts.ts';

describe("a record's id and time", () => {
  test.each([
    ['a leap day', '2024-02-29T00:00:00.000000Z', '2024-02-29T00:00:00.000000Z'],
    ['the last day of a month of 31', '2023-12-31T23:59:59.999999Z', '2023-12-31T23:59:59.999999Z'],
    ['another offset', '2023-12-31T23:59:59.5+02:00', '2023-12-31T21:59:59.500000Z'],
    ['none', undefined, '1970-01-01T00:00:00.000000Z'],
    ['null', null, '1970-01-01T00:00:00.000000Z'],
  ])('of %s', (_what, modified, expected) => {
    expect(readVersionKey({ id: idOf(1), modified }, 'awards', 0).modified).toBe(expected);
  });

  test.each(['2023-02-29T00:00:00.000000Z', '2023-04-31T00:00:00.000000Z', '2023-01-01T24:00:00.000000Z', 'soon', 5])(
    'a time that does not exist is refused with its record: %s',
    (modified) => {
      expect(() => readVersionKey({ id: idOf(1), modified }, 'awards', 7)).toThrow(
        new RegExp(`^Record 7 \\(${idOf(1)}\\) on a page of the awards feed is not valid: modified must be`),
      );
    },
  );

  test.each([undefined, null, '', 1.5, 'a\0b', '\ud800', 'x'.repeat(256)])(
    'an id that cannot be stored is refused',
    (given) => {
      expect(() => readVersionKey({ id: given, modified: '2023-01-01' }, 'awards', 0)).toThrow(
        /on a page of the awards feed/,
      );
    },
  );
});

test('a version has the event that it belongs to, and its supplier where it has one', () => {
  const [event, supplier] = [idOf(0xe2).toUpperCase(), idOf(0xa1).toUpperCase()];
  const placeOf = (feed: FeedName, more: Record<string, unknown>) => {
    const [version] = versionsOf([{ id: idOf(0xab).toUpperCase(), sourcing_event: event, supplier, ...more }], feed);
    return [version?.sourcingEvent, version?.supplier];
  };
  expect(placeOf('sourcing-events', {})).toEqual([idOf(0xab), '']);
  expect(placeOf('awards', {})).toEqual([idOf(0xe2), '']);
  expect(placeOf('latest-bids', {})).toEqual([idOf(0xe2), idOf(0xa1)]);
  expect(placeOf('rfi-responses', {})).toEqual([idOf(0xe2), idOf(0xa1)]);
  // An id that cannot be stored counts as none; the record is stored all the same.
  expect(placeOf('latest-bids', { sourcing_event: 'a\0b', supplier: '\ud800' })).toEqual([null, '']);
});

test('a version is identified by the SHA-256 of its JSON', () => {
  const given = { id: idOf(1), modified: '2023-01-01T00:00:00.000000Z', name: 'Bürostühle 椅子' };
  const [version] = versionsOf([given], 'awards');
  expect(version?.body).toBe(JSON.stringify(given));
  expect(version?.hash).toEqual(createHash('sha256').update(JSON.stringify(given)).digest());
});
