import * as fc from 'fast-check';
import { beforeEach, describe, expect, test } from 'vitest';
import type { ResourceKind } from '#bridge/documents/document-keys.ts';
import { registerFlows } from '#bridge/ledger/flows/register-flows.ts';
import { storeResources } from '#bridge/mirror/store-resources.ts';
import { createTestDatabase, type TestDatabase } from '../../harness/test-database.ts';
import { flowOf, idOf } from '../parts.ts';

const at = (second: number) => `2030-01-01T00:00:${String(second).padStart(2, '0')}.000000Z`;
const now = at(59);

let db: TestDatabase;
beforeEach(async () => {
  db = await createTestDatabase();
  return () => db.drop();
});

const store = (kind: ResourceKind, observed: string, ...objects: Record<string, unknown>[]) =>
  db.database.transaction((tx) => storeResources(tx, { source: 'main', kind, objects, observed, now }));
const bodies = async () =>
  (await db.database.query<{ body: string }>('select body from bridge.resources order by kind, id')).map(
    ({ body }) => JSON.parse(body) as Record<string, unknown>,
  );

describe('an object without a time of change', () => {
  test('is as the answer that was requested last shows it, in any order of the answers', async () => {
    const answers = fc.uniqueArray(
      fc.record({ observed: fc.integer({ min: 0, max: 50 }), name: fc.constantFrom('a', 'b') }),
      { selector: ({ observed }) => observed, minLength: 1, maxLength: 6 },
    );
    await fc.assert(
      fc.asyncProperty(answers, async (given) => {
        await db.database.query('truncate bridge.resources');
        for (const { observed, name } of given) await store('supplier', at(observed), { id: idOf(1), name });
        const last = given.reduce((a, b) => (b.observed > a.observed ? b : a));
        expect(await bodies()).toEqual([{ id: idOf(1), name: last.name }]);
      }),
      { numRuns: 60 },
    );
  });

  test('is not undone by an answer that was requested before it was seen unchanged', async () => {
    await store('supplier', at(1), { id: idOf(1), name: 'a' });
    await store('supplier', at(5), { id: idOf(1), name: 'a' });
    expect(await store('supplier', at(3), { id: idOf(1), name: 'b' })).toMatchObject({ changed: 0 });
    expect(await bodies()).toEqual([{ id: idOf(1), name: 'a' }]);
  });

  test('that an answer lists twice counts by its later entry', async () => {
    await store('supplier', at(1), { id: idOf(1), name: 'a' }, { id: idOf(1), name: 'b' });
    expect(await bodies()).toEqual([{ id: idOf(1), name: 'b' }]);
  });

  test('is not written again while it does not change', async () => {
    const event = { id: idOf(90), status: 'OPEN' };
    expect(await store('sourcing-event', at(1), event)).toEqual({ changed: 1, unreadable: 0 });
    expect(await store('sourcing-event', at(2), event)).toEqual({ changed: 0, unreadable: 0 });
    expect(await store('sourcing-event', at(3), { ...event, status: 'CLOSED' })).toEqual({ changed: 1, unreadable: 0 });
  });
});

test.each<[ResourceKind, Record<string, unknown>]>([
  ['job', { id: idOf(1) }],
  ['supplier-master', { external_id: 'SUP-1' }],
])(
  'a %s is read by one process at a time: the later answer counts, also of a process whose clock is behind',
  async (kind, id) => {
    await store(kind, at(5), { ...id, status: 'PENDING' });
    expect(await store(kind, at(3), { ...id, status: 'FAILED' })).toMatchObject({ changed: 1 });
    expect(await bodies()).toEqual([{ ...id, status: 'FAILED' }]);
  },
);

test('a question counts by its own time; of equal times the later request counts', async () => {
  const question = (modified: string, text: string) => ({ id: idOf(1), sourcing_event: idOf(90), modified, text });
  await store('question', at(1), question(at(20), 'second'));
  await store('question', at(9), question(at(10), 'first'));
  expect(await bodies()).toMatchObject([{ text: 'second' }]);
  await store('question', at(3), question(at(20), 'second, requested earlier'));
  expect(await bodies()).toMatchObject([{ text: 'second, requested earlier' }]);
  await store('question', at(2), question(at(20), 'requested earlier still'));
  expect(await bodies()).toMatchObject([{ text: 'second, requested earlier' }]);
  await store('question', at(0), question(at(30), 'third'));
  expect(await bodies()).toMatchObject([{ text: 'third' }]);
});

test('the contacts for the events of a page are not part of a supplier', async () => {
  const supplier = { id: idOf(1), name: 'Supplier', contacts: [] };
  await store('supplier', at(1), { ...supplier, bidder_contacts: [{ name: 'A', email: 'a@b.example' }] });
  expect(await store('supplier', at(2), { ...supplier, bidder_contacts: [] })).toMatchObject({ changed: 0 });
  expect(await bodies()).toEqual([supplier]);
});

test('entries of the supplier list are found by their external id; kinds and sources stay apart', async () => {
  await store('supplier-master', at(1), { external_id: 'SUP-1', name: 'a' }, { external_id: 'sup-1', name: 'b' });
  await store('supplier', at(1), { id: 'SUP-1', name: 'c' });
  await db.database.transaction((tx) =>
    storeResources(tx, { source: 'other', kind: 'supplier', objects: [{ id: 'SUP-1' }], observed: at(1), now }),
  );
  const rows = await db.database.query('select source, kind, id from bridge.resources order by source, kind, id');
  expect(rows.map((row) => Object.values(row).join(' ')).sort()).toEqual([
    'main supplier SUP-1',
    'main supplier-master SUP-1',
    'main supplier-master sup-1',
    'other supplier SUP-1',
  ]);
});

test('objects without an id that can be stored are skipped and counted', async () => {
  const objects = [
    { name: 'none' },
    { id: 'a\0b' },
    { id: '\ud800' },
    { id: '' },
    { id: 'x'.repeat(256) },
    { id: 'good' },
  ];
  expect(await store('supplier', at(1), ...objects)).toEqual({ changed: 1, unreadable: 5 });
  // A text of 10,000 different characters is too long for an index, and would make the whole list fail.
  const long = Array.from({ length: 10_000 }, (_, n) => String.fromCharCode(0x4e00 + n)).join('');
  const masters = [{ external_id: 7 }, { external_id: '' }, { external_id: long }, { external_id: 'x'.repeat(255) }];
  expect(await store('supplier-master', at(1), ...masters)).toEqual({ changed: 1, unreadable: 3 });
});

describe('documents', () => {
  const due = async () =>
    (
      await db.database.query<{ key: string }>(
        `select kind || ' ' || key as key from bridge.flow_documents where due is not null order by 1`,
      )
    ).map(({ key }) => key);
  beforeEach(async () => {
    await registerFlows(db.database, [flowOf({ documents: ['supplier', 'award'] })], now);
  });

  test('of a supplier are marked when its entry in the list changes, not when it is seen again', async () => {
    await store('supplier-master', at(1), { external_id: 'SUP-1', name: 'a' });
    expect(await due()).toEqual(['supplier SUP-1']);
    await db.database.query('update bridge.flow_documents set due = null');
    await store('supplier-master', at(2), { external_id: 'SUP-1', name: 'a' });
    expect(await due()).toEqual([]);
    await store('supplier-master', at(3), { external_id: 'SUP-1', name: 'b' });
    expect(await due()).toEqual(['supplier SUP-1']);
  });

  test('of an event are marked when a page shows it changed, in the same transaction', async () => {
    await db.database.query(
      `insert into bridge.flow_documents (flow, kind, key, sourcing_event) values ('erp', 'award', 'key', $1)`,
      [idOf(90)],
    );
    const failing = db.database.transaction(async (tx) => {
      const objects = [{ id: idOf(90) }];
      await storeResources(tx, { source: 'main', kind: 'sourcing-event', objects, observed: at(1), now });
      throw new Error('died here');
    });
    await expect(failing).rejects.toThrow('died here');
    expect(await due()).toEqual([]);
    await store('sourcing-event', at(1), { id: idOf(90) });
    expect(await due()).toEqual(['award key']);
  });
});
