/** Suppliers and their change submissions: every field with its exact value, before and after processing. */
import { expect, test } from 'vitest';
import { changeSuppliers, processedSubmission } from '../../harness/sourcing.ts';
import { at, holdWorkers, someUuid, startConformanceService } from './conformance-service.ts';

const conformance = await startConformanceService();
const { service, organisation, apiKeyId } = conformance;
const suppliersPath = '/api/manage/suppliers';
const changesPath = '/api/manage/supplier_changes';

test('a supplier has external_id, name, fields, archived and contacts, which may be empty', async () => {
  const first = {
    external_id: 'S1',
    name: 'Möbel & Söhne',
    fields: { Region: 'EMEA' },
    archived: false,
    contacts: [
      { name: 'Ann', email: 'ann@one.example' },
      { name: 'Bob', email: 'bob@one.example' },
    ],
  };
  const second = {
    external_id: 'S2',
    name: 'Second',
    fields: {},
    archived: false,
    contacts: [{ name: 'Cid', email: 'cid@two.example' }],
  };
  const third = { external_id: 'S3', name: 'Third', fields: {}, archived: false, contacts: [] };
  expect((await organisation.call('GET', suppliersPath)).body.result).toEqual([first, second, third]);
  await changeSuppliers(organisation, { external_id: 'S3', archived: true });
  expect((await organisation.call('GET', `${suppliersPath}/S3`)).body.result).toEqual({ ...third, archived: true });
  expect((await organisation.call('GET', `${suppliersPath}/S1`)).body.result).toEqual(first);
});

test('a submission has exactly these fields before processing, after it, and after problems', async () => {
  conformance.moveTo(10);
  const release = await holdWorkers(conformance);
  const submit = async (...suppliers: object[]) =>
    (await organisation.call('POST', changesPath, { change_data: { suppliers } })).body.result;
  const good = await submit({ external_id: 'N1', name: 'New' }, { external_id: 'S2', name: 'Second' });
  const bad = await submit(
    { external_id: 'S1', contacts: [{ email: 'gone@one.example', delete: true }] },
    { external_id: 'S2', name: 'Changed', fields: { Colour: 'red' } },
  );
  expect(good).toEqual({ uuid: expect.stringMatching(someUuid), url: `${service.url}${changesPath}/${good.uuid}` });

  const { pathname } = new URL(good.url);
  const waiting = {
    ...good,
    organisation: organisation.id,
    change_type: 'SUPPLIER_CHANGE',
    current_state: 'UNPROCESSED',
    state: { current: 'UNPROCESSED', errors: {}, is_transitioning: true, attempts: 0, parameters: {} },
    state_errors: {},
    change_summary: null,
    change_warnings: null,
    created_by: apiKeyId,
    last_changed: at(10),
    user_name: 'test',
  };
  expect((await organisation.call('GET', pathname)).body.result).toEqual(waiting);

  conformance.moveTo(12);
  await release();
  const done = {
    ...waiting,
    current_state: 'PROCESSED',
    state: { current: 'PROCESSED', errors: {}, is_transitioning: false, attempts: 1, parameters: {} },
    change_summary: [
      { header: 'Supplier N1 created', messages: [] },
      { header: 'Supplier S2 unchanged', messages: [] },
    ],
    last_changed: at(12),
  };
  expect(await processedSubmission(organisation, good.uuid)).toEqual(done);
  const errors = { S2: ['there is no supplier attribute "Colour"'] };
  const problem = {
    ...done,
    ...bad,
    state: { ...done.state, errors },
    state_errors: errors,
    change_summary: [
      { header: 'Supplier S1 unchanged', messages: [] },
      { header: 'Supplier S2 not changed', messages: errors.S2 },
    ],
    change_warnings: [
      { header: 'Supplier S1', messages: ['there is no contact gone@one.example to delete'] },
      { header: 'Supplier S2 not changed', messages: errors.S2 },
    ],
  };
  expect(await processedSubmission(organisation, bad.uuid)).toEqual(problem);
  // The list shows the same, newest first.
  const { body } = await organisation.call('GET', `${changesPath}/?page_size=2`);
  expect(body.result).toEqual([problem, done]);
});

test.each<[string, unknown, string[]]>([
  ['no change_data', {}, ['change_data']],
  ['change_data that is a list', { change_data: [] }, ['change_data']],
  ['no suppliers', { change_data: {} }, ['change_data.suppliers']],
  ['suppliers that are one object', { change_data: { suppliers: { external_id: 'X' } } }, ['change_data.suppliers']],
  ['no external_id', { change_data: { suppliers: [{ name: 'X' }] } }, ['change_data.suppliers[0].external_id']],
  [
    'members of wrong types',
    { change_data: { suppliers: [{ external_id: 1, name: true, fields: [], contacts: {}, archived: 'no' }] } },
    ['external_id', 'name', 'fields', 'contacts', 'archived'].map((name) => `change_data.suppliers[0].${name}`),
  ],
  [
    'a field that is no text',
    { change_data: { suppliers: [{ external_id: 'X', name: 'X', fields: { Region: 1 } }] } },
    ['change_data.suppliers[0].fields.Region'],
  ],
  [
    'a contact with a delete that is text',
    { change_data: { suppliers: [{ external_id: 'X', contacts: [{ email: 'a@x.example', delete: 'true' }] }] } },
    ['change_data.suppliers[0].contacts[0].delete'],
  ],
  [
    'a member that does not exist',
    { change_data: { suppliers: [] }, dry_run: true },
    ['change_data.suppliers', 'dry_run'],
  ],
])('a body with %s gets no identifier and makes no submission', async (_what, body, paths) => {
  const count = async () => (await organisation.call('GET', changesPath)).body.count;
  const before = await count();
  const answer = await organisation.call('POST', changesPath, body);
  expect(answer.status).toBe(400);
  expect(answer.body.result).toBeUndefined();
  expect(new Set(answer.body.errors.map(({ path }: { path: string }) => path))).toEqual(new Set(paths));
  expect(await count()).toBe(before);
});

test('several suppliers in a body: unknown ones are created and known ones updated, by the same members', async () => {
  const entry = (external_id: string, name: string) => ({
    external_id,
    name,
    fields: { Region: 'APAC' },
    contacts: [{ name: 'Zoe', email: 'zoe@all.example' }],
  });
  const result = await changeSuppliers(organisation, entry('S1', 'Renamed'), entry('N2', 'Newer'));
  expect(result.change_summary.map(({ header }: { header: string }) => header)).toEqual([
    'Supplier S1 updated',
    'Supplier N2 created',
  ]);
  const read = async (id: string) => (await organisation.call('GET', `${suppliersPath}/${id}`)).body.result;
  // Two suppliers may have the same e-mail; contacts that are left out stay.
  expect(await read('N2')).toEqual({ ...entry('N2', 'Newer'), archived: false });
  expect(await read('S1')).toEqual({
    ...entry('S1', 'Renamed'),
    archived: false,
    contacts: [
      { name: 'Ann', email: 'ann@one.example' },
      { name: 'Bob', email: 'bob@one.example' },
      { name: 'Zoe', email: 'zoe@all.example' },
    ],
  });
});
