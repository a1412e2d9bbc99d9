import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { createFairSlots, type FairSlots } from '#platform/fair-slots.ts';

/** Asks in this order, and keeps who has begun: `A1` is the first caller of A. */
function startCallers(slots: FairSlots) {
  const begun: string[] = [];
  const free = new Map<string, () => void>();
  return {
    begun,
    ask: async (name: string, options: Parameters<FairSlots['enter']>[1] = {}) => {
      free.set(name, await slots.enter(name.slice(0, 1), options));
      begun.push(name);
    },
    end: async (name: string) => {
      free.get(name)?.();
      await Promise.resolve();
      await Promise.resolve();
    },
  };
}

const settled = () => new Promise<void>((resolve) => setImmediate(resolve));

describe('fair slots', () => {
  test('a group never has more than its own number of slots', async () => {
    const { begun, ask, end } = startCallers(createFairSlots({ slots: 10, slotsEach: 2 }));
    for (const name of ['A1', 'A2', 'A3', 'A4']) void ask(name);
    await settled();
    expect(begun).toEqual(['A1', 'A2']);
    await end('A1');
    await settled();
    expect(begun).toEqual(['A1', 'A2', 'A3']);
  });

  test('a free slot goes to the group that got its last one longest ago, however many others wait', async () => {
    const { begun, ask, end } = startCallers(createFairSlots({ slots: 3, slotsEach: 2 }));
    for (const name of ['A1', 'A2', 'A3', 'A4', 'A5', 'B1', 'C1', 'C2']) void ask(name);
    await settled();
    expect(begun).toEqual(['A1', 'A2', 'B1']);
    for (const name of ['A1', 'A2', 'B1']) {
      await end(name);
      await settled();
    }
    expect(begun.slice(3)).toEqual(['C1', 'A3', 'C2']);
  });

  test('doubtful callers use half of the slots, and of those of their group; others pass them', async () => {
    const { begun, ask } = startCallers(createFairSlots({ slots: 4, slotsEach: 4 }));
    for (const name of ['A1', 'A2', 'A3']) void ask(name, { doubtful: true });
    for (const name of ['B1', 'B2']) void ask(name, { doubtful: true });
    void ask('A4');
    await settled();
    expect(begun).toEqual(['A1', 'A2', 'A4']);
  });

  test('a caller that is aborted while it waits leaves the line, and takes no slot', async () => {
    const slots = createFairSlots({ slots: 1, slotsEach: 1 });
    const free = await slots.enter('A');
    const aborting = new AbortController();
    const waiting = slots.enter('A', { signal: aborting.signal });
    aborting.abort(new Error('stopped'));
    await expect(waiting).rejects.toThrow('stopped');
    await expect(slots.enter('A', { signal: aborting.signal })).rejects.toThrow('stopped');
    free();
    (await slots.enter('B'))();
  });

  test('one more caller than may wait is refused, with a time to come back', async () => {
    const slots = createFairSlots({ slots: 1, slotsEach: 1, waitingEach: 1 });
    await slots.enter('A');
    void slots.enter('A');
    await expect(slots.enter('A')).rejects.toMatchObject({ code: 'too-many', recovery: { do: 'retry' } });
    // Of another group, one may wait, too.
    void slots.enter('B');
    await expect(slots.enter('B')).rejects.toMatchObject({ code: 'too-many' });
  });

  test('whatever comes and goes, no bound is broken, and no slot is lost', async () => {
    const asked = fc.record({ group: fc.constantFrom('A', 'B', 'C'), doubtful: fc.boolean(), ends: fc.nat(8) });
    await fc.assert(
      fc.asyncProperty(fc.array(asked, { maxLength: 40 }), async (callers) => {
        const slots = createFairSlots({ slots: 4, slotsEach: 3 });
        const running: { group: string; doubtful: boolean; free: () => void }[] = [];
        const waits = callers.map(async ({ group, doubtful }) => {
          running.push({ group, doubtful, free: await slots.enter(group, { doubtful }) });
        });
        for (const { ends } of [...callers, ...callers]) {
          await settled();
          const counts = Object.values(Object.groupBy(running, ({ group }) => group)).map((each) => each?.length ?? 0);
          expect(running.length).toBeLessThanOrEqual(4);
          expect(Math.max(0, ...counts)).toBeLessThanOrEqual(3);
          expect(running.filter(({ doubtful }) => doubtful).length).toBeLessThanOrEqual(2);
          const [ended] = running.splice(ends % Math.max(1, running.length), 1);
          ended?.free();
          ended?.free();
        }
        while (running.length > 0) {
          running.shift()?.free();
          await settled();
        }
        await Promise.all(waits);
      }),
      { numRuns: 50 },
    );
  });
});
