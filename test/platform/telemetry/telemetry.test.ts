/** When telemetry is on, what it sends of metrics and of the log, and that it is not loaded when it is off. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { createLogger } from '#platform/log.ts';
import { Counter, createRegistry, Gauge, Histogram } from '#platform/metrics.ts';
import { signalsOf, startTelemetry } from '#platform/telemetry/start-telemetry.ts';
import { readTraceparent, startSpan, telemetryBackend, traced } from '#platform/telemetry.ts';
import { startOtlpReceiver } from './otlp-receiver.ts';

const endpoint = { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:4318' };

describe('the variables', () => {
  test.each<[string, Record<string, string>, string[]]>([
    ['none of them', {}, []],
    ['an endpoint for all', endpoint, ['TRACES', 'METRICS', 'LOGS']],
    [
      'an endpoint for one signal',
      { OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'http://127.0.0.1:4318/v1/traces' },
      ['TRACES'],
    ],
    ['an exporter, for the usual endpoint', { OTEL_METRICS_EXPORTER: 'otlp' }, ['METRICS']],
    ['an endpoint, without logs', { ...endpoint, OTEL_LOGS_EXPORTER: 'none' }, ['TRACES', 'METRICS']],
    ['an endpoint, but disabled', { ...endpoint, OTEL_SDK_DISABLED: 'true' }, []],
    ['an empty endpoint, which counts as not set', { OTEL_EXPORTER_OTLP_ENDPOINT: '' }, []],
  ])('with %s: what is sent', (_what, env, signals) => {
    expect([...signalsOf(env)]).toEqual(signals);
  });

  test.each([
    [{ OTEL_TRACES_EXPORTER: 'zipkin' }, 'OTEL_TRACES_EXPORTER is "zipkin"'],
    [{ ...endpoint, OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc' }, 'it must be http/protobuf'],
  ])('that ask for what this program does not have stop the start: %o', (env, message) => {
    expect(() => signalsOf(env)).toThrow(message);
  });
});

describe('while it is off', () => {
  test('spans do nothing, and nothing else is started', async () => {
    expect(await startTelemetry({}, { serviceName: 'test' })).toBeUndefined();
    expect(telemetryBackend()).toBeUndefined();
    expect(startSpan('a', { kind: 'internal' })).toBeUndefined();
    expect(await traced('a', { kind: 'internal' }, async (span) => [span])).toEqual([undefined]);
  });

  test('no library of it is loaded: only what `start-telemetry.ts` imports on demand imports one', () => {
    const root = join(import.meta.dirname, '../../../src');
    const importers = readdirSync(root, { recursive: true, encoding: 'utf8' }).filter(
      (path) => path.endsWith('.ts') && /from '@opentelemetry\//.test(readFileSync(join(root, path), 'utf8')),
    );
    const own = ['forward-lines', 'otlp-backend', 'prometheus-metrics'].map((name) => `platform/telemetry/${name}.ts`);
    expect(importers.toSorted()).toEqual(own);
    const backends = /from '[^']*(otlp-backend|forward-lines|prometheus-metrics)\.ts'/;
    const loaders = readdirSync(root, { recursive: true, encoding: 'utf8' }).filter(
      (path) => path.endsWith('.ts') && backends.test(readFileSync(join(root, path), 'utf8')),
    );
    expect(loaders).toEqual(['platform/telemetry/otlp-backend.ts']);
  });
});

describe('a traceparent', () => {
  test.each([
    ['00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01', true],
    ['00-00000000000000000000000000000000-b7ad6b7169203331-01', false],
    ['00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01', false],
    ['00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01', false],
    ['00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\n', false],
    [undefined, false],
  ])('%j is one: %s', (text, isOne) => {
    expect(readTraceparent(text) !== undefined).toBe(isOne);
  });
});

describe('while it is on', () => {
  let otlp: Awaited<ReturnType<typeof startOtlpReceiver>>;
  let telemetry: NonNullable<Awaited<ReturnType<typeof startTelemetry>>>;
  beforeEach(async () => {
    otlp = await startOtlpReceiver();
    vi.stubEnv('OTEL_EXPORTER_OTLP_ENDPOINT', otlp.url);
    vi.stubEnv('OTEL_EXPORTER_OTLP_COMPRESSION', 'gzip');
    vi.stubEnv('OTEL_RESOURCE_ATTRIBUTES', 'deployment.environment.name=test');
    const started = await startTelemetry(process.env, { serviceName: 'bridge-push' });
    if (!started) throw new Error('telemetry is off');
    telemetry = started;
  });
  afterEach(() => {
    vi.unstubAllEnvs();
    return telemetry.close();
  });

  test('metrics of a registry are sent with their types and values; one that cannot be read leaves the others', async () => {
    const registry = createRegistry();
    const registers = [registry];
    new Counter({ name: 'orders_total', help: 'Orders', labelNames: ['flow'], registers }).inc({ flow: 'sap' }, 3);
    new Gauge({ name: 'lag_seconds', help: 'Lag', registers }).set(1.5);
    const times = new Histogram({
      name: 'took_seconds',
      help: 'Time',
      buckets: [0.1, 1],
      labelNames: ['port'],
      registers,
    });
    for (const seconds of [0.05, 0.5, 0.7, 9]) times.observe({ port: 'console' }, seconds);
    const away = () => Promise.reject(new Error('the database is away'));
    registry.registerMetric(new Gauge({ name: 'of_database', help: 'x', registers: [], collect: away }));
    await telemetry.close();
    const named = (name: string) => otlp.metrics.find((metric) => metric['name'] === name);
    expect(named('orders_total')).toMatchObject({
      description: 'Orders',
      sum: {
        isMonotonic: true,
        aggregationTemporality: 'AGGREGATION_TEMPORALITY_CUMULATIVE',
        dataPoints: [{ asDouble: 3, attributes: [{ key: 'flow', value: { stringValue: 'sap' } }] }],
      },
    });
    expect(named('lag_seconds')).toMatchObject({ gauge: { dataPoints: [{ asDouble: 1.5 }] } });
    expect(named('took_seconds')?.['histogram'].dataPoints).toMatchObject([
      {
        count: 4,
        sum: 10.25,
        explicitBounds: [0.1, 1],
        bucketCounts: [1, 2, 1],
        attributes: [{ key: 'port', value: { stringValue: 'console' } }],
      },
    ]);
    expect(named('of_database')).toBeUndefined();
    expect(named('process_resident_memory_bytes')).toBeDefined();
  });

  test('a line of the log is sent without its secrets, and with the trace in which it was written', async () => {
    const forward = telemetryBackend()?.forwardLine;
    const log = createLogger({ name: 'test', level: 'info', destination: { write: (line) => forward?.(line) } });
    let traceId: string | undefined;
    await traced('work', { kind: 'internal', parent: null }, async (span) => {
      traceId = readTraceparent(span?.traceparent)?.traceId;
      log.warn({ flow: 'sap', password: 'hunter2', event: { name: 'Chairs' } }, 'flow paused: Bearer abcdefghijkl');
    });
    log.info('outside');
    await telemetry.close();
    expect(otlp.lines).toMatchObject([
      {
        service: 'bridge-push',
        severity: 'warn',
        body: 'flow paused: Bearer [secret]',
        traceId,
        attributes: { flow: 'sap', password: '[secret]', event: { name: 'Chairs' } },
      },
      { severity: 'info', body: 'outside', traceId: '' },
    ]);
    expect(otlp.spans).toMatchObject([{ name: 'work', traceId, parentSpanId: '', failed: false }]);
  });

  test('work that fails is a span that failed, without the words of the error', async () => {
    const failing = traced('work', { kind: 'internal' }, () =>
      Promise.reject(new TypeError('the password is hunter2')),
    );
    await expect(failing).rejects.toThrow('hunter2');
    await telemetry.close();
    expect(otlp.spans).toMatchObject([{ name: 'work', failed: true }]);
    expect(JSON.stringify(otlp.spans)).not.toContain('hunter2');
  });
});

test('a receiver that refuses what is sent breaks nothing; the log says so', async () => {
  const { url } = await startOtlpReceiver();
  vi.stubEnv('OTEL_EXPORTER_OTLP_TRACES_ENDPOINT', `${url}/nowhere`);
  const telemetry = await startTelemetry(process.env, { serviceName: 'test' });
  const lines: string[] = [];
  telemetry?.logTo(createLogger({ name: 'test', level: 'warn', destination: { write: (line) => lines.push(line) } }));
  expect(await traced('work', { kind: 'internal' }, async () => 'done')).toBe('done');
  await telemetry?.close();
  vi.unstubAllEnvs();
  expect(lines.join('')).toContain('telemetry could not be sent');
});
