/** A receiver of traces by OTLP over HTTP, as JSON (https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding). */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { json } from 'node:stream/consumers';
import { z } from 'zod';
import { closeAtEnd } from '../harness/close-at-end.ts';

export interface ReceivedSpan {
  readonly service: unknown;
  readonly name: string;
  readonly kind: string | undefined;
  readonly traceId: string;
  readonly spanId: string;
  /** Empty for the first span of a trace. */
  readonly parentSpanId: string;
  readonly attributes: Readonly<Record<string, unknown>>;
  readonly links: readonly { readonly traceId: string; readonly spanId: string }[];
  readonly failed: boolean;
}

export interface OtlpReceiver {
  readonly url: string;
  readonly spans: ReceivedSpan[];
  readonly headers: Record<string, unknown>[];
}

const attributes = z
  .array(z.object({ key: z.string(), value: z.record(z.string(), z.unknown()) }))
  .default([])
  .transform((list) => Object.fromEntries(list.map(({ key, value }) => [key, Object.values(value)[0]])));
const place = z.object({ traceId: z.string(), spanId: z.string() });
const kinds = [undefined, 'INTERNAL', 'SERVER', 'CLIENT', 'PRODUCER', 'CONSUMER'];
const statusError = 2;
const traces = z.object({
  resourceSpans: z.array(
    z.object({
      resource: z.object({ attributes }),
      scopeSpans: z.array(
        z.object({
          spans: z.array(
            place.extend({
              name: z.string(),
              kind: z.int(),
              parentSpanId: z.string().default(''),
              attributes,
              links: z.array(place).default([]),
              status: z.object({ code: z.int().default(0) }).default({ code: 0 }),
            }),
          ),
        }),
      ),
    }),
  ),
});

export async function startOtlpReceiver(): Promise<OtlpReceiver> {
  const spans: ReceivedSpan[] = [];
  const headers: Record<string, unknown>[] = [];
  async function take(body: unknown): Promise<void> {
    for (const { resource, scopeSpans } of traces.parse(body).resourceSpans)
      for (const { kind, status, ...span } of scopeSpans.flatMap((scope) => scope.spans))
        spans.push({
          ...span,
          service: resource.attributes['service.name'],
          kind: kinds[kind],
          failed: status.code === statusError,
        });
  }
  const server = createServer((request, response) => {
    headers.push(request.headers);
    json(request)
      .then(take)
      .then(
        () => response.writeHead(200, { 'content-type': 'application/json' }).end('{}'),
        () => response.writeHead(400).end(),
      );
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  closeAtEnd(
    () =>
      new Promise((resolve) => {
        server.close(resolve);
        server.closeAllConnections();
      }),
  );
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, spans, headers };
}
