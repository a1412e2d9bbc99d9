/**
 * Spans, by the API of OpenTelemetry. Its SDK makes and sends them, where an operator loads it before this program
 * (`node --import`, docs/traces.md); without it each function here does nothing. A span's place in its trace is a
 * `traceparent` (W3C Trace Context), which may be stored and sent.
 */
import {
  type Attributes,
  type Context,
  context,
  isSpanContextValid,
  ProxyTracerProvider,
  propagation,
  ROOT_CONTEXT,
  type Span,
  SpanKind,
  SpanStatusCode,
  trace,
} from '@opentelemetry/api';

export type { Span } from '@opentelemetry/api';

const scope = 'sourcing-bridge';
const kinds = {
  server: SpanKind.SERVER,
  client: SpanKind.CLIENT,
  consumer: SpanKind.CONSUMER,
  internal: SpanKind.INTERNAL,
} as const;

export interface SpanOptions {
  readonly kind: keyof typeof kinds;
  readonly attributes?: Attributes;
  /** The `traceparent` that it continues, also of another process; null begins a trace. Default: the span around it. */
  readonly parent?: string | null | undefined;
  /** The `traceparent` of each span that led to this one. */
  readonly links?: readonly string[];
  /** When it began; default: now. */
  readonly startMs?: number;
}

/** Whether an SDK was loaded: without one, what is read from the database for spans alone need not be read. */
export function isTraced(): boolean {
  const provider = trace.getTracerProvider();
  return !(provider instanceof ProxyTracerProvider) || provider.getDelegateTracer(scope) !== undefined;
}

/** Starts a span that the caller ends. */
export function startSpan(name: string, { kind, attributes = {}, parent, links = [], startMs }: SpanOptions): Span {
  const around = parent === undefined ? context.active() : contextOf(parent);
  const linked = links.flatMap((link) => trace.getSpanContext(contextOf(link)) ?? []);
  const options = {
    kind: kinds[kind],
    attributes,
    links: linked.map((spanContext) => ({ context: spanContext })),
    ...(startMs !== undefined && { startTime: startMs }),
  };
  return trace.getTracer(scope).startSpan(name, options, around);
}

/** Runs `work` in a span, which ends with it. What `work` throws marks the span as failed, and is thrown on. */
export async function traced<T>(name: string, options: SpanOptions, work: (span: Span) => Promise<T>): Promise<T> {
  const span = startSpan(name, options);
  try {
    return await context.with(trace.setSpan(context.active(), span), () => work(span));
  } catch (error) {
    // Only its kind: a message may hold what another program has sent.
    failSpan(span, error instanceof Error ? error.name : 'an error');
    throw error;
  } finally {
    span.end();
  }
}

export function failSpan(span: Span, message: string): void {
  span.setStatus({ code: SpanStatusCode.ERROR, message });
}

/** `00-<trace id>-<span id>-<flags>`; undefined where no SDK was loaded, or it sends another form alone. */
export function traceparentOf(span: Span): string | undefined {
  const carrier: { traceparent?: string } = {};
  propagation.inject(trace.setSpan(ROOT_CONTEXT, span), carrier);
  return carrier.traceparent;
}

/** Whether the code that runs is part of a span. */
export function isInSpan(): boolean {
  return trace.getActiveSpan() !== undefined;
}

/** The headers by which another system continues the trace of the span around; none outside a span. */
export function traceHeaders(): Record<string, string> {
  const headers: Record<string, string> = {};
  propagation.inject(context.active(), headers);
  return headers;
}

/** The fields by which a line of the log is found from its trace. */
export function traceFields(): Record<string, string> {
  const place = trace.getActiveSpan()?.spanContext();
  return place && isSpanContextValid(place) ? { trace_id: place.traceId, span_id: place.spanId } : {};
}

/** Text that is no `traceparent` begins a trace. */
function contextOf(traceparent: string | null): Context {
  return traceparent === null ? ROOT_CONTEXT : propagation.extract(ROOT_CONTEXT, { traceparent });
}
