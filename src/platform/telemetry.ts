/**
 * Spans, for traces over OTLP. While telemetry is off, which is the default, each function here does nothing, and no
 * library is loaded; `telemetry/start-telemetry.ts` turns it on. A span's place in its trace is a `traceparent` (W3C
 * Trace Context), which may be stored and sent.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import type { Registry } from 'prom-client';

export type SpanAttributes = Readonly<Record<string, string | number | boolean | undefined>>;

export interface Span {
  /** `00-<trace id>-<span id>-<flags>`. */
  readonly traceparent: string;
  set(attributes: SpanAttributes): void;
  fail(message: string): void;
  end(): void;
}

export interface SpanOptions {
  readonly kind: 'server' | 'client' | 'consumer' | 'internal';
  readonly attributes?: SpanAttributes;
  /** The `traceparent` that it continues, also of another process; null begins a trace. Default: the span around it. */
  readonly parent?: string | null | undefined;
  /** The `traceparent` of each span that led to this one. */
  readonly links?: readonly string[];
  /** When it began; default: now. */
  readonly startMs?: number;
}

/** What sends spans, lines of the log and metrics. */
export interface TelemetryBackend {
  startSpan(name: string, options: SpanOptions & { parent: string | null }): Span;
  /** A line of JSON, from which secrets were removed. */
  forwardLine?: ((line: string) => void) | undefined;
  addRegistry?: ((registry: Registry) => void) | undefined;
}

let backend: TelemetryBackend | undefined;
const around = new AsyncLocalStorage<Span>();

/** From now on spans, lines and metrics go there; undefined turns telemetry off. */
export function useTelemetryBackend(used: TelemetryBackend | undefined): void {
  backend = used;
}

export function telemetryBackend(): TelemetryBackend | undefined {
  return backend;
}

/** The span around the code that runs; undefined where there is none. */
export function currentSpan(): Span | undefined {
  return backend && around.getStore();
}

/** Starts a span that the caller ends; undefined while telemetry is off. */
export function startSpan(name: string, options: SpanOptions): Span | undefined {
  if (!backend) return undefined;
  const { parent = around.getStore()?.traceparent ?? null } = options;
  return backend.startSpan(name, { ...options, parent });
}

/** Runs `work` in a span, which ends with it. What `work` throws marks the span as failed, and is thrown on. */
export function traced<T>(
  name: string,
  options: SpanOptions,
  work: (span: Span | undefined) => Promise<T>,
): Promise<T> {
  const span = startSpan(name, options);
  return span ? inSpan(span, work) : work(undefined);
}

async function inSpan<T>(span: Span, work: (span: Span) => Promise<T>): Promise<T> {
  try {
    return await around.run(span, () => work(span));
  } catch (error) {
    // Only its kind: a message may hold what another program has sent.
    span.fail(error instanceof Error ? error.name : 'an error');
    throw error;
  } finally {
    span.end();
  }
}

const form = /^00-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})$/;

/** Reads a `traceparent` (version 00); undefined for text that is none. */
export function readTraceparent(
  text: string | undefined,
): { traceId: string; spanId: string; flags: number } | undefined {
  const [, traceId, spanId, flags] = form.exec(text ?? '') ?? [];
  if (traceId === undefined || spanId === undefined || flags === undefined) return undefined;
  return { traceId, spanId, flags: Number.parseInt(flags, 16) };
}

/** The fields by which a line of the log is found from its trace. */
export function traceFields(): Record<string, string> {
  const read = readTraceparent(currentSpan()?.traceparent);
  return read ? { trace_id: read.traceId, span_id: read.spanId } : {};
}
