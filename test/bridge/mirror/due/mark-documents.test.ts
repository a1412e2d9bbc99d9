import * as fc from 'fast-check';
import { beforeAll, expect, test } from 'vitest';
import type { FlowSettings } from '#bridge/settings/settings.ts';
import { createTestDatabase, type TestDatabase } from '../../../harness/test-database.ts';
import { type Change, changes, createWorld, nothing, type World } from '../../push/document-world.ts';

let db: TestDatabase;
beforeAll(async () => {
  db = await createTestDatabase();
});

async function stateOf(world: World) {
  return { documents: await world.documents(), marks: await world.marks() };
}

/** Without the documents that are not wanted: those that were never delivered are either that or on hold. */
function wantedOf(documents: ReadonlyMap<string, string>) {
  return new Map([...documents].filter(([, document]) => document !== nothing));
}

const flows = fc.constantFrom<Partial<FlowSettings>>(
  {},
  { test_events: false },
  { only: { tags: { Plant: ['1000', '2000'] } } },
  { only: { tags: {}, status: ['OPEN', 'CLOSED'] } },
  { quantity_column: 'Volume', unit_price_column: 'Price' },
);

test('whatever changes, no document changes without being marked', async () => {
  await fc.assert(
    fc.asyncProperty(flows, changes(12), async (flow, list) => {
      const world = await createWorld(db, flow);
      let before = await stateOf(world);
      for (const change of list) {
        await world.store(change);
        const after = await stateOf(world);
        for (const [place, document] of after.documents) {
          const isNew = document === nothing && !before.marks.has(place);
          if (isNew || document === before.documents.get(place)) continue;
          const marked = (after.marks.get(place) ?? 0) > (before.marks.get(place) ?? 0);
          expect(marked, `${place} after ${JSON.stringify(change)}`).toBe(true);
        }
        before = after;
      }
    }),
    { numRuns: 25 },
  );
});

/** The supplier list is read by one process at a time, and so stored in the order in which it was read. */
function withListInOrder(shuffled: readonly Change[]): Change[] {
  const isOfList = (change: Change) => 'resource' in change && change.resource === 'supplier-master';
  const list = shuffled.filter(isOfList).toSorted((a, b) => a.at - b.at);
  return shuffled.map((change) => (isOfList(change) ? list.shift() : undefined) ?? change);
}

test('the same versions make the same documents, whatever the order in which they are stored', async () => {
  await fc.assert(
    fc.asyncProperty(
      changes(14).chain((list) =>
        fc.tuple(fc.constant(list), fc.shuffledSubarray(list, { minLength: list.length, maxLength: list.length })),
      ),
      async ([list, shuffled]: [Change[], Change[]]) => {
        const [inOrder, reordered] = [await createWorld(db), await createWorld(db)];
        await inOrder.store(...list);
        await reordered.store(...withListInOrder(shuffled));
        expect(wantedOf(await reordered.documents())).toEqual(wantedOf(await inOrder.documents()));
      },
    ),
    { numRuns: 20 },
  );
});

test('for a flow that is registered later, every document is marked', async () => {
  await fc.assert(
    fc.asyncProperty(changes(14), async (list) => {
      const late = await createWorld(db);
      const inTime = await createWorld(db);
      await late.forget();
      await late.store(...list);
      await inTime.store(...list);
      await late.register();
      const documents = wantedOf(await inTime.documents());
      expect(wantedOf(await late.documents())).toEqual(documents);
      const marks = await late.marks();
      expect([...documents.keys()].filter((place) => !marks.has(place))).toEqual([]);
    }),
    { numRuns: 15 },
  );
});
