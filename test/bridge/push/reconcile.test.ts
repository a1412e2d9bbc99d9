import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Operation, Outcome } from '#connector/connector.ts';
import type { Database } from '#platform/database/database.ts';
import { errorText } from '#platform/errors.ts';
import { eventRecord, startProcess } from '../parts.ts';
import { createFakeErp } from './fake-erp.ts';
import { createPusher, event, keyOf, supplier } from './pusher.ts';

const suppliers = [0, 1, 2].map(supplier);

/** What happens to one operation: whether it takes effect, and what is said of it. */
const fate = fc.constantFrom('done', 'done', 'done', 'retry', 'rejected', 'unknown, done', 'unknown, not done');
/** What happens to the whole call. */
const end = fc.constantFrom('answers', 'answers', 'throws', 'loses an outcome', 'killed');

const step = fc.oneof(
  {
    weight: 2,
    arbitrary: fc.record({
      award: fc.array(fc.option(fc.integer({ min: 1, max: 9 })), {
        minLength: suppliers.length,
        maxLength: suppliers.length,
      }),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      fates: fc.array(fate, { minLength: suppliers.length, maxLength: suppliers.length }),
      end,
      waitMs: fc.constantFrom(0, 2_000, 100_000),
    }),
  },
);

/** A process whose database is gone from some instant on can write nothing down: to the ERP it is dead. */
function mortal(database: Database, isDead: () => boolean): Database {
  const alive = () => {
    if (isDead()) throw new Error('killed');
  };
  return {
    ...database,
    query: async (statement, params) => {
      alive();
      return database.query(statement, params);
    },
    transaction: (work) => {
      alive();
      return database.transaction(work);
    },
  };
}

test('whatever changes, fails or dies on the way: in the end the ERP holds exactly what is wanted, each created once', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 14 }), async (steps) => {
      const pusher = await createPusher(suppliers.length);
      const process = await startProcess(pusher.db);
      const erp = createFakeErp({ batchMax: 2 });
      let dead = false;
      const worker = await pusher.worker(erp, { process, database: mortal(process.database, () => dead) });
      const run = async () => {
        const ended = await worker.push().catch(errorText);
        expect([undefined, 'killed']).toContain(ended);
        dead = false;
      };
      let wanted: (number | null)[] = [];
      const award = async (costs: (number | null)[]) => {
        wanted = costs;
        await pusher.award(
          ...costs.flatMap((cost, n) => (cost === null ? [] : [[n, String(cost)] as [number, string]])),
        );
      };
      for (const each of steps) {
        if ('award' in each) {
          await award(each.award);
          continue;
        }
        let place = 0;
        const oneOf = (operation: Operation, apply: (one: Operation) => Outcome): Outcome => {
          const now = each.fates[place++ % suppliers.length];
          if (now === 'retry') return { status: 'retry', error: { type: 'transient', message: 'later' } };
          if (now === 'rejected') return { status: 'rejected', error: { type: 'data', message: 'no' } };
          if (now === 'unknown, not done') return { status: 'unknown', message: 'no answer' };
          const outcome = apply(operation);
          return now === 'done' ? outcome : { status: 'unknown', message: 'no answer' };
        };
        erp.onWrite = async (operations, apply) => {
          const outcomes = operations.map((one) => oneOf(one, apply));
          if (each.end === 'throws') throw new Error('connection lost');
          if (each.end === 'killed') dead = true;
          return each.end === 'loses an outcome' ? outcomes.slice(1) : outcomes;
        };
        pusher.clock.advance(each.waitMs);
        await run();
      }
      // Calm: the ERP does what it is asked, and what it refused is tried again, as its event has changed.
      erp.onWrite = async (operations, apply) => operations.map(apply);
      await pusher.store('sourcing-events', eventRecord(event, suppliers, { name: 'Office chairs, again' }));
      for (let count = 0; count < 3; count += 1) {
        pusher.clock.advance(3_600_000);
        await run();
      }
      const expected = wanted.flatMap((cost, n) => (cost === null ? [] : [`${keyOf(n)} ${cost}`]));
      expect(
        erp
          .living()
          .map(({ key, total }) => `${key} ${total}`)
          .toSorted(),
      ).toEqual(expected);
      expect(erp.faults).toEqual([]);
      const open = await pusher.db.database.query(
        'select from bridge.flow_documents where due is not null or intent_id is not null',
      );
      expect(open).toEqual([]);
      await process.presence.close();
      await process.database.close();
      await pusher.db.drop();
    }),
    { numRuns: 20 },
  );
});
