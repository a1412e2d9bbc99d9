/**
 * A receiver of OTLP over HTTP for tests. It reads what comes by OpenTelemetry's own protobuf definitions, as generated
 * for an earlier release of its JavaScript packages, so that it shares no code with the exporters.
 */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { gunzipSync } from 'node:zlib';
import definitions from 'otlp-definitions/build/src/generated/root.js';
import { closeAtEnd } from '../../harness/close-at-end.ts';

type Attributes = Record<string, unknown>;

export interface ReceivedSpan {
  service: unknown;
  name: string;
  kind: string;
  traceId: string;
  spanId: string;
  parentSpanId: string;
  attributes: Attributes;
  links: { traceId: string; spanId: string }[];
  failed: boolean;
}

export interface ReceivedLine {
  service: unknown;
  severity: string;
  body: unknown;
  traceId: string;
  attributes: Attributes;
}

export interface OtlpReceiver {
  readonly url: string;
  readonly spans: ReceivedSpan[];
  readonly lines: ReceivedLine[];
  /** Each metric that came, as the definitions have it. */
  readonly metrics: Message[];
  readonly headers: Record<string, unknown>[];
}

/** A message as the definitions' `toObject` returns it. */
// The definitions have no types that this repository could read.
// oxlint-disable-next-line typescript/no-explicit-any
export type Message = Record<string, any>;

const { collector } = (definitions as unknown as Message)['opentelemetry'].proto;

function decode(type: Message, bytes: Buffer): Message {
  return type['toObject'](type['decode'](bytes), {
    longs: Number,
    enums: String,
    bytes: Buffer,
    arrays: true,
  }) as Message;
}

const hexOf = (bytes: Uint8Array | undefined) => Buffer.from(bytes ?? []).toString('hex');

function valueOf(value: Message | undefined): unknown {
  if (!value) return undefined;
  if (value['arrayValue']) return value['arrayValue'].values.map(valueOf);
  if (value['kvlistValue']) return attributesOf(value['kvlistValue'].values as Message[]);
  return value['stringValue'] ?? value['intValue'] ?? value['doubleValue'] ?? value['boolValue'];
}

function attributesOf(list: Message[]): Attributes {
  return Object.fromEntries(list.map(({ key, value }) => [String(key), valueOf(value as Message)]));
}

const serviceOf = ({ resource }: Message) => attributesOf(resource.attributes as Message[])['service.name'];

export async function startOtlpReceiver(): Promise<OtlpReceiver> {
  const receiver: OtlpReceiver & { url: string } = { url: '', spans: [], lines: [], metrics: [], headers: [] };
  const takers: Record<string, (bytes: Buffer) => void> = {
    '/v1/traces': (bytes) => {
      for (const part of decode(collector.trace.v1.ExportTraceServiceRequest, bytes)['resourceSpans'])
        for (const span of part.scopeSpans.flatMap((scope: Message) => scope['spans']) as Message[])
          receiver.spans.push({
            service: serviceOf(part as Message),
            name: span['name'],
            kind: String(span['kind']).replace('SPAN_KIND_', ''),
            traceId: hexOf(span['traceId']),
            spanId: hexOf(span['spanId']),
            parentSpanId: hexOf(span['parentSpanId']),
            attributes: attributesOf(span['attributes']),
            links: (span['links'] as Message[]).map((link) => ({
              traceId: hexOf(link['traceId']),
              spanId: hexOf(link['spanId']),
            })),
            failed: span['status']?.code === 'STATUS_CODE_ERROR',
          });
    },
    '/v1/logs': (bytes) => {
      for (const part of decode(collector.logs.v1.ExportLogsServiceRequest, bytes)['resourceLogs'])
        for (const line of part.scopeLogs.flatMap((scope: Message) => scope['logRecords']) as Message[])
          receiver.lines.push({
            service: serviceOf(part as Message),
            severity: line['severityText'],
            body: valueOf(line['body']),
            traceId: hexOf(line['traceId']),
            attributes: attributesOf(line['attributes']),
          });
    },
    '/v1/metrics': (bytes) => {
      for (const part of decode(collector.metrics.v1.ExportMetricsServiceRequest, bytes)['resourceMetrics'])
        receiver.metrics.push(...(part.scopeMetrics.flatMap((scope: Message) => scope['metrics']) as Message[]));
    },
  };
  const server = createServer((request, response) => {
    void (async () => {
      const bytes = await buffer(request);
      receiver.headers.push(request.headers);
      const plain = request.headers['content-encoding'] === 'gzip' ? gunzipSync(bytes) : bytes;
      const take = takers[request.url ?? ''];
      if (!take || request.headers['content-type'] !== 'application/x-protobuf') {
        response.writeHead(400).end();
        return;
      }
      take(plain);
      response.writeHead(200, { 'content-type': 'application/x-protobuf' }).end();
    })();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  closeAtEnd(
    () =>
      new Promise((resolve) => {
        server.close(resolve);
        server.closeAllConnections();
      }),
  );
  receiver.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return receiver;
}
