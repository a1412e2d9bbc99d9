/**
 * The receiver in the servers that people have. Each passes the bytes of the body on as they came: a body that was parsed
 * and written again is another one, and its signature is wrong.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { AppError } from '#platform/errors.ts';
import { readBody } from '#platform/http/body.ts';
import type { NotificationReceiver } from './create-receiver.ts';

/** How long a sender may take for a body. */
const bodyWithinMs = 30_000;

/** A request of node:http; Express and its kin add the parsed body. */
type NodeRequest = IncomingMessage & { readonly body?: unknown };

/**
 * For node:http, and as a handler of Express: `app.post('/webhook', toNodeHandler(receiver))`. In Express it stands before
 * `express.json()`, or behind `express.raw({ type: 'application/json' })`.
 */
export function toNodeHandler(receiver: NotificationReceiver) {
  async function handle(request: NodeRequest, response: ServerResponse): Promise<void> {
    const { status, headers, body } = await receiver.receive({
      method: request.method ?? '',
      signature: oneHeader(request.headers['x-signature']),
      readBody: (bytesMax) => rawBody(request, bytesMax),
    });
    // Who has gone away gets no answer, and will deliver again.
    if (!response.destroyed) response.writeHead(status, headers).end(body);
  }
  return (request: NodeRequest, response: ServerResponse): void => {
    // It fails only when something else has answered already.
    handle(request, response).catch(() => response.destroy());
  };
}

/** The parts of a Fastify instance that the plugin uses. */
interface FastifyLike {
  addContentTypeParser(
    contentType: string,
    options: { parseAs: 'buffer' },
    parser: (request: unknown, body: Buffer, done: (error: Error | null, body?: unknown) => void) => void,
  ): unknown;
  removeAllContentTypeParsers(): unknown;
  post(
    path: string,
    handler: (
      request: { method: string; headers: Readonly<Record<string, string | string[] | undefined>>; body?: unknown },
      reply: FastifyReplyLike,
    ) => Promise<unknown>,
  ): unknown;
}

interface FastifyReplyLike {
  code(status: number): unknown;
  headers(headers: Record<string, string>): unknown;
  send(body: string): unknown;
}

/**
 * For Fastify: `app.register(toFastifyPlugin(receiver, '/webhook'))`. The parser that keeps the bytes is the plugin's own;
 * other routes keep theirs. Fastify's `bodyLimit` bounds the body.
 */
export function toFastifyPlugin(receiver: NotificationReceiver, path: string) {
  return async (instance: FastifyLike): Promise<void> => {
    instance.removeAllContentTypeParsers();
    instance.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, body, done) => done(null, body));
    instance.post(path, async (request, reply) => {
      const answer = await receiver.receive({
        method: request.method,
        signature: oneHeader(request.headers['x-signature']),
        readBody: async (bytesMax) => within(request.body ?? new Uint8Array(), bytesMax),
      });
      reply.code(answer.status);
      reply.headers({ ...answer.headers });
      return reply.send(answer.body);
    });
  };
}

/** For Hono, and what else has the web's Request at `raw`: `app.post('/webhook', toHonoHandler(receiver))`. */
export function toHonoHandler(receiver: NotificationReceiver) {
  return (context: { readonly req: { readonly raw: Request } }): Promise<Response> => receiver.handle(context.req.raw);
}

/** The parts of an event of AWS Lambda that count (function URLs and HTTP APIs, payload format 2.0). */
export interface LambdaEvent {
  readonly headers: Readonly<Record<string, string | undefined>>;
  readonly body?: string;
  readonly isBase64Encoded: boolean;
  readonly requestContext: { readonly http: { readonly method: string } };
}

/** For the URL of an AWS Lambda function: `export const handler = toLambdaHandler(receiver)`. */
export function toLambdaHandler(receiver: NotificationReceiver) {
  return async ({ headers, body = '', isBase64Encoded, requestContext }: LambdaEvent) => {
    const answer = await receiver.receive({
      method: requestContext.http.method,
      signature: headers['x-signature'],
      readBody: async (bytesMax) => within(Buffer.from(body, isBase64Encoded ? 'base64' : 'utf8'), bytesMax),
    });
    return { statusCode: answer.status, headers: answer.headers, body: answer.body };
  };
}

async function rawBody(request: NodeRequest, bytesMax: number): Promise<Uint8Array | undefined> {
  if (request.body !== undefined) return within(request.body, bytesMax);
  try {
    return await readBody(request, bytesMax, { withinMs: bodyWithinMs });
  } catch (error) {
    // Too long, too slow or broken off.
    if (error instanceof AppError) return undefined;
    throw error;
  }
}

/** Throws for a body that a parser has taken: its bytes are lost. */
function within(body: unknown, bytesMax: number): Uint8Array | undefined {
  if (!(body instanceof Uint8Array))
    throw new Error('The bytes of the body are gone: the receiver must come before a parser such as express.json().');
  return body.byteLength > bytesMax ? undefined : body;
}

function oneHeader(value: string | readonly string[] | undefined): string | undefined {
  return typeof value === 'string' ? value : undefined;
}
