import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { BridgeStatus } from '#bridge/status.ts';
import { mountConsole, renderPage } from '#console/console-page.ts';
import { createApplication } from '#platform/http/application.ts';
import { type HttpServer, listen } from '#platform/http/server.ts';
import { silentLogger } from '#platform/log.ts';
import { Registry } from '#platform/metrics.ts';
import { createTestDatabase, type TestDatabase } from '../harness/test-database.ts';

const nothing: BridgeStatus = { feeds: [], flows: [], recent: [] };
const feed: BridgeStatus['feeds'][number] = {
  source: 'main',
  feed: 'awards',
  watermark: '2030-01-02T03:04:05.678901Z',
  lastPull: null,
  nextPull: '2030-01-02T03:05:00.000000Z',
  waiting: 0,
  lastError: null,
};
const flow: BridgeStatus['flows'][number] = {
  flow: 'erp',
  pausedReason: null,
  documents: 12,
  due: 0,
  deadLetters: 0,
  oldestDue: null,
};

describe('the page', () => {
  test('is whole without any data', () => {
    const page = renderPage(nothing);
    expect(page).toContain('In step');
    expect(page.match(/none yet/g)).toHaveLength(3);
    expect(page).not.toMatch(/undefined|null|NaN/);
  });

  test.each<[string, BridgeStatus]>([
    ['In step', { ...nothing, feeds: [feed], flows: [flow] }],
    ['Working', { ...nothing, feeds: [{ ...feed, waiting: 1 }], flows: [flow] }],
    ['Working', { ...nothing, feeds: [feed], flows: [{ ...flow, due: 1 }] }],
    ['Needs a look', { ...nothing, feeds: [{ ...feed, lastError: 'the source is away' }], flows: [flow] }],
    ['Needs a look', { ...nothing, feeds: [feed], flows: [{ ...flow, pausedReason: 'no right to write' }] }],
    ['Needs a look', { ...nothing, feeds: [feed], flows: [{ ...flow, deadLetters: 1 }] }],
  ])('says "%s" at the top, and what the trouble is', (headline, status) => {
    const page = renderPage(status);
    expect(page).toContain(`<title>${headline} `);
    for (const text of [status.feeds[0]?.lastError, status.flows[0]?.pausedReason]) expect(page).toContain(text ?? '');
    expect(page).not.toMatch(/undefined|null|NaN/);
  });

  test('escapes every text that comes from outside', () => {
    const hostile = `<script>alert("1")</script>'&`;
    const page = renderPage({
      feeds: [{ ...feed, source: hostile, feed: hostile, watermark: hostile, lastPull: hostile, lastError: hostile }],
      flows: [{ ...flow, flow: hostile, pausedReason: hostile }],
      recent: [{ flow: hostile, key: hostile, delivered: hostile, reference: hostile, lastError: hostile }],
    });
    expect(page).not.toContain('<script');
    expect(page).not.toContain('alert("1")');
    expect(page).toContain('&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt;&#39;&amp;');
  });
});

describe('the console', () => {
  let db: TestDatabase;
  let server: HttpServer;
  beforeEach(async () => {
    db = await createTestDatabase();
    const application = createApplication({ log: silentLogger, registry: new Registry(), readiness: {} });
    mountConsole(application, { database: db.database });
    application.finish();
    server = await listen(application.express, { host: '127.0.0.1', port: 0 });
  });
  afterEach(() => server.close(0));

  test('shows what SQL says, with no script allowed, and the same as JSON', async () => {
    await db.database.query(
      `insert into bridge.flows (name, source, kinds) values ('erp', 'main', '{award}'), ('former', 'main', '{}')`,
    );
    await db.database.query(
      `insert into bridge.flow_documents (flow, kind, key, sourcing_event, due, dead_since, last_error) values
         ('erp', 'award', 'a/1', 'a', '2030-01-01Z', null, null), ('erp', 'award', 'a/2', 'a', null, '2030-01-01Z', 'no <such> vendor'),
         ('erp', 'award', 'a/3', 'a', null, null, null), ('former', 'award', 'a/1', 'a', '2030-01-01Z', null, null)`,
    );
    const answer = await fetch(server.url);
    expect(answer.headers.get('content-security-policy')).toContain("default-src 'none'");
    const page = await answer.text();
    expect(page).toContain('no &lt;such&gt; vendor');
    const status = (await (await fetch(`${server.url}/status.json`)).json()) as BridgeStatus;
    expect(status.flows, 'a flow that is not configured any more waits for nothing').toMatchObject([
      { flow: 'erp', documents: 3, due: 1, deadLetters: 1 },
    ]);
  });
});
