/** Each command takes as many SQL statements for a thousand lots as for one. */
import { describe, expect, test } from 'vitest';
import type { Database } from '#platform/database/database.ts';
import type { Sql } from '#platform/database/sql.ts';
import { createEvent, createSuppliers, desk, eventPayload, readWholeFeed } from '../../harness/sourcing.ts';
import { createTestDatabase } from '../../harness/test-database.ts';
import { startTestService } from '../../harness/test-service.ts';

/** The most statements of one transaction: that is the command's own, not one of the work that it woke. */
let statements = 0;
const db = await createTestDatabase();
const database: Database = {
  ...db.database,
  transaction: (work) => {
    let count = 0;
    const counted = (sql: Sql): Sql => ({
      query: (statement, params) => {
        count += 1;
        statements = Math.max(statements, count);
        return sql.query(statement, params);
      },
    });
    return db.database.transaction((tx) => work(counted(tx)));
  },
};
const service = await startTestService({ db: { ...db, database } });
const organisation = await service.organisation();
await createSuppliers(organisation, ['S1']);

const names = Array.from({ length: 1_000 }, (_, index) => `Lot ${index}`);

async function open(changes: object = {}): Promise<string> {
  const event = await createEvent(organisation, { ...eventPayload({ lots: names, suppliers: ['S1'] }), ...changes });
  await desk(organisation, 'POST', `${event}/publish`);
  return event;
}

/** The statements of a command for the first lot, and for all of them. */
async function cost(
  event: string,
  method: string,
  path: string,
  body: (lots: string[]) => object,
): Promise<{ one: number; all: number }> {
  const run = async (lots: string[]) => {
    statements = 0;
    await desk(organisation, method, `${event}${path}`, body(lots));
    return statements;
  };
  return { one: await run(names.slice(0, 1)), all: await run(names.slice(1)) };
}

const prices = (price: string) => (lots: string[]) => ({
  supplier: 'S1',
  lots: lots.map((lot) => ({ lot, values: { Price: price } })),
});

test('of a large submission every bid is stored once, whether it is the first for its lot or not', async () => {
  const event = await open();
  const everyThird = names.filter((_name, index) => index % 3 === 0);
  await desk(organisation, 'POST', `${event}/bids`, prices('1')(everyThird));
  const before = await readWholeFeed(organisation, 'latest-bids', `page_size=1000&sourcing_event=${event}`);
  expect(before.map(({ lot_name }) => lot_name)).toEqual(everyThird);
  const answer = await desk(organisation, 'POST', `${event}/bids`, prices('2')(names));
  expect(answer).toEqual({ supplier: 'S1', complete: 1_000, incomplete: [] });
  const after = await readWholeFeed(organisation, 'latest-bids', `page_size=1000&sourcing_event=${event}`);
  expect(new Map(after.map(({ lot_name, bids }) => [lot_name, bids[0]?.value]))).toEqual(
    new Map(names.map((name) => [name, '20'])),
  );
  const ids = new Map(after.map(({ lot_name, id }) => [lot_name, id]));
  expect(before.map(({ lot_name }) => ids.get(lot_name))).toEqual(before.map(({ id }) => id));
  expect(new Set(ids.values()).size).toBe(1_000);
});

describe('the number of statements does not grow with the lots', () => {
  test("for a bid, an edit, a withdrawal, the buyer's values and a scenario", async () => {
    const event = await open();
    const costs = [await cost(event, 'POST', '/bids', prices('1'))];
    await desk(organisation, 'POST', `${event}/rounds/1/close`);
    costs.push(await cost(event, 'PATCH', '/bids', prices('2')));
    costs.push(
      await cost(event, 'PUT', '/buyer-values', (lots) => ({
        lots: lots.map((lot) => ({ lot, values: { Volume: '7' } })),
      })),
    );
    costs.push(
      await cost(event, 'PUT', '/scenarios/s', (lots) => ({
        awards: lots.map((lot) => ({ lot, supplier: 'S1', share_awarded: '1' })),
      })),
    );
    await desk(organisation, 'POST', `${event}/rounds/1/reopen`);
    // The first bid after the buyer's values compares every bid with the feed: a few more statements, once.
    await desk(organisation, 'POST', `${event}/bids`, prices('3')(names));
    costs.push(await cost(event, 'POST', '/bids/withdraw', (lots) => ({ supplier: 'S1', lots })));
    for (const { one, all } of costs) {
      expect(all).toBe(one);
      expect(one).toBeLessThan(25);
    }
    const records = await readWholeFeed(organisation, 'latest-bids', `page_size=1000&sourcing_event=${event}`);
    expect(records).toHaveLength(1_000);
    expect(records.every(({ bids }) => bids.length === 0)).toBe(true);
  });

  test('for a Dutch bid, and for closing with an award for every lot', async () => {
    const event = await open({ event_type: 'DUTCH' });
    const { one, all } = await cost(event, 'POST', '/bids', (lots) => ({
      supplier: 'S1',
      lots: lots.map((lot) => ({ lot, offers: [{ value: '1', volume: '2' }] })),
    }));
    expect(all).toBe(one);
    await desk(organisation, 'PUT', `${event}/scenarios/s`, {
      awards: names.map((lot) => ({ lot, supplier: 'S1', share_awarded: '0.5' })),
    });
    await desk(organisation, 'POST', `${event}/award`, { scenario: 's' });
    statements = 0;
    await desk(organisation, 'POST', `${event}/close`);
    expect(statements).toBeLessThan(40);
    const records = await readWholeFeed(organisation, 'awards', `page_size=1000&sourcing_event=${event}`);
    expect(records.filter(({ awards }) => awards[0]?.cost === '1')).toHaveLength(1_000);
  });
});
