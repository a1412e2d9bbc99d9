import { Client } from 'pg';
import { expect, test } from 'vitest';
import { systemClock } from '#platform/clock.ts';
import { silentLogger } from '#platform/log.ts';
import { applySupplierChanges } from '#service/suppliers/apply-supplier-changes.ts';
import { createUnitOfWork } from '#service/unit-of-work.ts';
import { eventually } from '../../harness/eventually.ts';
import { processedSubmission } from '../../harness/sourcing.ts';
import type { TestOrganisation } from '../../harness/test-organisation.ts';
import { startTestService } from '../../harness/test-service.ts';

const service = await startTestService();
const path = '/api/manage/supplier_changes';

async function change(organisation: TestOrganisation, ...suppliers: object[]) {
  const submitted = await organisation.call('POST', path, { change_data: { suppliers } });
  expect(submitted.status).toBe(202);
  return processedSubmission(organisation, submitted.body.result.uuid);
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
      change_type: 'SUPPLIER_CHANGE',
      organisation: organisation.id,
      state: { current: 'PROCESSED', errors: {}, is_transitioning: false, attempts: 1, parameters: {} },
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

test('an invalid entry does not change its supplier, and the others are applied', async () => {
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

test('a problem is in state_errors and change_warnings; the summary has one line for each supplier', async () => {
  const organisation = await service.organisation();
  await change(organisation, { external_id: 'OLD', name: 'Old' });
  const result = await change(
    organisation,
    {
      external_id: 'BAD',
      name: 'Bad',
      contacts: ['a@b.example', 'A@B.example'].map((email) => ({ name: 'n', email })),
    },
    { external_id: 'NEW', name: 'New' },
    { external_id: 'OLD', archived: true },
    { external_id: 'SAME', name: 'Same' },
  );
  const note = { header: 'Supplier BAD not changed', messages: ['the e-mail A@B.example stands twice'] };
  expect(result.state_errors).toEqual({ BAD: note.messages });
  expect(result.state).toMatchObject({ current: 'PROCESSED', errors: result.state_errors });
  expect(result.change_warnings).toEqual([note]);
  expect(result.change_summary).toEqual([
    note,
    { header: 'Supplier NEW created', messages: [] },
    { header: 'Supplier OLD archived', messages: ['archived'] },
    { header: 'Supplier SAME created', messages: [] },
  ]);
});

test('an unprocessed submission shows its state, and no result', async () => {
  const organisation = await service.organisation();
  const held = new Client({ connectionString: service.db.url });
  await held.connect();
  await held.query('begin');
  await held.query('select from service.feed_heads where organisation_id = $1 for update', [organisation.id]);
  const submitted = await organisation.call('POST', path, {
    change_data: { suppliers: [{ external_id: 'S1', name: 'One' }] },
  });
  const { body } = await organisation.call('GET', `${path}/${submitted.body.result.uuid}`);
  expect(body.result).toMatchObject({
    current_state: 'UNPROCESSED',
    state: { current: 'UNPROCESSED', errors: {}, is_transitioning: true, attempts: 0 },
    state_errors: {},
    change_summary: null,
    change_warnings: null,
  });
  await held.query('rollback');
  await held.end();
});

test('an internal error ends the submission, reveals no internals, and does not block the next one', async () => {
  const organisation = await service.organisation();
  await service.db.database.query(
    `create function fault() returns trigger language plpgsql as
       $$ begin if new.name = 'broken' then raise exception 'secret of the inside'; end if; return new; end $$;
     create trigger fault before insert on service.suppliers for each row execute function fault()`,
  );
  const result = await change(organisation, { external_id: 'S1', name: 'One' }, { external_id: 'S2', name: 'broken' });
  expect(Object.keys(result.state_errors)).toEqual(['S1', 'S2']);
  expect(JSON.stringify(result)).toContain('our side');
  expect(JSON.stringify(result)).not.toContain('secret');
  expect(result.change_summary).toHaveLength(2);
  expect(await stored(organisation)).toEqual([]);
  expect((await change(organisation, { external_id: 'S3', name: 'Three' })).state_errors).toEqual({});
  await service.db.database.query('drop trigger fault on service.suppliers; drop function fault');
});

test('the list of submissions has the manage envelope, newest first, in pages', async () => {
  const organisation = await service.organisation();
  const stranger = await service.organisation();
  await change(stranger, { external_id: 'S1', name: 'Theirs' });
  const made = [];
  for (const name of ['One', 'Two', 'Three']) made.unshift(await change(organisation, { external_id: 'S1', name }));
  for (const slash of ['', '/']) {
    const { body } = await organisation.call('GET', `${path}${slash}`);
    expect(body).toEqual({
      result: made,
      count: 3,
      page_size: 20,
      page_number: 1,
      num_pages: 1,
      next: null,
      previous: null,
      used_endpoints: [path],
      gsn: 3,
      includes: {},
      extras: {},
    });
  }
  const second = (await organisation.call('GET', `${path}/?page_size=2&page_number=2`)).body;
  expect(second).toMatchObject({
    result: [made[2]],
    next: null,
    previous: `${service.url}${path}?page_number=1&page_size=2`,
  });
  expect((await organisation.call('GET', `${path}?state=PROCESSED`)).status).toBe(400);
  expect((await stranger.call('GET', `${path}/${made[0].uuid}`)).status).toBe(404);
  expect((await organisation.call('GET', `${path}/x`)).status).toBe(404);
});

test('two workers on one organisation at once apply each submission once, in order', async () => {
  const organisation = await service.organisation();
  const { database } = service.db;
  // Inserted without a wake-up: only the workers of this test see them.
  await database.query(
    `insert into service.supplier_submissions (id, organisation_id, state, suppliers, created_by, created, last_changed)
     select gen_random_uuid(), $1, 'UNPROCESSED',
       jsonb_build_array(jsonb_build_object('external_id', 'S1', 'name', 'Name ' || n)), $1, now(), now()
     from generate_series(1, 12) as n`,
    [organisation.id],
  );
  const runUnitOfWork = createUnitOfWork({
    database,
    signals: { signal: async () => undefined },
  });
  const signals = { wakeHere: () => undefined };
  const work = applySupplierChanges({ runUnitOfWork, signals, database, clock: systemClock, log: silentLogger });
  const { signal } = new AbortController();
  // A turn may end before all are applied.
  await eventually('all submissions are processed', async () => {
    await Promise.all([work(organisation.id, signal), work(organisation.id, signal), work(organisation.id, signal)]);
    const left = await database.query(
      `select from service.supplier_submissions where organisation_id = $1 and state = 'UNPROCESSED'`,
      [organisation.id],
    );
    return left.length === 0;
  });
  expect(await stored(organisation)).toMatchObject([{ name: 'Name 12' }]);
  const headers = await database.query(
    `select change_summary -> 0 ->> 'header' as header, count(*) from service.supplier_submissions
     where organisation_id = $1 group by 1 order by 1`,
    [organisation.id],
  );
  expect(headers).toEqual([
    { header: 'Supplier S1 created', count: 1 },
    { header: 'Supplier S1 updated', count: 11 },
  ]);
  expect((await organisation.call('GET', '/api/manage/suppliers')).body.gsn).toBe(12);
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
  const [supplier] = await stored(organisation);
  expect(supplier).toMatchObject({
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

test('e-mails that JavaScript and a database convert to lower case differently cause no error', async () => {
  const organisation = await service.organisation();
  // At the end of a word, JavaScript and PostgreSQL have different lower cases of the capital sigma.
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

test('the same submission again changes nothing; gsn counts only changes', async () => {
  const organisation = await service.organisation();
  await change(organisation, { external_id: 'S1', name: 'One' });
  const again = await change(organisation, { external_id: 'S1', name: 'One' });
  expect(again.change_summary).toEqual([{ header: 'Supplier S1 unchanged', messages: [] }]);
  const { body } = await organisation.call('GET', `${path}/${again.uuid}`);
  expect(body.gsn).toBe(1);
});

test('a submission may have 1,000 suppliers with contacts, and not 1,001', async () => {
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
