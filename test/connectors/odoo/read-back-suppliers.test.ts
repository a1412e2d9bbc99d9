/** What of a contact of Odoo differs from the supplier that was delivered. */
import { describe, expect, test } from 'vitest';
import type { DocumentOf } from '#connector/documents.ts';
import { readSupplier, type WantedPartner } from '../../../connectors/odoo/read-back-suppliers.ts';
import type { HeldPartner } from '../../../connectors/odoo/vendors.ts';

const document: DocumentOf<'supplier'> = {
  kind: 'supplier',
  key: 'SUP-1',
  id: 'supplier-1',
  name: 'Forge',
  archived: false,
  attributes: [],
  contacts: [],
};
const wanted: WantedPartner = {
  name: 'Forge',
  texts: { website: 'example.com', vat: 'BE 0477.4727.01', street: '' },
  country: { id: 20, code: 'BE' },
  people: [
    { name: 'Ann', email: 'sales@example.com' },
    { name: 'Bob', email: 'Sales@example.com' },
  ],
};
const partner: HeldPartner = {
  id: 7,
  name: 'Forge',
  ref: 'SUP-1',
  active: true,
  vat: 'BE0477472701',
  email: 'by-hand@example.com',
  phone: '',
  website: 'http://example.com',
  street: '',
  street2: '',
  city: 'Gent',
  zip: '',
  country_id: { id: 20, name: 'Belgium' },
  supplier_rank: 3,
  write_uid: undefined,
  child_ids: [],
};
const people = [{ name: 'Bob', email: 'sales@example.com' }];

const read = (held: readonly HeldPartner[], reference: string | undefined = 'res.partner,7') =>
  readSupplier({ document, reference }, wanted, held, () => people);
const differencesOf = (more: Partial<HeldPartner>) => {
  const answer = read([{ ...partner, ...more }]);
  if (answer.status !== 'held') throw new Error(answer.status);
  return answer.fields.filter(({ expected, held }) => expected !== held);
};

test('what Odoo writes in its own way, and what only users have set, is no difference', () => {
  expect(differencesOf({})).toEqual([]);
});

describe('a difference is', () => {
  test.each([
    ['another website', { website: 'https://example.org' }, 'website', 'example.com', 'https://example.org'],
    ['another tax number', { vat: 'BE0477472702' }, 'vat', 'BE 0477.4727.01', 'BE0477472702'],
    ['a value where none was written', { street: 'Kaai 1' }, 'street', undefined, 'Kaai 1'],
    ['another country', { country_id: { id: 21, name: 'Bhutan' } }, 'country', 'BE', 'Bhutan'],
    ['no country', { country_id: undefined }, 'country', 'BE', undefined],
    ['another code', { ref: 'SUP-2' }, 'ref', 'SUP-1', 'SUP-2'],
  ])('%s', (_what, more, name, expected, held) => {
    expect(differencesOf(more)).toEqual([{ name, expected, held }]);
  });
});

test('of several contacts with the code the one of the reference is read; without it none can be chosen', () => {
  const other = { ...partner, id: 8, name: 'Forge (old)' };
  expect(read([other, partner])).toMatchObject({ status: 'held', reference: 'res.partner,7' });
  expect(read([other, partner], 'res.partner,9')).toMatchObject({ status: 'unclear' });
  expect(read([other], undefined)).toMatchObject({ status: 'held', reference: 'res.partner,8' });
  expect(read([])).toEqual({ key: 'SUP-1', status: 'missing' });
});
