import { beforeAll, beforeEach, describe, expect, test } from 'vitest';
import {
  createActionUpkeep,
  machineOrigin,
  performAction,
  readActions,
  recordAction,
  verifyChain,
} from '#platform/audit-log.ts';
import { type TestClock, testClock } from '../bridge/parts.ts';
import { createTestDatabase, type TestDatabase } from '../harness/test-database.ts';

let db: TestDatabase;
let clock: TestClock;
beforeAll(async () => {
  db = await createTestDatabase();
});
beforeEach(() => {
  clock = testClock();
});

const anna = { who: { kind: 'user', name: 'anna' }, from: '192.0.2.7' } as const;
const pause = { what: 'flow.pause', object: 'flow erp', details: { reason: 'month end' } };
const perform = (work: () => Promise<unknown>, subject: typeof pause = pause) =>
  performAction({ database: db.database, program: 'bridge', clock }, anna, subject, work);
const read = (filter: Partial<Parameters<typeof readActions>[2]> = {}) =>
  readActions(db.database, 'bridge', { limit: 100, ...filter });

describe('an action', () => {
  test('is in the log before it begins, with who, what, on which object, from where and when', async () => {
    const seen = await perform(() => read({ object: 'flow erp' }));
    expect(seen).toEqual([
      {
        id: expect.any(String),
        when: '2030-01-01T00:00:00.000000Z',
        who: { kind: 'user', name: 'anna' },
        what: 'flow.pause',
        object: 'flow erp',
        from: '192.0.2.7',
        outcome: 'allowed',
        details: { reason: 'month end' },
      },
    ]);
  });

  test('that did not succeed has a second entry, and its own error is thrown', async () => {
    const failing = perform(() => Promise.reject(new Error('there is no such flow')), {
      ...pause,
      object: 'flow none',
    });
    await expect(failing).rejects.toThrow('there is no such flow');
    expect((await read({ object: 'flow none' })).map(({ outcome, details }) => [outcome, details])).toEqual([
      ['failed', { reason: 'month end', error: 'there is no such flow' }],
      ['allowed', { reason: 'month end' }],
    ]);
  });

  test('that cannot be logged is not done', async () => {
    let isDone = false;
    const broken = {
      query: () => Promise.reject(new Error('no database')),
    };
    const performing = performAction({ database: broken, program: 'bridge', clock }, anna, pause, async () => {
      isDone = true;
    });
    await expect(performing).rejects.toThrow('no database');
    expect(isDone).toBe(false);
  });

  test('of text that the database cannot hold is logged nevertheless', async () => {
    const name = `${'x'.repeat(150)}\0\ud800${'y'.repeat(150)}`;
    await recordAction(db.database, 'bridge', {
      who: { kind: 'user', name },
      what: 'console.login',
      object: null,
      from: null,
      when: '2030-01-02T00:00:00.000000Z',
      outcome: 'refused',
      details: { long: 'z'.repeat(10_000) },
    });
    const [logged] = await read({ what: 'console' });
    expect(logged?.who.name).toBe(`${'x'.repeat(150)}\ufffd${'y'.repeat(49)}`);
    expect(JSON.stringify(logged?.details).length).toBeLessThan(8_500);
  });

  test('of the command line is that of the user of the machine', () => {
    expect(machineOrigin()).toEqual({
      who: { kind: 'cli', name: expect.stringMatching(/./) },
      from: expect.stringMatching(/./),
    });
  });
});

describe('the log', () => {
  test.each(["update bridge.actions set name = 'bert'", 'delete from bridge.actions', 'truncate bridge.actions'])(
    'is only appended to: the database refuses "%s"',
    async (statement) => {
      await perform(async () => undefined);
      await expect(db.database.query(statement)).rejects.toThrow(/only appended to/);
    },
  );

  test('is read by name, kind of action, object, outcome and time, page by page', async () => {
    clock.advance(24 * 3_600_000);
    for (const object of ['flow a', 'flow b', 'flow c']) {
      await perform(async () => undefined, { ...pause, object });
      clock.advance(60_000);
    }
    const from = '2030-01-02T00:00:00.000000Z';
    const objects = async (filter: Parameters<typeof read>[0]) =>
      (await read({ from, ...filter })).map(({ object }) => object);
    expect(await objects({ what: 'flow' })).toEqual(['flow c', 'flow b', 'flow a']);
    expect(await objects({ what: 'flo' })).toEqual([]);
    expect(await objects({ what: 'flow.pause', object: 'flow b' })).toEqual(['flow b']);
    expect(await objects({ what: 'flow', to: '2030-01-02T00:01:00.000000Z' })).toEqual(['flow a']);
    expect(await objects({ what: 'flow', outcome: 'refused' })).toEqual([]);
    expect(await objects({ name: 'bert' })).toEqual([]);
    const [last] = await read({ from, what: 'flow', limit: 1 });
    expect(await objects({ what: 'flow', before: last?.id })).toEqual(['flow b', 'flow a']);
  });

  test('loses what is older than it is kept, and nothing else', async () => {
    const record = (when: string) =>
      recordAction(db.database, 'bridge', { ...anna, what: 'old.action', object: when, when, outcome: 'allowed' });
    await record('2020-01-01T00:00:00.000000Z');
    await record('2020-01-03T00:00:00.000000Z');
    const nowMs = Date.UTC(2020, 1, 2);
    const prune = createActionUpkeep({
      database: db.database,
      program: 'bridge',
      clock: { ...clock, nowMs: () => nowMs },
      days: 31,
    });
    await prune();
    expect((await read({ what: 'old' })).map(({ object }) => object)).toEqual(['2020-01-03T00:00:00.000000Z']);
  });
});

describe('the chain', () => {
  let own: TestDatabase;
  beforeAll(async () => {
    own = await createTestDatabase();
    for (const [second, object] of ['one', 'two', 'three', 'four'].entries())
      await recordAction(own.database, 'bridge', {
        ...anna,
        what: 'flow.pause',
        object,
        when: `2030-01-01T00:00:0${second}.000000Z`,
        outcome: 'allowed',
      });
    await createActionUpkeep({ database: own.database, program: 'bridge', clock: testClock(), days: 730 })();
  });

  test('of a log that nobody has changed is whole, and its last hash vouches for it', async () => {
    expect(await verifyChain(own.database, 'bridge')).toEqual({
      entries: 4,
      erased: 0,
      last: { number: 4, hash: expect.stringMatching(/^[0-9a-f]{64}$/) },
      broken: null,
    });
  });

  test.each([
    ["update bridge.actions set name = 'bert' where object = 'two'", 2, /name, object/],
    ["update bridge.actions set at = at - interval '1 day' where object = 'three'", 3, /was changed/],
    ["update bridge.actions set outcome = 'refused' where object = 'one'", 1, /was changed/],
    ["delete from bridge.actions where object = 'two'", 3, /missing/],
    [
      `update bridge.actions set name = 'bert',
         content = sha256(convert_to(jsonb_build_array('bert', object, origin, details)::text, 'UTF8')) where object = 'two'`,
      2,
      /was changed/,
    ],
  ])('breaks where the owner of the tables has changed it: %s', async (statement, number, why) => {
    const broken = await own.database.session(async (session) => {
      await session.query('begin');
      await session.query('alter table bridge.actions disable trigger all');
      await session.query(statement);
      const found = await verifyChain(session, 'bridge');
      await session.query('rollback');
      return found.broken;
    });
    expect(broken).toMatchObject({ number, why: expect.stringMatching(why) });
  });

  test('is whole after an erasure, which is an entry itself', async () => {
    const mark = 'erased-00112233aabb@erased.invalid';
    await recordAction(own.database, 'bridge', {
      ...anna,
      who: { kind: 'user', name: 'carl@example.com' },
      what: 'flow.pause',
      object: 'five',
      when: '2030-01-01T00:00:05.000000Z',
      outcome: 'allowed',
    });
    const upkeep = createActionUpkeep({ database: own.database, program: 'bridge', clock: testClock(), days: 730 });
    await upkeep();
    await own.database.query('select bridge.erase_in_actions($1, $2)', ['carl@example.com', mark]);
    await upkeep();
    expect(await verifyChain(own.database, 'bridge')).toMatchObject({ entries: 6, erased: 1, broken: null });
    const [erased] = await readActions(own.database, 'bridge', { what: 'audit-log.erase', limit: 1 });
    expect(erased).toMatchObject({ object: mark, details: { entries: 1 } });
  });
});
