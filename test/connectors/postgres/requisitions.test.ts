import { randomUUID } from 'node:crypto';
import { beforeEach, expect, test } from 'vitest';
import type { Acknowledgement } from '#connector/acknowledgements.ts';
import type { ReadPage } from '#connector/records.ts';
import { createEmptyDatabase, type TestDatabase } from '../../harness/test-database.ts';
import { messageOf, never, openSession, statuses } from './sessions.ts';

let db: TestDatabase;
beforeEach(async () => {
  db = await createEmptyDatabase();
  // As the README has it: items in a table of their own, and a view that puts them into one column.
  await db.database.query(`create schema erp;
    create table erp.req (no text primary key, title text, status text not null default 'released', day text,
      changed_at timestamptz not null default now());
    create table erp.req_item (no text, pos integer, name text, qty numeric, changed_at timestamptz not null default now());
    create view erp.requisition as select r.no, r.title, r.status, r.day,
      greatest(r.changed_at, max(i.changed_at)) as changed_at,
      coalesce(jsonb_agg(jsonb_build_object('line', i.pos, 'name', i.name, 'quantity', i.qty) order by i.pos)
        filter (where i.no is not null), '[]') as items
      from erp.req r left join erp.req_item i using (no) group by r.no`);
  return () => db.drop();
});

const settings = (more: Record<string, unknown> = {}) => ({
  read: {
    requisition: {
      from: 'erp.requisition',
      unique: 'no',
      changed: 'changed_at',
      page: 2,
      acknowledge: true,
      record: {
        reference_id: 'no',
        name: 'title',
        open: { at: 'status', is: ['released'] },
        needed_by: 'day',
        items: { at: 'items' },
      },
      ...more,
    },
  },
});
const raise = (no: string, { status = 'released', day = null as string | null, items = '1.50' } = {}) =>
  db.database
    .query('insert into erp.req (no, title, status, day) values ($1, $2, $3, $4)', [no, `Need ${no}`, status, day])
    .then(() =>
      db.database.query(`insert into erp.req_item (no, pos, name, qty) values ($1, 10, 'Steel', $2)`, [no, items]),
    );
const news = (requisition: string, status: Acknowledgement['status'] = 'created'): Acknowledgement => ({
  requisition,
  status,
  event: { kind: 'event', id: 'E-1', name: 'Steel', reference: requisition, url: 'https://sourcing.example/E-1' },
  text: `It is ${status}`,
  idempotencyKey: randomUUID(),
});

test('a view over two tables is read with the exact digits of its items; a day stays that day', async () => {
  await raise('R-1', { day: '2030-07-01', items: '12345678901234567890.10' });
  await raise('R-2', { day: '2030-07-01 12:00:00.5+01' });
  await raise('R-3', { day: 'soon' });
  await raise('R-4', { status: 'draft' });
  const session = await openSession(db.url, settings());
  const pages: ReadPage<'requisition'>[] = [];
  for await (const page of session.read?.('requisition', undefined, never) ?? []) pages.push(page);
  const records = pages.flatMap((page) => page.records);
  expect(records.map(({ reference_id, needed_by, open }) => [reference_id, needed_by, open])).toEqual([
    ['R-1', '2030-07-01T00:00:00.000000Z', true],
    ['R-2', '2030-07-01T11:00:00.500000Z', true],
    ['R-4', undefined, false],
  ]);
  expect(records[0]?.items).toEqual([{ line: '10', name: 'Steel', quantity: '12345678901234567890.1' }]);
  expect(pages.flatMap(({ faults = [] }) => faults)).toEqual([
    { where: 'erp.requisition, no R-3', key: 'R-3', why: expect.stringContaining('"soon": it must be a day') },
  ]);
  // What cannot be read has not disappeared.
  const open: string[] = [];
  for await (const numbers of session.openRequisitions?.(never) ?? []) open.push(...numbers);
  expect(open).toEqual(['R-1', 'R-2', 'R-3']);
});

test('news is one row; a repetition runs no trigger again; what the database refuses keeps no other news back', async () => {
  for (const no of ['R-1', 'R-2', 'R-3']) await raise(no);
  const session = await openSession(db.url, settings());
  const [first, second] = [news('R-1'), news('R-1', 'published')];
  expect(statuses((await session.acknowledge?.([first], never)) ?? [])).toEqual(['updated']);
  await db.database.query(`create table erp.log (requisition text, status text);
    create function erp.carry() returns trigger language plpgsql as $$ begin
      if new.requisition = 'R-2' then raise exception 'R-2 is locked in the ERP'; end if;
      insert into erp.log values (new.requisition, new.status); return new; end $$;
    create trigger carry before insert or update on sourcing.requisition_news for each row execute function erp.carry()`);
  expect(statuses((await session.acknowledge?.([first], never)) ?? [])).toEqual(['unchanged']);
  const batch = [second, news('R-2'), news('R-9'), news('R-3', 'failed')];
  const outcomes = (await session.acknowledge?.(batch, never)) ?? [];
  expect(statuses(outcomes)).toEqual(['updated', 'data', 'data', 'updated']);
  expect(outcomes.map(messageOf).filter((text) => text !== '')).toEqual([
    expect.stringContaining('R-2 is locked in the ERP'),
    'erp.requisition has no requisition R-9.',
  ]);
  expect(statuses((await session.acknowledge?.([second], never)) ?? [])).toEqual(['unchanged']);
  expect(await db.database.query('select requisition, status from sourcing.requisition_news order by 1')).toEqual([
    { requisition: 'R-1', status: 'published' },
    { requisition: 'R-3', status: 'failed' },
  ]);
  expect(await db.database.query('select status from erp.log where requisition = $1', ['R-1'])).toEqual([
    { status: 'published' },
  ]);
});

test('news whose row a trigger drops are refused: nobody was told', async () => {
  await raise('R-1');
  const session = await openSession(db.url, settings());
  await session.acknowledge?.([news('R-1')], never);
  await db.database.query(`create function erp.swallow() returns trigger language plpgsql as 'begin return null; end';
    create trigger swallow before insert or update on sourcing.requisition_news
      for each row execute function erp.swallow()`);
  const outcomes = (await session.acknowledge?.([news('R-1', 'published')], never)) ?? [];
  expect(statuses(outcomes)).toEqual(['data']);
  expect(outcomes.map(messageOf)).toEqual([expect.stringContaining('a trigger has dropped 1 of 1 rows')]);
});

test('a requisition that the ERP deleted after it was told of it is told again', async () => {
  await raise('R-1');
  const session = await openSession(db.url, settings());
  await session.acknowledge?.([news('R-1')], never);
  await db.database.query('delete from erp.req');
  expect(statuses((await session.acknowledge?.([news('R-1', 'removed')], never)) ?? [])).toEqual(['updated']);
});

test('check says that the table of the news is made by the first write', async () => {
  const session = await openSession(db.url, settings());
  const said = (await session.check()).map(({ ok, message }) => `${ok} ${message}`).join('\n');
  expect(said).toContain('true erp.requisition can be read.');
  expect(said).toContain('The first write creates the tables in the schema sourcing (001_requisition_news.sql)');
});

test('an intake that does not acknowledge has no acknowledge, and needs no table', async () => {
  const session = await openSession(db.url, settings({ acknowledge: false }));
  expect('acknowledge' in session).toBe(false);
  expect((await session.check()).map(({ name }) => name)).toEqual(['server', 'read erp.requisition']);
});
