import { expect, test } from 'vitest';
import { eventually, startTestService, type TestOrganisation } from '../../harness/programs.ts';

const service = await startTestService();
const path = '/api/manage/supplier_changes';

async function change(organisation: TestOrganisation, ...suppliers: object[]) {
  const submitted = await organisation.call('POST', path, { change_data: { suppliers } });
  expect(submitted.status).toBe(202);
  return eventually('the submission is processed', async () => {
    const { body } = await organisation.call('GET', `${path}/${submitted.body.result.uuid}`);
    return body.result.current_state === 'PROCESSED' && body.result;
  });
}

async function stored(organisation: TestOrganisation) {
  return service.db.database.query(
    `select external_id, name, fields, archived,
       (select json_agg(json_build_array(c.name, c.email) order by c.email_key)
        from service.supplier_contacts c where c.supplier_id = s.id) as contacts
     from service.suppliers s where organisation_id = $1 order by external_id`,
    [organisation.id],
  );
}

test('a submission is acknowledged with its link, and read in the manage envelope', async () => {
  const organisation = await service.organisation();
  const submitted = await organisation.call('POST', path, {
    change_data: { suppliers: [{ external_id: 'S1', name: 'One' }] },
  });
  const { uuid, url } = submitted.body.result;
  expect(submitted.body).toEqual({
    result: { uuid, url: `${service.url}${path}/${uuid}` },
    used_endpoints: [path],
    gsn: 0,
    includes: {},
    extras: {},
  });
  const read = await eventually('it is processed', async () => {
    const answer = await organisation.call('GET', new URL(url).pathname);
    return answer.body.result.current_state === 'PROCESSED' && answer;
  });
  expect(read.body).toEqual({
    result: {
      uuid,
      url,
      current_state: 'PROCESSED',
      state_errors: {},
      change_summary: [{ header: 'Supplier S1 created', messages: [] }],
      change_warnings: null,
      created_by: expect.stringMatching(/^[0-9a-f-]{36}$/),
      last_changed: expect.stringMatching(/\.\d{6}Z$/),
      user_name: 'test',
    },
    used_endpoints: [`${path}/{uuid}`],
    gsn: 1,
    includes: {},
    extras: {},
  });
});

test('a bad entry leaves its supplier as it was, and the others are applied', async () => {
  const organisation = await service.organisation();
  await service.operator('POST', `/admin/organisations/${organisation.id}/supplier-attributes`, { name: 'Region' });
  await change(organisation, { external_id: 'S1', name: 'One', contacts: [{ name: 'Ann', email: 'ann@one.example' }] });
  const result = await change(
    organisation,
    { external_id: 'S1', name: 'Changed', fields: { Colour: 'red' } },
    { external_id: 'S2', name: 'Two', fields: { Region: 'EMEA' } },
    { external_id: '__proto__' },
  );
  expect(Object.entries(result.state_errors)).toEqual([
    ['S1', ['there is no supplier attribute "Colour"']],
    ['__proto__', ['a new supplier needs a name']],
  ]);
  expect(result.change_summary.map((item: { header: string }) => item.header)).toEqual([
    'Supplier S1 not changed',
    'Supplier S2 created',
    'Supplier __proto__ not changed',
  ]);
  expect(await stored(organisation)).toEqual([
    { external_id: 'S1', name: 'One', fields: {}, archived: false, contacts: [['Ann', 'ann@one.example']] },
    { external_id: 'S2', name: 'Two', fields: { Region: 'EMEA' }, archived: false, contacts: null },
  ]);
});

test('contacts are added, renamed and deleted by e-mail; those left out stay and keep their ids', async () => {
  const organisation = await service.organisation();
  const contacts = ['ann', 'bob', 'cy'].map((name) => ({ name, email: `${name}@one.example` }));
  await change(organisation, { external_id: 'S1', name: 'One', contacts });
  const ids = () =>
    service.db.database.query<{ id: string; email: string }>(
      `select c.id, c.email from service.supplier_contacts c join service.suppliers s on s.id = c.supplier_id
       where s.organisation_id = $1 order by c.email`,
      [organisation.id],
    );
  const before = await ids();
  const result = await change(organisation, {
    external_id: 'S1',
    contacts: [
      { name: 'Ann B.', email: 'ANN@one.example' },
      { email: 'bob@one.example', delete: true },
      { email: 'nobody@one.example', delete: true },
      { name: 'Di', email: 'di@one.example' },
    ],
  });
  expect(result.change_warnings).toEqual([
    { header: 'Supplier S1', messages: ['there is no contact nobody@one.example to delete'] },
  ]);
  const [one] = await stored(organisation);
  expect(one).toMatchObject({
    contacts: [
      ['Ann B.', 'ann@one.example'],
      ['cy', 'cy@one.example'],
      ['Di', 'di@one.example'],
    ],
  });
  const kept = new Map((await ids()).map((row) => [row.email, row.id]));
  expect(before.filter(({ email }) => kept.has(email)).map(({ email }) => email)).toEqual([
    'ann@one.example',
    'cy@one.example',
  ]);
  for (const { id, email } of before) expect([id, undefined]).toContain(kept.get(email));
});

test('e-mails that JavaScript and a database lower differently block nothing', async () => {
  const organisation = await service.organisation();
  // The last letter of a word: lower case of the capital sigma depends on who asks.
  const contacts = ['ΟΣ@x.example', 'οσ@x.example', 'ος@x.example', 'İ@x.example', 'K@x.example'];
  const result = await change(organisation, {
    external_id: 'S1',
    name: 'One',
    contacts: contacts.map((email) => ({ name: 'n', email })),
  });
  expect(result.current_state).toBe('PROCESSED');
  expect((await change(organisation, { external_id: 'S2', name: 'Two' })).state_errors).toEqual({});
});

test('submissions are applied in the order they came', async () => {
  const organisation = await service.organisation();
  for (let number = 1; number <= 10; number += 1)
    await organisation.call('POST', path, {
      change_data: { suppliers: [{ external_id: 'S1', name: `Name ${number}` }] },
    });
  await change(organisation, { external_id: 'S2', name: 'Last' });
  expect(await stored(organisation)).toMatchObject([{ name: 'Name 10' }, { name: 'Last' }]);
});

test('the same submission again changes nothing, and gsn counts changes only', async () => {
  const organisation = await service.organisation();
  await change(organisation, { external_id: 'S1', name: 'One' });
  const again = await change(organisation, { external_id: 'S1', name: 'One' });
  expect(again.change_summary).toEqual([{ header: 'Supplier S1 unchanged', messages: [] }]);
  const { body } = await organisation.call('GET', `${path}/${again.uuid}`);
  expect(body.gsn).toBe(1);
});

test('a thousand suppliers with contacts are one submission, a thousand and one too many', async () => {
  const organisation = await service.organisation();
  const suppliers = Array.from({ length: 1_001 }, (_, index) => ({
    external_id: `S${index}`,
    name: `Supplier ${index}`,
    contacts: [{ name: 'Sales', email: `sales@s${index}.example` }],
  }));
  const tooMany = await organisation.call('POST', path, { change_data: { suppliers } });
  expect([tooMany.status, tooMany.body.errors[0].path]).toEqual([400, 'change_data.suppliers']);
  const result = await change(organisation, ...suppliers.slice(0, 1_000));
  expect(result.change_summary).toHaveLength(1_000);
});
