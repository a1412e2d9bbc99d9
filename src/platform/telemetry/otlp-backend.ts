/**
 * Sends spans, metrics and lines of the log over OTLP with OpenTelemetry's own exporters, which read their endpoint,
 * headers, certificates, compression and time limit from the standard variables. Everything is sent in batches of
 * bounded length: what does not fit is dropped, and nothing here delays the work or makes it fail.
 */
import { type Context, diag, ROOT_CONTEXT, SpanKind, SpanStatusCode, trace } from '@opentelemetry/api';
import { OTLPLogExporter } from '@opentelemetry/exporter-logs-otlp-proto';
import { OTLPMetricExporter } from '@opentelemetry/exporter-metrics-otlp-proto';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-proto';
import {
  defaultResource,
  detectResources,
  envDetector,
  type Resource,
  resourceFromAttributes,
} from '@opentelemetry/resources';
import { BatchLogRecordProcessor, LoggerProvider } from '@opentelemetry/sdk-logs';
import { MeterProvider, PeriodicExportingMetricReader } from '@opentelemetry/sdk-metrics';
import {
  AlwaysOffSampler,
  AlwaysOnSampler,
  BatchSpanProcessor,
  ParentBasedSampler,
  type Sampler,
  TraceIdRatioBasedSampler,
  TracerProvider,
} from '@opentelemetry/sdk-trace';
import { AppError } from '../errors.ts';
import type { Logger } from '../log.ts';
import {
  readTraceparent,
  type Span,
  type SpanAttributes,
  type SpanOptions,
  type TelemetryBackend,
} from '../telemetry.ts';
import { createLineForwarder } from './forward-lines.ts';
import { createMetricProducer } from './prometheus-metrics.ts';
import type { TelemetryOptions } from './start-telemetry.ts';

const scope = 'sourcing-bridge';
const closeMs = 3_000;
const complaintEveryMs = 60_000;

const kinds = {
  server: SpanKind.SERVER,
  client: SpanKind.CLIENT,
  consumer: SpanKind.CONSUMER,
  internal: SpanKind.INTERNAL,
} as const;

export function createOtlpBackend({ signals, serviceName, env }: TelemetryOptions): {
  backend: TelemetryBackend;
  /** Complaints of the exporters become lines of this log, one a minute. */
  logTo: (log: Logger) => void;
  close: () => Promise<void>;
} {
  const resource = resourceOf(serviceName);
  const closers: (() => Promise<void>)[] = [];

  const tracers = new TracerProvider({
    resource,
    sampler: samplerOf(env),
    spanProcessors: signals.has('TRACES')
      ? [
          new BatchSpanProcessor({
            exporter: new OTLPTraceExporter(),
            scheduledDelayMillis: numberOf(env, 'OTEL_BSP_SCHEDULE_DELAY', 5_000),
          }),
        ]
      : [],
  });
  closers.push(() => tracers.shutdown());
  const tracer = tracers.getTracer(scope);

  let forwardLine: TelemetryBackend['forwardLine'];
  if (signals.has('LOGS')) {
    const exporter = new OTLPLogExporter();
    const scheduledDelayMillis = numberOf(env, 'OTEL_BLRP_SCHEDULE_DELAY', 1_000);
    const loggers = new LoggerProvider({
      resource,
      processors: [new BatchLogRecordProcessor({ exporter, scheduledDelayMillis })],
    });
    closers.push(() => loggers.shutdown());
    const logger = loggers.getLogger(scope);
    forwardLine = createLineForwarder((record) => logger.emit(record));
  }

  let addRegistry: TelemetryBackend['addRegistry'];
  if (signals.has('METRICS')) {
    const { producer, add } = createMetricProducer({ resource, scope });
    const exportIntervalMillis = numberOf(env, 'OTEL_METRIC_EXPORT_INTERVAL', 60_000);
    const exportTimeoutMillis = Math.min(exportIntervalMillis, numberOf(env, 'OTEL_METRIC_EXPORT_TIMEOUT', 30_000));
    const reader = new PeriodicExportingMetricReader({
      exporter: new OTLPMetricExporter(),
      exportIntervalMillis,
      exportTimeoutMillis,
      metricProducers: [producer],
    });
    const meters = new MeterProvider({ resource, readers: [reader] });
    closers.push(() => meters.shutdown());
    addRegistry = add;
  }

  return {
    backend: {
      startSpan(name, { parent, kind, attributes = {}, links = [], startMs }) {
        const context = parent === null ? ROOT_CONTEXT : contextOf(parent);
        const linked = links.flatMap((link) => trace.getSpanContext(contextOf(link)) ?? []);
        const options = {
          kind: kinds[kind],
          attributes: { ...attributes },
          links: linked.map((spanContext) => ({ context: spanContext })),
          ...(startMs !== undefined && { startTime: startMs }),
        };
        return spanOf(tracer.startSpan(name, options, context));
      },
      forwardLine,
      addRegistry,
    },
    logTo: (log) => complainTo(log),
    close: async () => {
      let timer: NodeJS.Timeout | undefined;
      const limit = new Promise<void>((resolve) => {
        timer = setTimeout(resolve, closeMs);
      });
      await Promise.race([Promise.allSettled(closers.map((close) => close())), limit]);
      clearTimeout(timer);
      diag.disable();
    },
  };
}

function spanOf(span: ReturnType<ReturnType<TracerProvider['getTracer']>['startSpan']>): Span {
  const { traceId, spanId, traceFlags } = span.spanContext();
  return {
    traceparent: `00-${traceId}-${spanId}-${traceFlags.toString(16).padStart(2, '0')}`,
    set: (attributes: SpanAttributes) => void span.setAttributes({ ...attributes }),
    fail: (message) => void span.setStatus({ code: SpanStatusCode.ERROR, message }),
    end: () => span.end(),
  };
}

/** Text that is no `traceparent` begins a trace. */
function contextOf(traceparent: SpanOptions['parent']): Context {
  const read = readTraceparent(traceparent ?? undefined);
  if (!read) return ROOT_CONTEXT;
  const { traceId, spanId, flags } = read;
  return trace.setSpanContext(ROOT_CONTEXT, { traceId, spanId, traceFlags: flags, isRemote: true });
}

/** `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES` beat the program's own name. */
function resourceOf(serviceName: string): Resource {
  return defaultResource()
    .merge(resourceFromAttributes({ 'service.name': serviceName }))
    .merge(detectResources({ detectors: [envDetector] }));
}

/** Throws an AppError `invalid` for a sampler that the specification does not have. */
function samplerOf(env: TelemetryOptions['env']): Sampler {
  const name = env['OTEL_TRACES_SAMPLER']?.trim() || 'parentbased_always_on';
  const samplers: Readonly<Record<string, () => Sampler>> = {
    always_on: () => new AlwaysOnSampler(),
    always_off: () => new AlwaysOffSampler(),
    traceidratio: () => new TraceIdRatioBasedSampler(numberOf(env, 'OTEL_TRACES_SAMPLER_ARG', 1)),
  };
  const root = samplers[name.replace(/^parentbased_/, '')];
  if (!root)
    throw new AppError(
      'invalid',
      `OTEL_TRACES_SAMPLER is "${name}": it must be one of ${Object.keys(samplers).join(', ')}, or parentbased_ and one of them.`,
    );
  return name.startsWith('parentbased_') ? new ParentBasedSampler({ root: root() }) : root();
}

function numberOf(env: TelemetryOptions['env'], name: string, fallback: number): number {
  const value = Number(env[name]?.trim() || Number.NaN);
  return Number.isFinite(value) && value >= 0 ? value : fallback;
}

/** The lines go over OTLP, too: more than one a minute could keep a failing exporter busy with its own complaints. */
function complainTo(log: Logger): void {
  let saidMs = Number.NEGATIVE_INFINITY;
  const say = (text: string) => {
    const nowMs = performance.now();
    if (nowMs - saidMs < complaintEveryMs) return;
    saidMs = nowMs;
    log.warn({ state: 'telemetry failing' }, `telemetry could not be sent: ${text.slice(0, 500)}`);
  };
  const nothing = () => undefined;
  // A refused export is an error only when it is not the last one before the end.
  const info = (text: string) => {
    if (text.includes('Export failed')) say(text);
  };
  diag.setLogger({ error: say, warn: say, info, debug: nothing, verbose: nothing });
}
