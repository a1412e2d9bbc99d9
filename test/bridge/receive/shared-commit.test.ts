import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { createSharedCommit } from '#bridge/receive/shared-commit.ts';

const turn = () => new Promise<void>((resolve) => setImmediate(resolve));

test('each item is settled as its write was, a failed write rejects only its items, nothing is lost or doubled', async () => {
  await fc.assert(
    fc.asyncProperty(
      // Items in bursts; whether each write fails, and how many turns of the event loop it takes.
      fc.array(fc.nat({ max: 8 }), { maxLength: 8 }),
      fc.infiniteStream(fc.record({ fails: fc.boolean(), throws: fc.boolean(), turns: fc.nat({ max: 3 }) })),
      fc.integer({ min: 1, max: 5 }),
      async (bursts, writes, batchMax) => {
        const written: number[] = [];
        const batches: { fails: boolean; ids: number[] }[] = [];
        let under = 0;
        const shared = createSharedCommit<{ id: number }>({
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
            })();
          },
          batchMax,
          backlogMax: 1_000,
        });
        const added: { id: number; result: Promise<PromiseSettledResult<void>[]> }[] = [];
        for (const burst of bursts) {
          for (let count = 0; count < burst; count += 1) {
            const id = added.length;
            added.push({ id, result: Promise.allSettled([shared.add({ id })]) });
          }
          await turn();
        }
        await shared.idle();
        for (const { id, result } of added) {
          const [settled] = await result;
          const batch = batches.filter(({ ids }) => ids.includes(id));
          expect(batch).toHaveLength(1);
          const rejected = { status: 'rejected', reason: new Error('refused') };
          expect(settled).toEqual(batch[0]?.fails ? rejected : { status: 'fulfilled', value: undefined });
        }
        expect(written).toEqual(batches.filter(({ fails }) => !fails).flatMap(({ ids }) => ids));
        expect(Math.max(0, ...batches.map(({ ids }) => ids.length))).toBeLessThanOrEqual(batchMax);
      },
    ),
    { numRuns: 200 },
  );
});

test('items that arrive during a write share the next one', async () => {
  const batches: number[] = [];
  const first = Promise.withResolvers<void>();
  const shared = createSharedCommit<number>({
    write: async (items) => {
      batches.push(items.length);
      if (batches.length === 1) await first.promise;
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

test('items of one turn of the event loop share a write', async () => {
  const batches: number[] = [];
  const shared = createSharedCommit<number>({
    write: async (items) => {
      batches.push(items.length);
    },
    batchMax: 100,
    backlogMax: 100,
  });
  // The event loop handles one socket after the other, and runs the microtasks of each in between.
  const added: Promise<void>[] = [];
  for (let count = 0; count < 5; count += 1) {
    added.push(shared.add(count));
    await Promise.resolve();
  }
  await Promise.all(added);
  expect(batches).toEqual([5]);
});

test('items beyond the backlog are rejected as unavailable, and earlier items are stored', async () => {
  const open = Promise.withResolvers<void>();
  const stored: number[] = [];
  const shared = createSharedCommit<number>({
    write: async (items) => {
      await open.promise;
      stored.push(...items);
    },
    batchMax: 1,
    backlogMax: 2,
  });
  const writing = shared.add(0);
  await turn();
  const waiting = [shared.add(1), shared.add(2)];
  await expect(shared.add(3)).rejects.toMatchObject({ code: 'unavailable', recovery: { do: 'retry' } });
  open.resolve();
  await Promise.all([writing, ...waiting]);
  expect(stored).toEqual([0, 1, 2]);
});
