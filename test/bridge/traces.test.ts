/**
 * A change in one trace, from the notification that announces it to the ERP's answer, as OpenTelemetry's own SDK sends it
 * when it is loaded as docs/traces.md says.
 */
import { readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { pathToFileURL } from 'node:url';
import { trace } from '@opentelemetry/api';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { readStatus } from '#bridge/operate/status/status.ts';
import { signBody } from '#contract/signature.ts';
import { systemClock, timestampNow } from '#platform/clock.ts';
import { createLogger } from '#platform/log.ts';
import { anyNetwork } from '#platform/network-guard.ts';
import { traced } from '#platform/telemetry.ts';
import { closeAtEnd } from '../harness/close-at-end.ts';
import { eventually } from '../harness/eventually.ts';
import { startTestBridge, type TestBridge } from '../harness/test-bridge.ts';
import { testOutgoing } from '../harness/test-certificates.ts';
import { type FeedSource, startFeedSource } from './feed-source.ts';
import { type OtlpReceiver, type ReceivedSpan, startOtlpReceiver } from './otlp-receiver.ts';
import { eventRecord, idOf, lotAwardRecord, settingsOf } from './parts.ts';

const signingKey = 'the signing key of the tests';
const event = idOf(1);
const caller = { traceId: '0af7651916cd43dd8448eb211c80319c', spanId: 'b7ad6b7169203331' };

let otlp: OtlpReceiver;
let source: FeedSource;
let running: TestBridge;
/** The header `traceparent` of each request. */
const asked: (string | undefined)[] = [];
const ordered: (string | undefined)[] = [];

beforeAll(async () => {
  otlp = await startOtlpReceiver();
  vi.stubEnv('OTEL_EXPORTER_OTLP_ENDPOINT', otlp.url);
  vi.stubEnv('OTEL_EXPORTER_OTLP_HEADERS', 'x-tenant=buyers');
  vi.stubEnv('OTEL_EXPORTER_OTLP_PROTOCOL', 'http/json');
  vi.stubEnv('OTEL_SERVICE_NAME', 'bridge');
  vi.stubEnv('OTEL_BSP_SCHEDULE_DELAY', '50');
  const documented = /```js\n(\/\/ telemetry\.mjs\n[^]*?)```/.exec(
    readFileSync(new URL('../../docs/traces.md', import.meta.url), 'utf8'),
  );
  // Where npm run test:rare installs the SDK.
  const file = join(import.meta.dirname, '../rare/node_modules/telemetry.mjs');
  await writeFile(file, documented?.[1] ?? '');
  await import(pathToFileURL(file).href);
  source = await startFeedSource();
  source.onRequest = (_query, response) => {
    asked.push(response.req.headers['traceparent'] as string | undefined);
    return false;
  };
  source.append('sourcing-events', eventRecord(event, [idOf(101), idOf(102), idOf(103)]));
  const erp = createServer((request, response) => {
    void buffer(request).then(() => {
      // The connector's check of the ERP comes before all.
      if (request.method !== 'POST') {
        response.writeHead(200).end('{}');
        return;
      }
      ordered.push(request.headers['traceparent'] as string | undefined);
      response
        .writeHead(201, { 'content-type': 'application/json' })
        .end(JSON.stringify({ id: `PO-${ordered.length}` }));
    });
  });
  await new Promise<void>((resolve) => erp.listen(0, '127.0.0.1', resolve));
  closeAtEnd(() => void erp.close());
  const base_url = `http://127.0.0.1:${(erp.address() as AddressInfo).port}`;
  const create = { method: 'POST', path: '/orders', body: { json: { key: '{key}' } } };
  running = await startTestBridge({
    sources: [
      { name: 'main', base_url: source.url, api_key: 'k', signing_keys: [signingKey], quotas: { enabled: false } },
    ],
    flows: [
      {
        name: 'sap',
        source: 'main',
        connector: 'http',
        settings: {
          base_url,
          auth: { type: 'none' },
          documents: {
            award: {
              create,
              amend: create,
              cancel: create,
              reference: { body: 'id' },
              lookup: { path: '/orders?key={key}', reference: 'id' },
            },
          },
        },
      },
    ],
  });
  await eventually('each feed was read once', async () => {
    const { feeds } = await statusOf();
    return feeds.every(({ lastPull }) => lastPull !== null);
  });
});
afterAll(() => {
  vi.unstubAllEnvs();
  trace.disable();
});

const statusOf = () => readStatus(running.db.database, { settings: settingsOf({}), now: timestampNow(systemClock) });

async function notify(traceparent?: string): Promise<number> {
  const timestamp = timestampNow(systemClock);
  const body = JSON.stringify({ trigger: 'AWARDS_FEED_UPDATED', timestamp, payload: { feed_modified: timestamp } });
  const { status } = await testOutgoing().fetch({
    url: running.bridge.webhookUrl('main'),
    method: 'POST',
    headers: { 'X-Signature': signBody(body, signingKey), ...(traceparent && { traceparent }) },
    body,
    allowedNetworks: anyNetwork,
    timeoutMs: 10_000,
    responseBytesMax: 10_000,
  });
  return status;
}

/** Waits until a span of this name that fits has arrived. */
function spanOf(name: string, fits: (span: ReceivedSpan) => boolean = () => true): Promise<ReceivedSpan> {
  return eventually(`a span ${name}`, async () => otlp.spans.find((span) => span.name === name && fits(span)));
}

test('one notification: its caller’s trace goes on over pull and document to the ERP, which gets it', async () => {
  source.append('awards', lotAwardRecord(idOf(201), event, [{ supplier: idOf(101) }]));
  expect(await notify(`00-${caller.traceId}-${caller.spanId}-01`)).toBe(200);
  const inTrace = ({ traceId }: ReceivedSpan) => traceId === caller.traceId;
  const received = await spanOf('receive notification', inTrace);
  const pull = await spanOf('pull awards', inTrace);
  const document = await spanOf('create award', inTrace);
  const call = await spanOf('erp write', inTrace);
  const request = await spanOf('POST', inTrace);
  const read = await spanOf('GET', inTrace);
  expect(received).toMatchObject({ parentSpanId: caller.spanId, kind: 'SERVER', service: 'bridge' });
  expect(pull).toMatchObject({ parentSpanId: received.spanId, kind: 'CONSUMER' });
  expect(read).toMatchObject({ parentSpanId: pull.spanId, kind: 'CLIENT' });
  expect(document).toMatchObject({
    parentSpanId: pull.spanId,
    attributes: {
      'sourcing.flow': 'sap',
      'sourcing.document': `${event}/${idOf(101)}`,
      'sourcing.outcome': 'created',
      'sourcing.reference': 'PO-1',
      'sourcing.pull': pull.attributes['sourcing.pull'],
    },
  });
  expect(call.parentSpanId).toBe(document.spanId);
  expect(request).toMatchObject({
    parentSpanId: call.spanId,
    kind: 'CLIENT',
    attributes: { 'http.response.status_code': 201, 'server.address': '127.0.0.1' },
    failed: false,
  });
  expect(ordered).toEqual([`00-${caller.traceId}-${request.spanId}-01`]);
  expect(asked).toContain(`00-${caller.traceId}-${read.spanId}-01`);
  expect(otlp.headers.every((headers) => headers['x-tenant'] === 'buyers')).toBe(true);
});

test('several notifications that one pull answers: the pull begins a trace that links to each', async () => {
  const { database } = running.db;
  const traces = ['1', '2', '3'].map((digit) => `00-${digit.repeat(32)}-${digit.repeat(16)}-01`);
  source.append('awards', lotAwardRecord(idOf(202), event, [{ supplier: idOf(102) }]));
  for (const trace of traces)
    await database.query(
      `insert into bridge.inbox (source, trigger, feed, body, received, trace)
       values ('main', 'AWARDS_FEED_UPDATED', 'awards', '{}', now(), $1)`,
      [trace],
    );
  await running.bridge.sweep();
  const pull = await spanOf('pull awards', ({ links }) => links.length > 1);
  expect(pull.parentSpanId).toBe('');
  expect(new Set(pull.links.map(({ traceId }) => traceId))).toEqual(
    new Set(['1', '2', '3'].map((digit) => digit.repeat(32))),
  );
  const document = await spanOf('create award', ({ traceId }) => traceId === pull.traceId);
  expect(document.parentSpanId).toBe(pull.spanId);
});

test('a request without a right signature makes no span, whatever trace it names', async () => {
  const before = otlp.spans.filter(({ name }) => name === 'receive notification').length;
  const { status } = await testOutgoing().fetch({
    url: running.bridge.webhookUrl('main'),
    method: 'POST',
    headers: {
      'X-Signature': `hmac-sha256=${'0'.repeat(64)}`,
      traceparent: `00-${'f'.repeat(32)}-${'f'.repeat(16)}-01`,
    },
    body: '{}',
    allowedNetworks: anyNetwork,
    timeoutMs: 10_000,
    responseBytesMax: 10_000,
  });
  expect(status).toBe(401);
  expect(await notify()).toBe(200);
  await spanOf('receive notification', ({ parentSpanId }) => parentSpanId === '');
  const received = otlp.spans.filter(({ name }) => name === 'receive notification');
  expect(received).toHaveLength(before + 1);
  expect(received.filter(({ traceId }) => traceId === 'f'.repeat(32))).toEqual([]);
});

test('what fails is a span that failed, without the words of the error; a line of the log names its trace', async () => {
  const lines: string[] = [];
  const log = createLogger({ name: 'test', level: 'info', destination: { write: (line) => lines.push(line) } });
  const failing = traced('work', { kind: 'internal', parent: null }, () => {
    log.info('within');
    return Promise.reject(new TypeError('the password is hunter2'));
  });
  await expect(failing).rejects.toThrow('hunter2');
  const span = await spanOf('work');
  expect(span).toMatchObject({ failed: true, parentSpanId: '' });
  expect(JSON.stringify(otlp.spans)).not.toContain('hunter2');
  expect(lines.map((line) => JSON.parse(line) as unknown)).toMatchObject([
    { msg: 'within', trace_id: span.traceId, span_id: span.spanId },
  ]);
});

test.each([`00-${'0'.repeat(32)}-b7ad6b7169203331-01`, 'nonsense', `00-${caller.traceId}-${'0'.repeat(16)}-01`])(
  'a signed notification with the traceparent %s begins a trace',
  async (traceparent) => {
    const before = otlp.spans.length;
    expect(await notify(traceparent)).toBe(200);
    const received = await eventually('its span', async () =>
      otlp.spans.slice(before).find(({ name }) => name === 'receive notification'),
    );
    expect(received.parentSpanId).toBe('');
  },
);
