import { describe, expect, test } from 'vitest';
import { neededFields } from '#bridge/documents/needed-fields.ts';
import type { FeedName } from '#contract/feed.ts';
import { flowOf } from '../parts.ts';

const flow = flowOf({
  documents: ['award'],
  quantity_column: 'Annual Volume',
  mapping: {
    award: {
      fields: {
        CostCenter: { from: 'event.tags[Cost Center]', type: 'text', required: true },
        Number: { template: '{event.reference_id}-{event.tags["Plant"]}', type: 'text', required: false },
        Fixed: { value: '1', type: 'text', required: false },
      },
      lines: { Material: { from: 'line.values[Material]', type: 'text', required: false }, Saved: 'line.savings' },
    },
  },
});
const pathsOf = (feed: FeedName) => neededFields([flow], feed).map(({ path }) => path);

describe('the fields that a flow needs', () => {
  test('are what no document can be made without, what its mapping shows, and its columns', () => {
    expect(pathsOf('sourcing-events')).toEqual(
      expect.arrayContaining([
        'name',
        'status',
        'primary_currency',
        'tags[Cost Center]',
        'reference_id',
        'tags[Plant]',
      ]),
    );
    expect(pathsOf('awards')).toEqual(
      expect.arrayContaining([
        'lot_name',
        'awards[].cost',
        'awards[].supplier',
        'awards[].savings',
        'awards[].bid_sheet_values[Material]',
        'awards[].bid_sheet_values[Annual Volume]',
      ]),
    );
  });

  test('are none of a feed whose documents it does not take', () => {
    expect(pathsOf('latest-bids')).toEqual([]);
    expect(pathsOf('rfi-responses')).toEqual([]);
  });

  test('name who needs them', () => {
    const [field] = neededFields([flow], 'sourcing-events').filter(({ path }) => path === 'tags[Cost Center]');
    expect(field?.neededBy).toBe('flow erp, field CostCenter of award');
  });

  test.each<[string, FeedName, Record<string, unknown>, boolean | undefined]>([
    ['tags[Cost Center]', 'sourcing-events', { tags: [{ name: 'Cost Center', value: '' }] }, true],
    ['tags[Cost Center]', 'sourcing-events', { tags: [{ name: 'Cost Centre', value: '1' }] }, false],
    ['tags[Cost Center]', 'sourcing-events', {}, false],
    ['awards[].cost', 'awards', { awards: [{ cost: '1' }] }, true],
    ['awards[].cost', 'awards', { awards: [{ cost: null }, {}] }, false],
    // An award that was taken back has no entry that could have a cost.
    ['awards[].cost', 'awards', { awards: [] }, undefined],
    ['awards[].cost', 'awards', { awards: 'none' }, false],
  ])('%s of a record of %s: %j', (path, feed, record, isIn) => {
    const [field] = neededFields([flow], feed).filter((needed) => needed.path === path);
    expect(field?.isIn(record)).toBe(isIn);
  });
});
