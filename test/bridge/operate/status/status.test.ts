import { beforeEach, describe, expect, test } from 'vitest';
import { createConnectorCalls } from '#bridge/connectors/connector-calls.ts';
import { createSecretRedactor } from '#bridge/connectors/secret-redactor.ts';
import { conditionKinds } from '#bridge/operate/status/conditions.ts';
import { isIdle, readStatus } from '#bridge/operate/status/status.ts';
import { registerStatusMetrics } from '#bridge/operate/status/status-metrics.ts';
import { bridgeSettings } from '#bridge/settings/settings.ts';
import type { Operation, Session } from '#connector/connector.ts';
import { feedNames } from '#contract/feed.ts';
import { timestampNow } from '#platform/clock.ts';
import type { Database } from '#platform/database/database.ts';
import { Registry } from '#platform/metrics.ts';
import { createTestDatabase, type TestDatabase } from '../../../harness/test-database.ts';
import { settingsOf, type TestClock, testClock } from '../../parts.ts';

/** The time of the test clock is 2030-01-01T00:00:00Z. */
let db: TestDatabase;
let clock: TestClock;
beforeEach(async () => {
  db = await createTestDatabase();
  clock = testClock();
  return () => db.drop();
});

const settings = settingsOf({ feeds: ['awards'], lateness_seconds: 20 });
const status = () => readStatus(db.database, { settings, now: timestampNow(clock) });

async function seed(): Promise<void> {
  await db.database.query(
    `insert into bridge.checkpoints
       (source, feed, watermark, next_pull, last_pull, failures, last_error, created, source_profile)
     values
       ('main', 'awards', '2029-12-31T23:00:00Z', '2030-01-01T00:01:00Z', '2029-12-31T23:59:30Z', 0, null, '2029-12-01Z',
         '{"orderProved":"2029-12-01T00:00:00.000000Z","latenessMs":45000}'),
       ('main', 'latest-bids', null, '2029-01-01Z', null, 9, 'not configured here', '2029-01-01Z', '{}'),
       ('former', 'awards', null, '2029-01-01Z', null, 9, 'not configured any more', '2029-01-01Z', '{}')`,
  );
  await db.database.query(
    `insert into bridge.backfills
       (source, feed, kind, range_start, range_end, asked, next_try, finished, late_arrivals, warning)
     values
       ('main', 'awards', 'full', 'epoch', '2029-12-02Z', '2029-12-02Z', '2029-12-02Z', '2029-12-02Z', 1, 'half is gone'),
       ('main', 'awards', 'audit', '2029-12-03Z', '2029-12-04Z', '2029-12-04Z', '2029-12-04Z', '2029-12-04Z', 2, null),
       ('main', 'awards', 'range', '2029-12-03Z', '2029-12-04Z', '2029-12-04Z', '2029-12-04Z', '2029-12-04Z', 7, null)`,
  );
  await db.database.query(
    `insert into bridge.inbox (source, trigger, feed, body, received) values
       ('main', 't', 'awards', '{}', '2029-12-31Z'), ('main', 't', 'awards', '{}', '2029-12-31Z')`,
  );
  await db.database.query(
    "update bridge.checkpoints set answered = (select min(id) from bridge.inbox) where source = 'main' and feed = 'awards'",
  );
  await db.database.query(
    `insert into bridge.flows (name, source, kinds, paused_reason, paused_kind, circuit_until) values
       ('erp', 'main', '{award}', null, null, null),
       ('stopped', 'main', '{award}', 'no right to write', 'auth', '2030-01-01T00:05:00Z'),
       ('gone', 'main', '{}', null, null, null)`,
  );
  await db.database.query(
    `insert into bridge.flow_documents
       (flow, kind, key, due, waiting_since, attempts, last_error, dead_since, delivered)
     values
       ('erp', 'award', 'a', '2030-01-01T00:00:10Z', '2029-12-31T23:58:00Z', 2, 'locked by a user', null, null),
       ('erp', 'award', 'b', '2030-01-01T00:00:00Z', '2029-12-31T23:59:00Z', 0, null, null, null),
       ('erp', 'award', 'c', null, '2029-12-01Z', 1, 'no such vendor', '2029-12-02Z', null),
       ('erp', 'award', 'd', null, null, 0, null, null, '2029-12-31T12:00:00Z'),
       ('erp', 'file', 'e', '2029-01-01Z', '2029-01-01Z', 0, null, null, null),
       ('gone', 'award', 'f', '2029-01-01Z', '2029-01-01Z', 0, null, null, null)`,
  );
}

describe('the status', () => {
  test('of a bridge that has not started shows what is configured, not idle and not in step', async () => {
    const flows = bridgeSettings.parse({ flows: [{ name: 'erp', source: 'main', connector: 'file' }] }).flows;
    const { sources } = settings;
    const begun = await readStatus(db.database, { settings: { sources, flows }, now: timestampNow(clock) });
    expect(begun).toMatchObject({
      feeds: [
        { source: 'main', feed: 'awards', watermark: null, lastPull: null, lag: { seconds: null, inStep: false } },
      ],
      flows: [{ flow: 'erp', source: 'main', due: 0, lag: { seconds: null, inStep: false } }],
    });
    expect([isIdle(begun, timestampNow(clock)), begun.conditions]).toEqual([false, []]);
  });

  test('shows a configured flow that no process has started yet beside the others', async () => {
    await seed();
    const flows = ['erp', 'warehouse'].map((name) => ({ name, source: 'main', connector: 'file' }));
    const configured = { ...settings, flows: bridgeSettings.parse({ flows }).flows };
    const shown = await readStatus(db.database, { settings: configured, now: timestampNow(clock) });
    expect(shown.flows.map(({ flow, lag }) => [flow, lag.seconds])).toEqual([
      ['erp', 120],
      ['stopped', 30],
      ['warehouse', null],
    ]);
  });

  test('shows the last error of the document that was tried most often', async () => {
    await seed();
    await db.database.query(
      `update bridge.flow_documents set attempts = 5, last_error = 'wants a tax code' where key = 'b'`,
    );
    expect((await status()).flows[0]).toMatchObject({ retrying: 2, lastError: 'wants a tax code' });
  });

  test('shows no lag for a flow whose source is not configured here', async () => {
    await seed();
    await db.database.query(`update bridge.flows set source = 'former' where name = 'erp'`);
    const [erp] = (await status()).flows;
    expect(erp?.lag).toEqual({ seconds: null, inStep: false, why: 'its source former is not configured here' });
  });

  test('without any configuration is empty and idle', async () => {
    const empty = await readStatus(db.database, { settings: { sources: [] }, now: timestampNow(clock) });
    expect(empty).toEqual({
      feeds: [],
      flows: [],
      intakes: [],
      lostCommits: null,
      backfills: [],
      audits: [],
      comparisons: [],
      conditions: [],
      delivered: [],
      waiting: [],
      deadLetters: [],
    });
    expect(isIdle(empty, timestampNow(clock))).toBe(true);
  });

  test('shows what is configured: feeds of the settings, registered flows and their kinds', async () => {
    await seed();
    const { feeds, flows, waiting, deadLetters, delivered } = await status();
    expect(feeds).toMatchObject([
      {
        source: 'main',
        feed: 'awards',
        ordered: true,
        waiting: 1,
        lateArrivals: 3,
        warning: 'half is gone',
        latenessSeconds: 45,
        lag: { seconds: 30 },
      },
    ]);
    expect(flows).toMatchObject([
      { flow: 'erp', due: 2, retrying: 1, deadLetters: 1, lastError: 'locked by a user', lag: { seconds: 120 } },
      { flow: 'stopped', due: 0, pausedKind: 'auth', lag: { why: 'paused: no right to write' } },
    ]);
    expect(waiting.map(({ key }) => key)).toEqual(['a', 'b']);
    expect(deadLetters).toMatchObject([{ key: 'c', lastError: 'no such vendor' }]);
    expect(delivered.map(({ key }) => key)).toEqual(['d']);
  });

  test('says of a flow how many documents wait for the effect of a call that was cut off, and until when', async () => {
    await seed();
    const interrupted = "intent_id = gen_random_uuid(), error_type = 'unknown', attempts = 1";
    await db.database.query(
      `update bridge.flow_documents set ${interrupted}, due = '2030-01-01T00:00:35Z', last_error = 'socket hang up'
       where key in ('a', 'b')`,
    );
    const [erp] = (await status()).flows;
    expect(erp).toMatchObject({ due: 2, cutOff: 2, cutOffUntil: '2030-01-01T00:00:35.000000Z', retrying: 0 });
    expect(erp?.lag.why).toMatch(/^2 documents wait until 2030-01-01T00:00:35Z: the call was cut off/);
    // A lookup that failed is tried again, and a call that is under way waits for nothing.
    await db.database.query(
      `insert into bridge.attempts (id, flow, kind, key, step, outcome, number, started, ended) values
       ('00000000-0000-7000-8000-000000000001', 'erp', 'award', 'a', 'write', 'unknown', 1, now(), now()),
       ('00000000-0000-7000-8000-000000000002', 'erp', 'award', 'a', 'look up', 'unknown', 2, now(), now()),
       ('00000000-0000-7000-8000-000000000003', 'other', 'award', 'b', 'look up', 'unknown', 2, now(), now())`,
    );
    expect((await status()).flows[0]).toMatchObject({ cutOff: 1, retrying: 1 });
    await db.database.query(`update bridge.flow_documents set due = '2030-01-01T00:00:00Z' where key = 'b'`);
    const [later] = (await status()).flows;
    expect(later).toMatchObject({ due: 2, cutOff: 0, cutOffUntil: null, retrying: 2 });
  });

  test('shows how far open backfills and audits are, by the records that there are and the time since they were asked', async () => {
    await seed();
    await db.database.query(
      `insert into bridge.mirror (source, feed, record_id, modified, content_hash, body, seen)
         values ('main', 'awards', 'r', '2029-12-27Z', '\\x00', '{}', '2029-12-27Z');
       insert into bridge.backfills (source, feed, kind, range_start, range_end, asked, next_try, position, cancelled)
       values
         ('main', 'awards', 'full', 'epoch', '2029-12-31Z', '2029-12-31T23:50:00Z', '2029-12-31Z', '2029-12-28Z', null),
         ('main', 'awards', 'range', '2029-12-29Z', '2029-12-31Z', '2029-12-31T23:50:00Z', '2029-12-31Z', '2029-12-30Z', null),
         ('main', 'awards', 'range', '2029-12-29Z', '2029-12-31Z', '2029-12-31T23:50:00Z', '2029-12-31Z', null, null),
         ('main', 'awards', 'range', '2029-12-29Z', '2029-12-31Z', '2029-12-31Z', '2029-12-31Z', '2029-12-30Z', '2029-12-31T23:59:00Z')`,
    );
    const { backfills, audits } = await status();
    // The audit begins with the feed's oldest record: a day of four in ten minutes.
    expect(backfills.map(({ progress }) => progress)).toEqual([
      '25 %, about 30 min left',
      '50 %, about 10 min left',
      '',
      '',
    ]);
    expect(audits.map(({ kind, progress }) => [kind, progress])).toEqual([['full', '25 %, about 30 min left']]);
  });

  test('is idle when no feed is due, no notification waits and no document but dead letters', async () => {
    await seed();
    const now = timestampNow(clock);
    expect(isIdle(await status(), now)).toBe(false);
    await db.database.query('update bridge.checkpoints set answered = (select max(id) from bridge.inbox)');
    expect(isIdle(await status(), now)).toBe(false);
    await db.database.query(
      `update bridge.flow_documents set due = null, waiting_since = null where flow = 'erp' and dead_since is null`,
    );
    expect(isIdle(await status(), now)).toBe(true);
    clock.advance(60_000);
    expect(isIdle(await status(), timestampNow(clock))).toBe(false);
  });

  test.each([
    ['a dead letter', 'dead-letters', `update bridge.flows set paused_reason = null, circuit_until = null`],
    ['a paused flow', 'flow-paused', `delete from bridge.flow_documents`],
    [
      'a document that was tried eight times',
      'documents-stuck',
      `delete from bridge.flows where name = 'stopped'; delete from bridge.flow_documents where key <> 'a';
       update bridge.flow_documents set attempts = 8`,
    ],
    [
      'an open circuit',
      'circuit-open',
      `delete from bridge.flow_documents; update bridge.flows set paused_reason = null`,
    ],
    [
      'a failing feed',
      'feed-behind',
      `delete from bridge.flow_documents; delete from bridge.flows; update bridge.checkpoints set failures = 1`,
    ],
    [
      'a watermark that stands still',
      'feed-stalled',
      `delete from bridge.flow_documents; delete from bridge.flows;
       update bridge.checkpoints set stalled_why = 'empty pages';
       insert into bridge.mirror (source, feed, record_id, modified, content_hash, body, seen)
         values ('main', 'awards', 'r', '2029-12-31T23:30:00Z', '\\x00', '{}', '2029-12-31T23:30:05Z')`,
    ],
  ])('has a condition for %s: %s', async (_what, kind, change) => {
    await seed();
    await db.database.query(change);
    expect((await status()).conditions).toMatchObject([{ kind, action: expect.any(String) }]);
  });
});

describe('a document that is tried again needs a look', () => {
  const alone = async (change: string, params: unknown[] = []) => {
    await seed();
    await db.database.query(
      `delete from bridge.flows where name = 'stopped'; delete from bridge.flow_documents where key <> 'a'`,
    );
    await db.database.query(`update bridge.flow_documents set ${change}`, params);
    return status();
  };

  test('not at once: an ERP may be away for minutes', async () => {
    const { flows, conditions } = await alone('attempts = 7');
    expect(flows).toMatchObject([{ flow: 'erp', retrying: 1, stuck: 0 }]);
    expect(conditions).toEqual([]);
  });

  test('at once when its connector returns answers that cannot be read', async () => {
    const session = {
      write: async () => [{ status: 'done' }],
      lookup: async () => 'nothing',
      close: async () => undefined,
    };
    const calls = createConnectorCalls(session as unknown as Session, { secrets: createSecretRedactor({}) });
    const limit = { timeoutMs: 1_000, signal: new AbortController().signal };
    const operation = { action: 'create' } as Operation;
    const [outcome] = await calls.write([operation], limit, () => undefined);
    const found = await calls.lookup([], limit).catch((error: Error) => `lookup failed: ${error.message}`);
    for (const said of [outcome !== undefined && 'message' in outcome ? outcome.message : '', found]) {
      const { conditions } = await alone(`attempts = 1, error_type = 'unknown', last_error = $1`, [said]);
      expect([said, conditions.map(({ kind }) => kind)]).toEqual([said, ['documents-stuck']]);
      await db.database.query('truncate bridge.checkpoints, bridge.inbox, bridge.flows, bridge.flow_documents cascade');
    }
  });
});

describe('the metrics', () => {
  async function values(): Promise<Map<string, number>> {
    const registry = new Registry();
    registerStatusMetrics({ settings, database: db.database, clock, registry });
    const lines = (await registry.metrics()).split('\n').filter((line) => line !== '' && !line.startsWith('#'));
    return new Map(
      lines.map((line) => {
        const [, name = '', value] = /^(.*) (\S+)$/.exec(line) ?? [];
        return [name, value === '+Inf' ? Number.POSITIVE_INFINITY : Number(value)];
      }),
    );
  }

  test('are the values that are in the database', async () => {
    await seed();
    const labels = '{source="main",feed="awards"}';
    expect(Object.fromEntries(await values())).toEqual({
      [`bridge_feed_lag_seconds${labels}`]: 30,
      'bridge_feeds{state="in step"}': 0,
      'bridge_feeds{state="behind"}': 1,
      'bridge_feeds{state="failing"}': 0,
      'bridge_feeds{state="stalled"}': 0,
      bridge_notifications_waiting: 1,
      ...Object.fromEntries(conditionKinds.map((kind) => [`bridge_conditions{kind="${kind}"}`, 0])),
      'bridge_conditions{kind="flow-paused"}': 1,
      'bridge_conditions{kind="dead-letters"}': 1,
      'bridge_condition_seconds{kind="flow-paused",subject="flow stopped"}': 0,
      // From 2029-12-02 to the new year.
      'bridge_condition_seconds{kind="dead-letters",subject="flow erp"}': 30 * 24 * 3600,
      'bridge_flow_lag_seconds{flow="erp"}': 120,
      'bridge_flow_lag_seconds{flow="stopped"}': 30,
      'bridge_oldest_undelivered_seconds{flow="erp"}': 120,
      'bridge_oldest_undelivered_seconds{flow="stopped"}': 0,
      'bridge_documents_due{flow="erp"}': 2,
      'bridge_documents_due{flow="stopped"}': 0,
      'bridge_documents_retrying{flow="erp"}': 1,
      'bridge_documents_retrying{flow="stopped"}': 0,
      'bridge_dead_letters{flow="erp"}': 1,
      'bridge_dead_letters{flow="stopped"}': 0,
      bridge_backfills_open: 0,
    });
  });

  test('show that a feed that was never read is infinitely far behind', async () => {
    await seed();
    await db.database.query('update bridge.checkpoints set watermark = null, last_pull = null');
    const seen = await values();
    expect(seen.get('bridge_feed_lag_seconds{source="main",feed="awards"}')).toBe(Number.POSITIVE_INFINITY);
    expect(seen.get('bridge_flow_lag_seconds{flow="erp"}')).toBe(Number.POSITIVE_INFINITY);
  });

  test('have a bounded number of lines, however many feeds are behind, and count all of them', async () => {
    const many = bridgeSettings.parse({
      sources: Array.from({ length: 400 }, (_, n) => ({
        name: `s${n}`,
        base_url: 'http://127.0.0.1:1',
        api_key: 'k',
        feeds: ['awards'],
      })),
    });
    await db.database.query(
      `insert into bridge.checkpoints (source, feed, next_pull, last_pull, watermark, failures, last_error)
       select 's' || n, 'awards', '2030-01-01', null, timestamptz '2029-12-31' - n * interval '1 second', n / 100,
         'away'
       from generate_series(0, 399) n`,
    );
    const registry = new Registry();
    registerStatusMetrics({ settings: many, database: db.database, clock, registry });
    const lines = (await registry.metrics()).split('\n').filter((line) => line !== '' && !line.startsWith('#'));
    const shown = (name: string) => lines.filter((line) => line.startsWith(`${name}{`));
    expect([shown('bridge_feed_lag_seconds').length, shown('bridge_condition_seconds').length]).toEqual([100, 100]);
    expect(lines.length).toBeLessThan(250);
    expect(lines).toContain('bridge_feeds{state="failing"} 300');
    expect(lines).toContain('bridge_conditions{kind="feed-behind"} 400');
    // The furthest behind, not the first.
    expect(shown('bridge_feed_lag_seconds')[0]).toContain('source="s399"');
  });

  test('of a thousand sources take as many statements as of ten, and no longer text than of a hundred', async () => {
    const read = async (count: number) => {
      const sources = Array.from({ length: count }, (_, n) => ({
        name: `s${n}`,
        base_url: 'http://127.0.0.1:1',
        api_key: 'k',
      }));
      await db.database.query(
        `insert into bridge.checkpoints (source, feed, next_pull, last_pull, watermark, failures, last_error)
         select 's' || n, feed, '2030-01-01', null, timestamptz '2029-12-31' - n * interval '1 second', n % 2, 'away'
         from generate_series(0, $2 - 1) n, unnest($1::text[]) feed on conflict do nothing`,
        [feedNames, count],
      );
      let statements = 0;
      const database: Database = {
        ...db.database,
        query: (text, parameters) => {
          statements += 1;
          return db.database.query(text, parameters);
        },
      };
      const registry = new Registry();
      registerStatusMetrics({ settings: bridgeSettings.parse({ sources }), database, clock, registry });
      const text = await registry.metrics();
      return { statements, bytes: Buffer.byteLength(text), text };
    };
    const [ten, hundred, thousand] = [await read(10), await read(100), await read(1_000)];
    expect(ten.statements).toBeGreaterThan(0);
    expect(thousand.statements).toBe(ten.statements);
    expect(thousand.text).toContain('bridge_conditions{kind="feed-behind"} 4000');
    // Numbers may have a digit more.
    expect(thousand.bytes).toBeLessThan(hundred.bytes * 1.1);
  });

  test('leave out a flow that is no longer configured', async () => {
    await seed();
    const registry = new Registry();
    registerStatusMetrics({ settings, database: db.database, clock, registry });
    expect(await registry.metrics()).toContain('flow="stopped"');
    await db.database.query(`update bridge.flows set kinds = '{}' where name = 'stopped'`);
    expect(await registry.metrics()).not.toContain('flow="stopped"');
  });
});
