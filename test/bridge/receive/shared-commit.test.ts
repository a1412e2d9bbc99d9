import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { createSharedCommit } from '#bridge/receive/shared-commit.ts';

const turn = () => new Promise<void>((resolve) => setImmediate(resolve));

test('each item gets its own result, a failed write rejects its own items only, and nothing is lost or written twice', async () => {
  await fc.assert(
    fc.asyncProperty(
      // Items in bursts; what a write does, and how many turns of the event loop it takes.
      fc.array(fc.array(fc.nat(), { maxLength: 8 }), { maxLength: 8 }),
      fc.infiniteStream(fc.record({ fails: fc.boolean(), throws: fc.boolean(), turns: fc.nat({ max: 3 }) })),
      fc.integer({ min: 1, max: 5 }),
      async (bursts, writes, batchMax) => {
        const written: number[] = [];
        const batches: { fails: boolean; ids: number[] }[] = [];
        let under = 0;
        const shared = createSharedCommit<{ id: number; value: number }, string>({
          write: (items) => {
            under += 1;
            expect(under, 'never two writes at once').toBe(1);
            const plan = writes.next().value as { fails: boolean; throws: boolean; turns: number };
            batches.push({ fails: plan.fails, ids: items.map(({ id }) => id) });
            const fail = () => {
              under -= 1;
              throw new Error('refused');
            };
            if (plan.fails && plan.throws) fail();
            return (async () => {
              for (let count = 0; count < plan.turns; count += 1) await turn();
              if (plan.fails) fail();
              written.push(...items.map(({ id }) => id));
              under -= 1;
              return items.map(({ id, value }) => `${id}:${value}`);
            })();
          },
          batchMax,
          backlogMax: 1_000,
        });
        const added: { id: number; value: number; result: Promise<PromiseSettledResult<string>[]> }[] = [];
        for (const burst of bursts) {
          for (const value of burst) {
            const id = added.length;
            added.push({ id, value, result: Promise.allSettled([shared.add({ id, value })]) });
          }
          await turn();
        }
        await shared.idle();
        for (const { id, value, result } of added) {
          const [settled] = await result;
          const batch = batches.filter(({ ids }) => ids.includes(id));
          expect(batch).toHaveLength(1);
          const own = { status: 'fulfilled', value: `${id}:${value}` };
          expect(settled).toEqual(batch[0]?.fails ? { status: 'rejected', reason: new Error('refused') } : own);
        }
        expect(written).toEqual(batches.filter(({ fails }) => !fails).flatMap(({ ids }) => ids));
        expect(Math.max(0, ...batches.map(({ ids }) => ids.length))).toBeLessThanOrEqual(batchMax);
      },
    ),
    { numRuns: 200 },
  );
});

test('what arrives while a write is under way goes together in the next one', async () => {
  const batches: number[] = [];
  const first = Promise.withResolvers<void>();
  const shared = createSharedCommit<number, number>({
    write: async (items) => {
      batches.push(items.length);
      if (batches.length === 1) await first.promise;
      return items;
    },
    batchMax: 100,
    backlogMax: 100,
  });
  const alone = shared.add(1);
  await turn();
  const together = Array.from({ length: 50 }, (_, index) => shared.add(index));
  first.resolve();
  await Promise.all([alone, ...together]);
  expect(batches).toEqual([1, 50]);
});

test('beyond the backlog items are refused as unavailable, and those before them are kept', async () => {
  const open = Promise.withResolvers<void>();
  const shared = createSharedCommit<number, number>({
    write: async (items) => {
      await open.promise;
      return items;
    },
    batchMax: 1,
    backlogMax: 2,
  });
  const writing = shared.add(0);
  await turn();
  const waiting = [shared.add(1), shared.add(2)];
  await expect(shared.add(3)).rejects.toMatchObject({ code: 'unavailable', recovery: { do: 'retry' } });
  open.resolve();
  expect(await Promise.all([writing, ...waiting])).toEqual([0, 1, 2]);
});

test('a write that gives too few results rejects its items rather than mixing them up', async () => {
  const shared = createSharedCommit<number, number>({ write: async () => [], batchMax: 2, backlogMax: 2 });
  await expect(shared.add(1)).rejects.toThrow('0 results');
});
