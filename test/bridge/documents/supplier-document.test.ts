import { describe, expect, test } from 'vitest';
import { makeSupplierDocument, type SupplierSources } from '#bridge/documents/supplier-document.ts';
import { documentSchemas } from '#connector/documents.ts';
import { eventRecord, idOf } from '../parts.ts';
import { documentOf } from './records.ts';

const [s1, s2] = [idOf(11), idOf(12)];
const make = (key: string, sources: Partial<SupplierSources>) =>
  makeSupplierDocument({ key, sources: { included: [], ...sources } });

const master = {
  external_id: 'V-1',
  name: 'Ärmel GmbH',
  archived: true,
  fields: { Zone: 'EU', City: 'Łódź' },
  contacts: [
    { name: 'B', email: 'b@example.org' },
    { name: 'A', email: 'a@example.org' },
  ],
};
const included = { id: s1, name: 'As a page had it', external_id: 'V-1', contacts: [] };

describe('a supplier', () => {
  test('shows what the supplier list says, with the id from a page', () => {
    const made = make('V-1', { master, included: [included] });
    expect(made).toEqual({
      made: 'document',
      wanted: true,
      document: {
        kind: 'supplier',
        key: 'V-1',
        id: s1,
        external_id: 'V-1',
        name: 'Ärmel GmbH',
        archived: true,
        attributes: [
          { name: 'City', value: 'Łódź' },
          { name: 'Zone', value: 'EU' },
        ],
        contacts: [
          { name: 'A', email: 'a@example.org' },
          { name: 'B', email: 'b@example.org' },
        ],
      },
    });
    expect(documentSchemas.supplier.parse(documentOf(made))).toEqual(documentOf(made));
    expect(documentOf(make('V-1', { master }))).not.toHaveProperty('id');
  });

  test('that is not in the list is shown as a page included it, else as the newest event names it', () => {
    const named = eventRecord(idOf(1), [], {
      suppliers: [{ id: s1.toUpperCase(), name: 'As the event had it', external_id: 'V-1' }],
    });
    expect(documentOf(make('V-1', { included: [included], event: named })).name).toBe('As a page had it');
    expect(documentOf(make('V-1', { event: named }))).toMatchObject({ id: s1, name: 'As the event had it' });
  });

  test('without an external id has its id as key, and stays as it was when it gets an external id', () => {
    const bare = { id: s1, name: 'Bolt' };
    expect(documentOf(make(s1, { included: [bare] }))).toEqual({
      kind: 'supplier',
      key: s1,
      id: s1,
      name: 'Bolt',
      attributes: [],
      contacts: [],
    });
    const onHold = { made: 'held', reason: expect.stringContaining('has an external id now') };
    expect(make(s1, { included: [included] })).toEqual(onHold);
    // Also when events name it without an external id.
    const event = eventRecord(idOf(1), [], { suppliers: [bare, included] });
    expect(make(s1, { included: [included], event })).toEqual(onHold);
  });

  test('has no external id when it is empty', () => {
    const made = make(s1, { included: [{ id: s1, name: 'Bolt', external_id: '' }] });
    expect(documentOf(made)).toMatchObject({ key: s1, id: s1, name: 'Bolt' });
    expect(documentOf(made)).not.toHaveProperty('external_id');
  });

  test('that an event names twice is the same whatever the order of the entries', () => {
    const twice = [included, { ...included, name: 'Zeta' }];
    for (const suppliers of [twice, twice.toReversed()])
      expect(documentOf(make('V-1', { event: eventRecord(idOf(1), [], { suppliers }) })).name).toBe('As a page had it');
  });

  test('whose external id is the id of another supplier comes before that supplier', () => {
    const other = { id: s2, name: 'Its external id is an id', external_id: s1 };
    expect(documentOf(make(s1, { included: [{ ...included, id: s1 }, other] }))).toMatchObject({ id: s2 });
  });

  test('is never withdrawn: a supplier that no record names any more is left as it is', () => {
    expect(make('V-1', {})).toMatchObject({ made: 'held' });
    expect(make('V-1', { event: eventRecord(idOf(1), [s2]) })).toMatchObject({ made: 'held' });
  });

  test('is the first of two suppliers with the same external id, whatever their order', () => {
    const other = { ...included, id: s2, name: 'Other' };
    for (const list of [
      [included, other],
      [other, included],
    ])
      expect(documentOf(make('V-1', { included: list }))).toMatchObject({ id: s1, name: 'As a page had it' });
  });

  test('that cannot be read is rejected, and the reason names the member', () => {
    expect(make('V-1', { master: { ...master, name: 7 } })).toEqual({
      made: 'rejected',
      reason: "the supplier's entry in the list of suppliers: name Invalid input: expected string, received number",
    });
  });
});
