/** Which contact of Odoo a supplier is, and what a flow leaves to people. */
import { beforeEach, describe, expect, test } from 'vitest';
import type { Session } from '#connector/connector.ts';
import type { SupplierDocument } from '#connector/documents.ts';
import { awardOf, never, openSession, operation, referenceOf, startErp, write } from './odoo-session.ts';
import type { Row } from './stand-in/rows.ts';
import type { OdooStandIn } from './stand-in/server.ts';

let erp: OdooStandIn;
let session: Session;

beforeEach(async () => {
  erp = await startErp();
  session = await openSession(erp, { match: ['vat', 'name', 'email'] });
});

const contact = (values: Record<string, unknown>) =>
  erp.installed.create('res.partner', { supplier_rank: 1, ...values });
const partner = (id: number) => erp.rows.find('res.partner', id) as Row;
const supplier = (key: string, more: Partial<SupplierDocument> = {}): SupplierDocument => ({
  kind: 'supplier',
  key,
  external_id: key,
  name: key,
  archived: false,
  attributes: [],
  contacts: [],
  ...more,
});
const conflict = (message: RegExp) => ({
  status: 'rejected',
  error: { type: 'conflict', message: expect.stringMatching(message) as string },
});

describe('a contact without a reference is taken', () => {
  test('by its tax number before its name, and gets the reference; plan says so', async () => {
    const right = contact({ name: 'Acme Gesellschaft', vat: 'DE123456788' });
    const other = contact({ name: 'Acme' });
    const document = supplier('V-1', { name: 'Acme', fields: { vat: 'de123456788' } });
    const plans = (await session.plan?.([operation('create', document)], never)) ?? [];
    expect(plans[0]?.steps.slice(0, 2)).toEqual([
      `Take the contact "Acme Gesellschaft" (id ${right.id}), found by its tax number "de123456788".`,
      'Change the field ref from "" to "V-1".',
    ]);
    const reference = `res.partner,${right.id}`;
    await expect(write(session, 'create', document)).resolves.toMatchObject({ reference });
    expect([partner(right.id)['ref'], partner(other.id)['ref']]).toEqual(['V-1', undefined]);
    await expect(write(session, 'amend', document)).resolves.toMatchObject({ status: 'unchanged', reference });
  });

  test('by its name, then by its e-mail address, whose underscore is no wildcard', async () => {
    const named = contact({ name: 'Acme' });
    const mailed = contact({ name: 'Other spelling', email: 'a_b@example.com' });
    contact({ name: 'Nobody', email: 'axb@example.com' });
    await write(session, 'create', supplier('V-1', { name: 'ACME' }));
    const contacts = [{ name: 'Ann', email: 'A_B@example.com' }];
    await write(session, 'create', supplier('V-2', { name: 'New name', contacts }));
    expect([partner(named.id)['ref'], partner(mailed.id)['ref']]).toEqual(['V-1', 'V-2']);
  });

  test('whichever form of Unicode Odoo and the document have its name in', async () => {
    const held = ['M\u00fcller', 'So\u0308hne'].map((name) => contact({ name }));
    await write(session, 'create', supplier('V-1', { name: 'Mu\u0308ller' }));
    await write(session, 'create', supplier('V-2', { name: 'S\u00d6HNE' }));
    expect(held.map(({ id }) => partner(id)['ref'])).toEqual(['V-1', 'V-2']);
  });

  test('not where several match, or where two suppliers claim it, or where it has another reference', async () => {
    contact({ name: 'Twins' });
    contact({ name: 'Twins' });
    contact({ name: 'Shared' });
    const taken = contact({ name: 'Taken', ref: 'V-OTHER' });
    await expect(write(session, 'create', supplier('V-1', { name: 'Twins' }))).resolves.toMatchObject(
      conflict(/2 contacts without a reference for the supplier V-1, found by its name "Twins"/),
    );
    const both = ['V-2', 'V-3'].map((key) => operation('create', supplier(key, { name: 'Shared' })));
    await expect(session.write(both, never)).resolves.toMatchObject([
      conflict(/for the suppliers V-2, V-3/),
      conflict(/for the suppliers V-2, V-3/),
    ]);
    const made = await write(session, 'create', supplier('V-4', { name: 'Taken' }));
    expect(referenceOf(made)).not.toBe(`res.partner,${taken.id}`);
    expect(partner(taken.id)['ref']).toBe('V-OTHER');
  });

  test('only where the settings say so', async () => {
    const named = contact({ name: 'Acme' });
    await write(await openSession(erp), 'create', supplier('V-1', { name: 'Acme' }));
    expect(partner(named.id)['ref']).toBeUndefined();
  });
});

test('a vendor that a person has archived stays archived, and it and its awards say so', async () => {
  const gone = contact({ name: 'Gone', ref: 'V-1', active: false });
  await expect(write(session, 'amend', supplier('V-1', { name: 'Gone Ltd' }))).resolves.toMatchObject(
    conflict(/"Gone" \(id \d+\) was archived in Odoo by a person \(Administrator/),
  );
  expect(partner(gone.id)).toMatchObject({ name: 'Gone', active: false });
  const award = awardOf([], { supplier: { id: 's', external_id: 'V-1', name: 'Gone' } });
  await expect(write(session, 'create', award)).resolves.toMatchObject({
    error: { type: 'data', message: expect.stringMatching(/V-1 "Gone" is archived in Odoo/) as string },
  });
});

test('a vendor that the bridge has archived comes back with its supplier', async () => {
  const own = contact({ name: 'Back', ref: 'V-1' });
  await write(session, 'amend', supplier('V-1', { name: 'Back', archived: true }));
  expect(partner(own.id)['active']).toBe(false);
  await write(session, 'amend', supplier('V-1', { name: 'Back' }));
  expect(partner(own.id)['active']).toBe(true);
});

test('the vendor’s own e-mail address, which a read returns as a contact, comes back as none', async () => {
  const own = contact({ name: 'Acme', ref: 'V-1', email: 'sales@acme.example' });
  const contacts = [
    { name: 'Acme', email: 'Sales@acme.example' },
    { name: 'Ann', email: 'ann@acme.example' },
  ];
  const document = supplier('V-1', { name: 'Acme', contacts });
  await write(session, 'amend', document);
  const people = erp.rows.all('res.partner').filter(({ parent_id }) => parent_id === own.id);
  expect(people.map(({ email }) => email)).toEqual(['ann@acme.example']);
  const [held] = (await session.readBack?.([{ document, reference: `res.partner,${own.id}` }], never)) ?? [];
  const differing = held?.status === 'held' ? held.fields.filter(({ expected, held: now }) => expected !== now) : held;
  expect(differing).toEqual([]);
});

test('who renamed a contact is named as the last to change its vendor', async () => {
  const document = supplier('V-1', { contacts: [{ name: 'Ann', email: 'ann@acme.example' }] });
  const reference = referenceOf(await write(session, 'create', document));
  const person = erp.rows.all('res.partner').find(({ email }) => email === 'ann@acme.example') as Row;
  erp.orm.write('res.partner', person, { name: 'Bob' }, erp.installed.system);
  await expect(session.readBack?.([{ document, reference }], never)).resolves.toMatchObject([
    { status: 'held', changed: { by: 'Administrator' } },
  ]);
});
