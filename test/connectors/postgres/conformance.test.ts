import { randomUUID } from 'node:crypto';
import { inject, test } from 'vitest';
import type { Document } from '#connector/documents.ts';
import { type ConformanceTarget, conformance } from '#connector/testing/index.ts';
import connector from '../../../connectors/postgres/index.ts';
import { createEmptyDatabase } from '../../harness/test-database.ts';
import { readDocuments } from './read-documents.ts';
import { award, never, openSession, operationOf } from './sessions.ts';

const db = await createEmptyDatabase();
const session = await openSession(db.url);
await session.write([operationOf(award(0))], never);
await session.close();
// Constraints of a customer, which the connector does not know.
for (const table of ['sourcing_event', 'quotation', 'award', 'rfi_answers', 'file'])
  await db.database.query(`alter table sourcing.${table} add check (event_name <> 'refused')`);
await db.database.query(`alter table sourcing.supplier add check (name <> 'refused')`);
await db.database.query(`create schema erp; create table erp.vendor (
  number text primary key, name text not null, blocked boolean not null, city text, contacts jsonb,
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
      read: { supplier: { from: 'erp.vendor', unique: 'number', changed: 'changed_at', record, page: 3 } },
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
  changeRecord: async (_stream, name, archived) => {
    const number = `V-${randomUUID()}`;
    const contacts = [{ name: 'Ann', email: 'ann@example.com' }];
    await db.database.query(
      'insert into erp.vendor (number, name, blocked, city, contacts) values ($1, $2, $3, $4, $5)',
      [number, name, archived, 'Łódź', JSON.stringify(contacts)],
    );
    return { external_id: number, name, archived, fields: { city: 'Łódź' }, contacts } as never;
  },
  poison: (document) => named(document, 'refused'),
  notApplicable: { 'expired login': 'an open connection does not expire' },
  // The first request of a write, one in the middle, and COMMIT; kill.test.ts kills at any moment.
  faultPoints: 3,
};

function bytesOf(key: string): Promise<{ bytes: Buffer }[]> {
  return db.database.query('select bytes from sourcing.file_content where key = $1', [key]);
}

function named(document: Document, name: string): Document {
  return document.kind === 'supplier' ? { ...document, name } : { ...document, event: { ...document.event, name } };
}

// oxlint-disable-next-line vitest/expect-expect, vitest/valid-title
for (const { title, run } of conformance(target)) test(title, run);
