import { randomUUID } from 'node:crypto';
import { inject, test } from 'vitest';
import type { Document } from '#connector/documents.ts';
import { type ConformanceTarget, conformance, type EditedField } from '#connector/testing/index.ts';
import connector from '../../../connectors/postgres/index.ts';
import { createEmptyDatabase } from '../../harness/test-database.ts';
import { readDocuments } from './read-documents.ts';
import { award, never, openSession, operationOf } from './sessions.ts';

const db = await createEmptyDatabase();
const session = await openSession(db.url);
await session.write([operationOf(award(0))], never);
await session.close();
// Constraints of a customer, which the connector does not know.
for (const table of ['sourcing_event', 'quotation', 'award', 'event_awards', 'rfi_answers', 'file'])
  await db.database.query(`alter table sourcing.${table} add check (event_name <> 'refused')`);
await db.database.query(`alter table sourcing.supplier add check (name <> 'refused')`);
await db.database.query(`alter table sourcing.job add check (type <> 'refused')`);
await db.database.query(`create schema erp; create table erp.vendor (
  number text primary key, name text not null, blocked boolean not null, city text, contacts jsonb,
  changed_at timestamptz not null default clock_timestamp())`);
await db.database.query(`create table erp.requisition (
  number text primary key, title text not null, status text not null, plant text, wanted timestamptz, items jsonb not null,
  changed_at timestamptz not null default clock_timestamp())`);
const [server] = await db.database.query<{ version: string }>(
  `select split_part(current_setting('server_version'), ' ', 1) as version`,
);

const target: ConformanceTarget = {
  connector,
  verified: 'real server',
  against: `PostgreSQL ${server?.version}`,
  proxy: { protocol: 'tcp', address: () => new URL(inject('databaseUrl')).host },
  settings: (address) => {
    const url = new URL(db.url);
    url.host = new URL(`tcp://${address === '' ? url.host : address.replace(/^http:\/\//, '')}`).host;
    const record = { external_id: 'number', name: 'name', archived: 'blocked', contacts: 'contacts' };
    return {
      url: url.href,
      batch_max: 50,
      read: {
        supplier: { from: 'erp.vendor', unique: 'number', changed: 'changed_at', record, page: 3 },
        requisition: {
          from: 'erp.requisition',
          unique: 'number',
          changed: 'changed_at',
          page: 3,
          acknowledge: true,
          record: {
            reference_id: 'number',
            name: 'title',
            open: { at: 'status', is: ['released'] },
            needed_by: 'wanted',
            tags: { Plant: 'plant' },
            items: { at: 'items', line: 'pos', quantity: 'qty', unit: 'uom' },
          },
        },
      },
    };
  },
  held: async ({ kind, key }) => {
    const held = await readDocuments(db.database, 'sourcing', kind, key);
    const [content] = kind === 'file' ? await bytesOf(key) : [];
    return [...held.values()].map((document) => ({
      reference: `${kind.replaceAll('-', '_')}/${key}`,
      document,
      ...(content ? { bytes: content.bytes } : {}),
    }));
  },
  edit: async ({ kind, key }, n) => {
    const edit = editsOf(kind)[n];
    if (!edit) return undefined;
    await db.database.query(edit.sql, [key]);
    return edit.differs;
  },
  remove: async ({ kind, key }) => {
    // Some teams delete rows, others mark them as the connector does.
    const isDeleted = kind !== 'award';
    const table = kind.replaceAll('-', '_');
    await db.database.query(
      isDeleted
        ? `delete from sourcing.${table} where key = $1`
        : `update sourcing.${table} set state = 'withdrawn' where key = $1`,
      [key],
    );
    return isDeleted ? 'missing' : 'cancelled';
  },
  changeRecord: async (stream, name, archived) => {
    if (stream === 'requisition') return (await makeRequisition(name)) as never;
    const number = `V-${randomUUID()}`;
    const contacts = [{ name: 'Ann', email: 'ann@example.com' }];
    await db.database.query(
      'insert into erp.vendor (number, name, blocked, city, contacts) values ($1, $2, $3, $4, $5)',
      [number, name, archived, 'Łódź', JSON.stringify(contacts)],
    );
    return { external_id: number, name, archived, fields: { city: 'Łódź' }, contacts } as never;
  },
  deleteRequisition: (number) => db.database.query('delete from erp.requisition where number = $1', [number]),
  acknowledged: (number) =>
    db.database
      .query('select status, event_id as event, reason, text from sourcing.requisition_news where requisition = $1', [
        number,
      ])
      .then((rows) => rows.map(withoutNulls)),
  poison: (document) => named(document, 'refused'),
  notApplicable: { 'expired login': 'an open connection does not expire' },
  // The first request of a write, one in the middle, and COMMIT; kill.test.ts kills at any moment.
  faultPoints: 3,
  // All kinds are written by the same statements; a file has bytes.
  faultKinds: ['award', 'file'],
};

/** What somebody may do by hand in SQL, and the fields that differ then. `$1` is the key. */
function editsOf(kind: Document['kind']): { sql: string; differs: EditedField[] }[] {
  const of = (sql: string, ...differs: [name: string, held: string | undefined][]) => ({
    sql,
    differs: differs.map(([name, held]) => ({ name, held })),
  });
  const table = kind.replaceAll('-', '_');
  const title = kind === 'supplier' ? 'name' : kind === 'job' ? 'type' : 'event_name';
  const edits = [
    of(`update sourcing.${table} set ${title} = 'Ołów "A"' where key = $1`, [title, 'Ołów "A"']),
    of(`update sourcing.${table} set fields = '{"plant": "1000"}' where key = $1`, ['fields', '{"plant":"1000"}']),
  ];
  if (kind === 'supplier')
    edits.push(
      of(
        `insert into sourcing.supplier_contact (key, position, name, email) values ($1, 2, 'Ann', 'ann@example.com')`,
        ['supplier_contact[2].row', '2'],
        ['supplier_contact[2].name', 'Ann'],
        ['supplier_contact[2].email', 'ann@example.com'],
      ),
    );
  if (kind === 'sourcing-event')
    edits.push(
      of(`update sourcing.sourcing_event set published = '2030-02-28 03:00:00.5+02' where key = $1`, [
        'published',
        '2030-02-28T01:00:00.500000Z',
      ]),
    );
  if (kind === 'award' || kind === 'quotation')
    edits.push(
      of(`update sourcing.${kind}_line set unit_price = 1234567890123.2502 where key = $1 and line = 1`, [
        `${kind}_line[1].unit_price`,
        '1234567890123.2502',
      ]),
      of(
        `update sourcing.${kind} set event_tags = '[{"value": "1000", "name": "Plant", "more": "x"}]' where key = $1`,
        ['event_tags', '[{"more":"x","name":"Plant","value":"1000"}]'],
      ),
      // The same amount with other zeros is no difference.
      of(
        `update sourcing.${kind}_line set unit_price = (unit_price::text || case when unit_price::text like '%.%' then '00' else '.00' end)::numeric where key = $1`,
      ),
    );
  return edits;
}

/** Rows of each state: what is not open is read as such, and not listed. */
async function makeRequisition(name: string) {
  const number = `R-${randomUUID()}`;
  const insert = `insert into erp.requisition (number, title, status, plant, wanted, items) values
    ($1, $2, $3, 'Łódź', '2030-06-01 01:00+02', '[{"pos": 10, "name": "Śruba", "qty": 12.50, "uom": "kg"}]')`;
  await db.database.query(insert, [`${number}-draft`, name, 'draft']);
  await db.database.query(insert, [number, name, 'released']);
  return {
    reference_id: number,
    name,
    needed_by: '2030-05-31T23:00:00.000000Z',
    tags: [{ name: 'Plant', value: 'Łódź' }],
    items: [{ line: '10', name: 'Śruba', quantity: '12.5', unit: 'kg' }],
    open: true,
  };
}

function withoutNulls(row: object): object {
  return Object.fromEntries(Object.entries(row).filter(([, value]) => value !== null));
}

function bytesOf(key: string): Promise<{ bytes: Buffer }[]> {
  return db.database.query('select bytes from sourcing.file_content where key = $1', [key]);
}

function named(document: Document, name: string): Document {
  if (document.kind === 'job') return { ...document, type: name };
  return document.kind === 'supplier' ? { ...document, name } : { ...document, event: { ...document.event, name } };
}

// oxlint-disable-next-line vitest/expect-expect, vitest/valid-title
for (const { title, run } of conformance(target)) test(title, run);
