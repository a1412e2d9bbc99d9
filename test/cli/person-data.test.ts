/** `export person` and `erase person`, on a database with both programs. */
import { scryptSync } from 'node:crypto';
import { expect, test } from 'vitest';
import { readActions } from '#platform/audit-log.ts';
import { scratchFolder } from '../harness/scratch-folder.ts';
import { createEmptyDatabase, createTestDatabase } from '../harness/test-database.ts';
import { runHere } from './command-line.ts';

const db = await createTestDatabase();
const folder = await scratchFolder();
const address = 'Ann.Ash@example.com';
const organisation = '00000000-0000-4000-8000-000000000001';

await db.database.query(
  `insert into service.organisations (id, name, created) values ('${organisation}', 'o', now());
   insert into service.suppliers (id, organisation_id, external_id, name, modified)
     values ('00000000-0000-4000-8000-000000000002', '${organisation}', 'S1', 'Acme', now());
   insert into service.supplier_contacts (id, supplier_id, name, email, email_key)
     values ('00000000-0000-4000-8000-000000000003', '00000000-0000-4000-8000-000000000002', 'Ann Ash', '${address}', lower('${address}'));
   insert into service.feed_heads (organisation_id, feed) values ('${organisation}', 'suppliers');
   insert into bridge.document_versions (flow, kind, key, content_hash, body, made_of, sent)
     values ('erp', 'supplier', 'S1', 'h', '{"contacts":[{"name":"Ann Ash","email":"${address}"}]}', '[]', now());
   insert into bridge.inbox (source, trigger, body, received) values ('main', 'T', 'to ${address}', now())`,
);

const command = (args: readonly string[], url = db.url) => runHere([...args, '--data', folder], { DATABASE_URL: url });

interface Line {
  table: string;
  key: Record<string, string>;
  found: Record<string, string>;
}

async function exported(): Promise<Line[]> {
  const { code, stdout, stderr } = await command(['export', 'person', address]);
  expect([code, stderr]).toEqual([0, '']);
  const lines = stdout.split('\n').filter((line) => line !== '');
  return lines.map((line) => JSON.parse(line) as Line);
}

test('an export has every row of both programs, with what was delivered to ERPs', async () => {
  expect(await exported()).toEqual([
    // A table without a primary key names no key.
    {
      table: 'bridge.document_versions',
      key: expect.objectContaining({ flow: 'erp', key: 'S1' }),
      found: { body: expect.stringContaining(address) },
    },
    { table: 'bridge.inbox', key: {}, found: { body: `to ${address}` } },
    {
      table: 'service.supplier_contacts',
      key: { id: '00000000-0000-4000-8000-000000000003' },
      found: { email: address, email_key: address.toLowerCase() },
    },
  ]);
});

test('an erasure asks first, and says what was removed where, and what ERPs still have', async () => {
  const refused = await command(['erase', 'person', address]);
  expect([refused.code, refused.stderr]).toEqual([2, expect.stringContaining('add --yes')]);
  expect(await exported()).toHaveLength(3);
  const erased = await command(['erase', 'person', address, '--yes', '--json']);
  expect([erased.code, JSON.parse(erased.stdout)]).toEqual([
    0,
    {
      removed: { 'bridge.document_versions': 1, 'bridge.inbox': 1, 'service.supplier_contacts': 1 },
      deliveries: [{ flow: 'erp', kind: 'supplier', key: 'S1', reference: null }],
      toRewrite: [],
    },
  ]);
  const none = await command(['export', 'person', address]);
  expect([none.code, none.stdout, none.stderr]).toEqual([
    0,
    '',
    'No row names ann.ash@example.com. Tables searched: bridge and service.\n',
  ]);
  const again = await command(['erase', 'person', address, '--yes']);
  expect([again.code, again.stdout]).toEqual([0, expect.stringContaining('erase the person there first')]);
});

test('an organisation is erased by its id, and a source when it is not configured; both are in the audit log', async () => {
  const unknown = await command(['erase', 'organisation', 'acme', '--yes']);
  expect([unknown.code, unknown.stderr]).toEqual([2, expect.stringContaining(`${organisation} (o)`)]);
  const erased = await command(['erase', 'organisation', organisation, '--yes', '--json']);
  expect([erased.code, JSON.parse(erased.stdout)]).toEqual([
    0,
    { removed: { 'service.feed_heads': 1, 'service.organisations': 1, 'service.suppliers': 1 } },
  ]);
  const source = await command(['erase', 'source', 'main', '--yes', '--json']);
  expect([source.code, JSON.parse(source.stdout)]).toEqual([0, { removed: { 'bridge.inbox': 1 } }]);
  const none = await command(['erase', 'source', 'main', '--yes']);
  expect([none.code, none.stderr]).toEqual([2, expect.stringContaining('has nothing of a source "main"')]);
  const [inService] = await readActions(db.database, 'service', { what: 'organisation.erased', limit: 1 });
  expect(inService).toMatchObject({ object: `organisation ${organisation}`, details: { removed: expect.any(Object) } });
  const [inBridge] = await readActions(db.database, 'bridge', { what: 'source.erased', limit: 1 });
  expect(inBridge).toMatchObject({ object: 'source main', details: { removed: { 'bridge.inbox': 1 } } });
});

test('both are in the audit log, by a hash that fits the address alone', async () => {
  const actions = await readActions(db.database, 'service', { what: 'person', limit: 100 });
  expect(new Set(actions.map(({ what }) => what))).toEqual(new Set(['person.export', 'person.erase', 'person.erased']));
  // The newest first; a later run found nothing more.
  const done = actions.filter(({ what }) => what === 'person.erased').at(-1);
  expect(done).toMatchObject({
    who: { kind: 'cli' },
    object: expect.stringMatching(/^person erased-[0-9a-f]{12}@erased\.invalid$/),
    details: { removed: { 'service.supplier_contacts': 1 } },
  });
  const { salt = '', scrypt } = (done?.details ?? {}) as { salt?: string; scrypt?: string };
  expect(scryptSync(address.toLowerCase(), Buffer.from(salt, 'hex'), 32).toString('hex')).toBe(scrypt);
  expect(JSON.stringify(actions).toLowerCase()).not.toContain(address.toLowerCase());
});

test('what is no e-mail address is refused, and a database without tables', async () => {
  const wrong = await command(['erase', 'person', 'ann', '--yes']);
  expect([wrong.code, wrong.stderr]).toEqual([2, expect.stringContaining('"ann" is no e-mail address')]);
  const empty = await createEmptyDatabase();
  const none = await command(['export', 'person', address], empty.url);
  expect([none.code, none.stderr]).toEqual([2, expect.stringContaining('start the program first')]);
});
