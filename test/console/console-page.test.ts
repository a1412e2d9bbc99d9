import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { BridgeStatus } from '#bridge/status/status.ts';
import { cacheStatus } from '#console/cached-status.ts';
import { mountConsole, renderPage } from '#console/console-page.ts';
import { createApplication } from '#platform/http/application.ts';
import { type HttpServer, listen } from '#platform/http/server.ts';
import { silentLogger } from '#platform/log.ts';
import { Registry } from '#platform/metrics.ts';
import { settingsOf, testClock } from '../bridge/parts.ts';
import { feedInStep, flowInStep, noStatus } from '../bridge/status/statuses.ts';
import { createTestDatabase, type TestDatabase } from '../harness/test-database.ts';

const nothing = noStatus;
const flow = flowInStep;
const { lag: inStep } = flow;
const feed = {
  ...feedInStep,
  watermark: '2030-01-02T03:04:05.678901Z',
  lastPull: null,
  nextPull: '2030-01-02T03:05:00.000000Z',
};
const working = { seconds: 90, why: '1 notification to answer', inStep: false };

describe('the page', () => {
  test('is complete without any data', () => {
    const page = renderPage(nothing);
    expect(page).toContain('In step');
    expect(page.match(/none yet/g)).toHaveLength(3);
    expect(page).not.toMatch(/undefined|null|NaN/);
  });

  test.each<[string, BridgeStatus]>([
    ['In step', { ...nothing, feeds: [feed], flows: [flow] }],
    ['Working', { ...nothing, feeds: [{ ...feed, lag: working }], flows: [flow] }],
    ['Working', { ...nothing, feeds: [feed], flows: [{ ...flow, due: 1, lag: working }] }],
    ['Needs a look', { ...nothing, feeds: [{ ...feed, failures: 1, lag: working }], flows: [flow] }],
    ['Needs a look', { ...nothing, feeds: [feed], flows: [{ ...flow, pausedReason: 'no right', lag: working }] }],
    ['Needs a look', { ...nothing, feeds: [feed], flows: [{ ...flow, circuitUntil: feed.nextPull, lag: working }] }],
    ['Needs a look', { ...nothing, feeds: [feed], flows: [{ ...flow, deadLetters: 1 }] }],
  ])('says "%s" at the top, and the reason for the state of each feed and flow', (headline, status) => {
    const page = renderPage(status);
    expect(page).toContain(`<title>${headline} `);
    for (const { lag } of [...status.feeds, ...status.flows]) expect(page).toContain(lag.why);
    expect(page).not.toMatch(/undefined|null|NaN/);
  });

  test('shows the largest lag, or "not known" when one lag is not known', () => {
    const far = { ...feed, lag: { ...inStep, seconds: 7500 } };
    expect(renderPage({ ...nothing, feeds: [feed, far] })).toContain('<dt>Feeds behind by</dt><dd>2 h 5 min</dd>');
    const unknown = { ...feed, lag: { ...inStep, seconds: null } };
    expect(renderPage({ ...nothing, feeds: [far, unknown] })).toContain('<dt>Feeds behind by</dt><dd>not known</dd>');
  });

  test('escapes every text that comes from outside', () => {
    const hostile = `<script>alert("1")</script>'&`;
    const lag = { ...inStep, why: hostile };
    const document = { flow: hostile, kind: hostile, key: hostile };
    const backfill = {
      id: 1,
      kind: hostile,
      records: 0,
      changed: 0,
      source: hostile,
      feed: hostile,
      from: hostile,
      to: hostile,
    };
    const page = renderPage({
      feeds: [
        { ...feed, source: hostile, feed: hostile, watermark: hostile, lastPull: hostile, warning: hostile, lag },
      ],
      flows: [{ ...flow, flow: hostile, lag }],
      intakes: [],
      backfills: [{ ...backfill, position: hostile, finished: null, cancelled: null, lastError: hostile }],
      audits: [],
      changes: [],
      alerts: [
        {
          id: hostile,
          kind: 'flow-paused',
          subject: hostile,
          group: hostile,
          summary: hostile,
          action: hostile,
          started: hostile,
          ended: null,
        },
      ],
      alertChannels: [
        { channel: hostile, sent: null, attempts: 1, lastError: hostile, nextTry: hostile, givenUp: 0, waiting: 0 },
      ],
      quotas: [{ source: hostile, bucket: hostile, window: 'burst', left: 1, pausedUntil: hostile }],
      delivered: [{ ...document, delivered: hostile, reference: hostile }],
      waiting: [{ ...document, waitingSince: hostile, due: hostile, attempts: 1, lastError: hostile }],
      deadLetters: [{ ...document, deadSince: hostile, lastError: hostile }],
    });
    expect(page).not.toContain('<script');
    expect(page).not.toContain('alert("1")');
    expect(page).toContain('&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt;&#39;&amp;');
  });

  test('names each cell for narrow screens, where a table is a list of cards', () => {
    const page = renderPage({ ...nothing, flows: [flow] });
    for (const name of ['Flow', 'Behind by', 'Still to deliver', 'Dead letters', 'State'])
      expect(page).toContain(`data-name="${name}"`);
  });
});

describe('the status', () => {
  test('is read once for all viewers, and again when it is no longer fresh', async () => {
    const clock = testClock();
    let reads = 0;
    const status = cacheStatus(async () => {
      reads += 1;
      return nothing;
    }, clock);
    await Promise.all([status(), status()]);
    clock.advance(499);
    await status();
    expect(reads).toBe(1);
    clock.advance(2);
    await status();
    expect(reads).toBe(2);
  });

  test('that took long to read is kept ten times as long', async () => {
    const clock = testClock();
    let reads = 0;
    const status = cacheStatus(async () => {
      reads += 1;
      clock.advance(3_000);
      return nothing;
    }, clock);
    await status();
    clock.advance(29_999);
    await status();
    expect(reads).toBe(1);
    clock.advance(2);
    await status();
    expect(reads).toBe(2);
  });

  test('that could not be read is read again by the next request', async () => {
    let reads = 0;
    const status = cacheStatus(async () => {
      reads += 1;
      if (reads === 1) throw new Error('the database is away');
      return nothing;
    }, testClock());
    await expect(status()).rejects.toThrow('away');
    expect(await status()).toEqual(nothing);
  });
});

describe('the console', () => {
  let db: TestDatabase;
  let server: HttpServer;
  beforeEach(async () => {
    db = await createTestDatabase();
    const application = createApplication({ log: silentLogger, registry: new Registry(), readiness: {} });
    mountConsole(application, {
      settings: settingsOf(),
      database: db.database,
      clock: testClock(),
    });
    application.finish();
    server = await listen(application.express, { host: '127.0.0.1', port: 0 });
  });
  afterEach(() => server.close(0));

  test('shows the state of the database, with no script allowed, and the same as JSON', async () => {
    await db.database.query(
      `insert into bridge.flows (name, source, kinds) values ('erp', 'main', '{award}'), ('former', 'main', '{}')`,
    );
    await db.database.query(
      `insert into bridge.flow_documents
         (flow, kind, key, sourcing_event, due, waiting_since, dead_since, last_error) values
         ('erp', 'award', 'a/1', 'a', '2030-01-01Z', '2030-01-01Z', null, null),
         ('erp', 'award', 'a/2', 'a', null, '2030-01-01Z', '2030-01-01Z', 'no <such> vendor'),
         ('erp', 'award', 'a/3', 'a', null, null, null, null),
         ('erp', 'quotation', 'a/1', 'a', '2030-01-01Z', '2030-01-01Z', null, null),
         ('former', 'award', 'a/1', 'a', '2030-01-01Z', '2030-01-01Z', null, null)`,
    );
    const answer = await fetch(server.url);
    expect(answer.headers.get('content-security-policy')).toContain("default-src 'none'");
    const page = await answer.text();
    expect(page).toContain('no &lt;such&gt; vendor');
    const status = (await (await fetch(`${server.url}/status.json`)).json()) as BridgeStatus;
    expect(status.flows, 'nothing waits for a flow or a kind that is no longer configured').toMatchObject([
      { flow: 'erp', due: 1, deadLetters: 1 },
    ]);
  });
});
