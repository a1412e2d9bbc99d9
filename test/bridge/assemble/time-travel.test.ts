/** Documents of another time: every state that was ever stored can be asked for again, and compared with what was sent. */
import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { requireKept, type Travel, type TravelOptions, travelInTime } from '#bridge/assemble/time-travel.ts';
import { tryMapping } from '#bridge/assemble/try-mapping.ts';
import { createSecretRedactor } from '#bridge/flows/secret-redactor.ts';
import { planTravelled } from '#bridge/push/plan/plan-travelled.ts';
import { timestampNow } from '#platform/clock.ts';
import { createFakeErp, type FakeErp } from '../push/fake-erp.ts';
import { createPusher, event, keyOf, type Pusher } from '../push/pusher.ts';
import { plant } from '../shadow/shadow-world.ts';

const travel = (pusher: Pusher, when: Travel, options: Partial<TravelOptions> & { mapping?: object } = {}) => {
  const { mapping = {}, ...rest } = options;
  const flow = { ...pusher.flow, mapping };
  return travelInTime(pusher.db.database, flow, { travel: when, limit: 50, sentBy: 'erp', ...rest });
};
const push = async (pusher: Pusher, erp: FakeErp) => (await pusher.worker(erp)).push();

test('whatever was stored and when, a moment shows what the mapping made then', async () => {
  const costs = fc.array(fc.tuple(fc.nat({ max: 2 }), fc.integer({ min: 1, max: 3 })), { maxLength: 2 });
  await fc.assert(
    fc.asyncProperty(fc.array(costs, { minLength: 1, maxLength: 5 }), async (states) => {
      const pusher = await createPusher(3);
      const seen: { at: string; documents: Awaited<ReturnType<typeof tryMapping>> }[] = [];
      for (const winners of states) {
        pusher.clock.advance(1_000);
        const distinct = new Map(winners);
        await pusher.award(...[...distinct].map(([n, cost]): [number, string] => [n, String(cost)]));
        const at = timestampNow(pusher.clock);
        seen.push({ at, documents: await tryMapping(pusher.db.database, pusher.flow, { events: [event], limit: 50 }) });
      }
      for (const { at, documents } of seen) {
        const then = await travel(pusher, { asOf: at }, { events: [event] });
        expect(then.map(({ kind, key, result, document }) => ({ kind, key, result, document }))).toEqual(
          documents.map(({ kind, key, result, document }) => ({ kind, key, result, document })),
        );
      }
    }),
    { numRuns: 8 },
  );
});

test('compares with what was sent by then, with another mapping, and with another flow', async () => {
  const pusher = await createPusher(3);
  const erp = createFakeErp();
  const before = timestampNow(pusher.clock);
  pusher.clock.advance(60_000);
  await pusher.award([0, '10']);
  await push(pusher, erp);
  const first = timestampNow(pusher.clock);
  pusher.clock.advance(60_000);
  await pusher.award([0, '12'], [1, '7']);
  await push(pusher, erp);
  const second = timestampNow(pusher.clock);

  const shown = async (...given: Parameters<typeof travel>) =>
    (await travel(...given)).map(({ at, key, action, differences }) => [at, key, action, ...differences]);
  expect(await shown(pusher, { asOf: before })).toEqual([]);
  expect(await shown(pusher, { asOf: first })).toEqual([[first, keyOf(0), 'none']]);
  expect(await shown(pusher, { asOf: second })).toEqual([
    [second, keyOf(0), 'none'],
    [second, keyOf(1), 'none'],
  ]);
  const mapping = plant('2000').mapping;
  expect(await shown(pusher, { asOf: first }, { mapping })).toEqual([
    [first, keyOf(0), 'amend', '+ fields.plant: "2000"'],
  ]);
  const against = { ...pusher.flow, ...plant('1000') };
  const range = { from: before, to: second };
  expect(await shown(pusher, range, { mapping, against })).toEqual([
    [first, keyOf(0), 'amend', '~ fields.plant: "1000" -> "2000"'],
    [second, keyOf(0), 'amend', '~ fields.plant: "1000" -> "2000"'],
    [second, keyOf(1), 'amend', '~ fields.plant: "1000" -> "2000"'],
  ]);
  // Between the two versions, with microseconds.
  const between = `${first.slice(0, 20)}000001Z`;
  expect(await shown(pusher, { from: between, to: second })).toEqual([
    [second, keyOf(0), 'none'],
    [second, keyOf(1), 'none'],
  ]);
});

test('a withdrawal is seen at its time', async () => {
  const pusher = await createPusher(3);
  const erp = createFakeErp();
  const start = timestampNow(pusher.clock);
  pusher.clock.advance(1_000);
  await pusher.award([0, '10']);
  await push(pusher, erp);
  const held = timestampNow(pusher.clock);
  pusher.clock.advance(1_000);
  await pusher.award();
  const end = timestampNow(pusher.clock);
  expect(await travel(pusher, { asOf: held })).toMatchObject([{ key: keyOf(0), result: 'document', action: 'none' }]);
  const range = await travel(pusher, { from: start, to: end });
  expect(range.map(({ at, result }) => [at, result])).toEqual([
    [held, 'document'],
    [end, 'withdrawn'],
  ]);
  expect(await travel(pusher, { asOf: end })).toMatchObject([{ key: keyOf(0), result: 'withdrawn', action: 'cancel' }]);
  await push(pusher, erp);
  pusher.clock.advance(1_000);
  expect(await travel(pusher, { asOf: timestampNow(pusher.clock) })).toEqual([]);
});

test('a connector says what it would do with the documents of then, and writes nothing', async () => {
  const pusher = await createPusher(3);
  const erp = createFakeErp({ batchMax: 2 });
  await pusher.award([0, '10'], [1, '7'], [2, '8']);
  const asOf = timestampNow(pusher.clock);
  const documents = await travel(pusher, { asOf });
  const session = {
    ...erp.session,
    plan: async (operations: Parameters<NonNullable<typeof erp.session.plan>>[0]) =>
      operations.map(({ action, document: { key } }) => ({ key, action, steps: [`${action} ${key}`] })),
  };
  const openFlow = { flow: pusher.flow, connector: erp.connector, session, secrets: createSecretRedactor({}) };
  const steps = await planTravelled({ openFlow, clock: pusher.clock }, documents, new AbortController().signal);
  expect(steps).toEqual([0, 1, 2].map((n) => [`create ${keyOf(n)}`]));
  expect(erp.operations).toEqual([]);
});

test('times that are not kept, in the future or in the wrong order are refused, with the earliest that is kept', () => {
  const now = '2030-04-01T00:00:00.000000Z';
  const check = (when: Travel) => () => requireKept(when, { history_days: 90 }, now);
  expect(check({ asOf: '2030-01-01T00:00:00.000000Z' })).not.toThrow();
  expect(check({ asOf: '2029-12-31T23:59:59.999999Z' })).toThrow(
    '2029-12-31T23:59:59.999999Z is too long ago: replaced versions are kept for 90 days (bridge.history_days), so from 2030-01-01T00:00:00.000000Z on.',
  );
  expect(check({ asOf: '2030-04-01T00:00:00.000001Z' })).toThrow('is in the future');
  expect(check({ from: now, to: '2030-03-01T00:00:00.000000Z' })).toThrow('ends (2030-03-01');
});
