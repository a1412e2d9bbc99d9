/** Reading suppliers: one by its external_id with any characters, and the list with its filters. */
import { expect, test } from 'vitest';
import { changeSuppliers, createSuppliers } from '../../harness/sourcing.ts';
import type { TestOrganisation } from '../../harness/test-organisation.ts';
import { startTestService } from '../../harness/test-service.ts';

const service = await startTestService();
const path = '/api/manage/suppliers';

async function listed(organisation: TestOrganisation, query: string): Promise<string[]> {
  const answer = await organisation.call('GET', `${path}?${query}`);
  expect(answer.status).toBe(200);
  return answer.body.result.map((supplier: { external_id: string }) => supplier.external_id);
}

test('a supplier is read in the manage envelope with fields and contacts, with or without a final slash', async () => {
  const organisation = await service.organisation();
  await service.operator('POST', `/admin/organisations/${organisation.id}/supplier-attributes`, { name: 'Region' });
  await changeSuppliers(organisation, {
    external_id: 'S1',
    name: 'One',
    fields: { Region: 'EMEA' },
    contacts: [
      { name: 'Bob', email: 'bob@one.example' },
      { name: 'Ann', email: 'Ann@one.example' },
    ],
  });
  const supplier = {
    external_id: 'S1',
    name: 'One',
    fields: { Region: 'EMEA' },
    archived: false,
    contacts: [
      { name: 'Ann', email: 'Ann@one.example' },
      { name: 'Bob', email: 'bob@one.example' },
    ],
  };
  for (const slash of ['', '/']) {
    expect((await organisation.call('GET', `${path}/S1${slash}`)).body).toEqual({
      result: supplier,
      used_endpoints: [`${path}/{external_id}`],
      gsn: 1,
      includes: {},
      extras: {},
    });
    expect((await organisation.call('GET', path + slash)).body).toEqual({
      result: [supplier],
      count: 1,
      page_size: 20,
      page_number: 1,
      num_pages: 1,
      next: null,
      previous: null,
      used_endpoints: [path],
      gsn: 1,
      includes: {},
      extras: {},
    });
  }
});

test('a supplier is found by any valid external_id', async () => {
  const organisation = await service.organisation();
  const ids = [
    'A/B',
    'A/',
    '/',
    'a b',
    '100 %',
    '%2F',
    'ü',
    '東京',
    '🪑',
    '?x=1',
    '#1',
    'a+b',
    '__proto__',
    'S1',
    's1',
  ];
  await createSuppliers(organisation, ids);
  for (const id of ids) {
    const { status, body } = await organisation.call('GET', `${path}/${encodeURIComponent(id)}`);
    expect([status, body.result?.external_id]).toEqual([200, id]);
    expect(await listed(organisation, new URLSearchParams({ external_id: id }).toString())).toEqual([id]);
  }
  expect(new Set(await listed(organisation, 'page_size=100'))).toEqual(new Set(ids));
});

test("another organisation's supplier is answered as one that does not exist", async () => {
  const organisation = await service.organisation();
  await createSuppliers(await service.organisation(), ['THEIRS']);
  const theirs = await organisation.call('GET', `${path}/THEIRS`);
  expect(theirs.status).toBe(404);
  expect(theirs.body).toEqual((await organisation.call('GET', `${path}/NOBODY`)).body);
  expect((await organisation.call('GET', `${path}/${'x'.repeat(2_000)}`)).status).toBe(404);
  expect(await listed(organisation, 'external_id=THEIRS')).toEqual([]);
});

test('filters match the whole name and identifier, and archived; all must match', async () => {
  const organisation = await service.organisation();
  await changeSuppliers(
    organisation,
    { external_id: 'S1', name: 'Acme' },
    { external_id: 'S2', name: 'Acme', archived: true },
    { external_id: 'S3', name: 'ACME' },
    { external_id: 'S4', name: 'Acme Tools' },
  );
  expect(await listed(organisation, '')).toEqual(['S1', 'S2', 'S3', 'S4']);
  expect(await listed(organisation, 'archived=true')).toEqual(['S2']);
  expect(await listed(organisation, 'archived=false')).toEqual(['S1', 'S3', 'S4']);
  expect(await listed(organisation, 'name=Acme')).toEqual(['S1', 'S2']);
  expect(await listed(organisation, 'name=Acme&archived=false')).toEqual(['S1']);
  expect(await listed(organisation, 'name=Acme&external_id=S3')).toEqual([]);
  expect(await listed(organisation, 'name=Acm%25')).toEqual([]);
});

test('modified_after finds suppliers that changed at that time or later; only a difference is a change', async () => {
  const organisation = await service.organisation();
  await createSuppliers(organisation, ['S1', 'S2']);
  await createSuppliers(organisation, ['S3']);
  await createSuppliers(organisation, ['S1']);
  const [row] = await service.db.database.query<{ modified: string }>(
    `select modified from service.suppliers where organisation_id = $1 and external_id = 'S3'`,
    [organisation.id],
  );
  const { modified = '' } = row ?? {};
  expect(await listed(organisation, `modified_after=${modified}`)).toEqual(['S3']);
  await changeSuppliers(organisation, { external_id: 'S1', contacts: [{ name: 'Ann', email: 'a@one.example' }] });
  expect(await listed(organisation, `modified_after=${modified}`)).toEqual(['S1', 'S3']);
  expect(await listed(organisation, 'modified_after=2100-01-01')).toEqual([]);
  expect(await listed(organisation, 'modified_after=2000-01-01')).toEqual(['S1', 'S2', 'S3']);
});

test.each(['archived=yes', 'archived=', 'name=', 'modified_after=now', 'page_size=1001', 'modified_before=2030-01-01'])(
  'the query %s is refused with the name of its parameter',
  async (query) => {
    const organisation = await service.organisation();
    const answer = await organisation.call('GET', `${path}?${query}`);
    expect([answer.status, answer.body.errors[0].path]).toEqual([400, query.split('=')[0]]);
  },
);

test('the pages have each of 1,001 suppliers once, and their links keep the filters', async () => {
  const organisation = await service.organisation();
  const ids = Array.from({ length: 1_001 }, (_, index) => `S${String(index).padStart(4, '0')}`);
  await createSuppliers(organisation, ids.slice(0, 1_000));
  await createSuppliers(organisation, ids.slice(1_000));
  await createSuppliers(await service.organisation(), ids.slice(0, 1_000));
  const all: string[] = [];
  for (let link = `${path}?archived=false&page_size=300`; ; ) {
    const { body } = await organisation.call('GET', link);
    expect([body.count, body.num_pages]).toEqual([1_001, 4]);
    all.push(...body.result.map((supplier: { external_id: string }) => supplier.external_id));
    if (body.next === null) break;
    const next = new URL(body.next);
    expect(next.origin).toBe(service.url);
    link = next.pathname + next.search;
  }
  expect(all).toEqual(ids);
  expect((await organisation.call('GET', `${path}?page_size=1000`)).body.result).toHaveLength(1_000);
  const beyond = (await organisation.call('GET', `${path}?page_number=9&page_size=1000`)).body;
  expect(beyond).toMatchObject({ result: [], count: 1_001, next: null });
  expect(new URL(beyond.previous).searchParams.get('page_number')).toBe('2');
});

test('gsn never decreases, and an answer shows exactly the changes that its gsn counts', async () => {
  const organisation = await service.organisation();
  const changing = (async () => {
    for (let number = 0; number < 20; number += 1) await createSuppliers(organisation, [`S${number}`]);
  })();
  const seen: number[] = [];
  while (seen.at(-1) !== 20) {
    const { body } = await organisation.call('GET', path);
    // Each change is one new supplier.
    expect(body.gsn).toBe(body.count);
    seen.push(body.gsn);
  }
  await changing;
  expect(seen).toEqual(seen.toSorted((a, b) => a - b));
  expect((await organisation.call('GET', `${path}/S0`)).body.gsn).toBe(20);
});
