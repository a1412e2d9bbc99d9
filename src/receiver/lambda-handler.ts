/**
 * The receiver as a function of AWS Lambda, behind whatever turns a request into an event: a function URL or an HTTP API of
 * API Gateway (payload format 2.0), a REST API (1.0), or an Application Load Balancer, with or without multi-value headers.
 */
import { isObject, kindOf } from './check-options.ts';
import type { NotificationReceiver } from './create-receiver.ts';

/** The parts of an event that count. */
export interface LambdaEvent {
  /** Names in any case: a REST API passes them as they were sent. */
  readonly headers?: Readonly<Record<string, string | undefined>> | null | undefined;
  /** A load balancer with multi-value headers has these alone. */
  readonly multiValueHeaders?: Readonly<Record<string, readonly string[] | undefined>> | null | undefined;
  readonly body?: string | null | undefined;
  readonly isBase64Encoded?: boolean | undefined;
  /** Of a REST API and of a load balancer. The others have the method in `requestContext.http`. */
  readonly httpMethod?: string | undefined;
  readonly requestContext?: unknown;
}

export interface LambdaAnswer {
  readonly statusCode: number;
  readonly headers: Readonly<Record<string, string>>;
  /** A load balancer with multi-value headers wants them so. */
  readonly multiValueHeaders?: Readonly<Record<string, readonly string[]>>;
  readonly body: string;
  readonly isBase64Encoded: false;
}

/**
 * `export const handler = toLambdaHandler(receiver)`. Rejects with a TypeError that names the form of an event which is no
 * HTTP request: an answer would tell a queue that its message was handled.
 */
export function toLambdaHandler(receiver: NotificationReceiver) {
  return async (event: LambdaEvent): Promise<LambdaAnswer> => {
    const method = methodOf(event);
    const { status, headers, body } = await receiver.receive({
      method,
      signature: headerOf(event, 'x-signature'),
      readBody: async (bytesMax) => {
        const bytes = Buffer.from(event.body ?? '', event.isBase64Encoded ? 'base64' : 'utf8');
        return bytes.byteLength > bytesMax ? undefined : bytes;
      },
    });
    const multiValueHeaders = Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, [value]]));
    return { statusCode: status, headers, ...(!event.headers && { multiValueHeaders }), body, isBase64Encoded: false };
  };
}

function methodOf(event: unknown): string {
  if (isObject(event)) {
    const { httpMethod, requestContext } = event;
    const http = isObject(requestContext) ? requestContext['http'] : undefined;
    const method = isObject(http) ? http['method'] : httpMethod;
    if (typeof method === 'string') return method;
  }
  throw new TypeError(
    `toLambdaHandler takes the requests of a function URL, of API Gateway (REST or HTTP) and of an Application Load ` +
      `Balancer. This event is ${formOf(event)}.`,
  );
}

/** Several headers of one name are joined, as node:http does: two signatures are none. */
function headerOf({ headers, multiValueHeaders }: LambdaEvent, name: string): string | undefined {
  for (const given of [multiValueHeaders, headers]) {
    const values = Object.entries(given ?? {})
      .filter(([key]) => key.toLowerCase() === name)
      .flatMap(([, value]) => value ?? []);
    if (values.length > 0) return values.join(', ');
  }
  return undefined;
}

/** Who sent an event, or the names of its members: their values may be secret. */
function formOf(event: unknown): string {
  if (!isObject(event)) return kindOf(event);
  const [record] = Array.isArray(event['Records']) ? (event['Records'] as unknown[]) : [];
  const source = isObject(record) ? (record['eventSource'] ?? record['EventSource']) : event['source'];
  if (typeof source === 'string') return `one of ${source}`;
  return `an object with the members ${Object.keys(event).slice(0, 20).join(', ') || '(none)'}`;
}
