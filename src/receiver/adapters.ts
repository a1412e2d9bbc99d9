/**
 * The receiver in the servers that people have. Each passes the bytes of the body on as they came: a body that was parsed
 * and written again is another one, and its signature is wrong.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { types } from 'node:util';
import { AppError } from '#platform/errors.ts';
import { readBody } from '#platform/http/body.ts';
import { kindOf } from './check-options.ts';
import { type NotificationReceiver, toResponse } from './create-receiver.ts';

/** How long a sender may take for a body. */
const bodyWithinMs = 30_000;

/** A request of node:http; parsers of Express and its kin add what they have read. */
type NodeRequest = IncomingMessage & { readonly body?: unknown; readonly rawBody?: unknown };

/**
 * For node:http; as a handler of Express, `app.post('/webhook', toNodeHandler(receiver))`; and in Koa,
 * `await toNodeHandler(receiver)(ctx.req, ctx.res)`. It stands before parsers, or behind one that keeps the bytes:
 * `express.raw()`, or what sets `req.rawBody`. The promise ends with the answer, and never rejects.
 */
export function toNodeHandler(receiver: NotificationReceiver) {
  return async (request: NodeRequest, response: ServerResponse): Promise<void> => {
    const { status, headers, body } = await receiver.receive({
      method: request.method ?? '',
      signature: oneHeader(request.headers['x-signature']),
      readBody: (bytesMax) => nodeBody(request, bytesMax),
    });
    try {
      // Who has gone away gets no answer, and will deliver again.
      if (!response.destroyed) response.writeHead(status, headers).end(body);
    } catch {
      // Something else has answered already.
      response.destroy();
    }
  };
}

/** Throws when the bytes are gone. */
async function nodeBody(request: NodeRequest, bytesMax: number): Promise<Uint8Array | undefined> {
  const kept = keptBytes(request.rawBody) ?? keptBytes(request.body);
  if (kept) return within(kept, bytesMax);
  // Whether `body` is set says nothing: a parser for other types sets it to {} and leaves the stream unread.
  if (request.readableDidRead || request.readableEncoding !== null) throw bytesAreGone(request.body);
  try {
    return await readBody(request, bytesMax, { withinMs: bodyWithinMs });
  } catch (error) {
    // Too long, too slow or broken off.
    if (error instanceof AppError) return undefined;
    throw error;
  }
}

/** What a parser has kept as bytes or as their text; undefined for anything else, and while it is still empty. */
function keptBytes(kept: unknown): Uint8Array | undefined {
  const bytes = typeof kept === 'string' ? Buffer.from(kept) : kept;
  return types.isUint8Array(bytes) && bytes.byteLength > 0 ? bytes : undefined;
}

function bytesAreGone(parsed: unknown): Error {
  const left = parsed === undefined ? '' : ` and has left ${kindOf(parsed)} in req.body`;
  return new Error(
    `The bytes of the body are gone: a parser before the receiver, such as express.json() or koa-bodyparser, has read them${left}. ` +
      'Put the receiver before the parser, or let the parser keep them: ' +
      'express.json({ verify: (req, _res, bytes) => { req.rawBody = bytes; } }).',
  );
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
        readBody: async (bytesMax) => {
          const { body = new Uint8Array() } = request;
          if (!types.isUint8Array(body))
            throw new Error(
              `A hook of Fastify has replaced the bytes of the body by ${kindOf(body)}: leave them as they are.`,
            );
          return within(body, bytesMax);
        },
      });
      reply.code(answer.status);
      reply.headers({ ...answer.headers });
      return reply.send(answer.body);
    });
  };
}

/** The parts of Hono's context that count. */
interface HonoContext {
  readonly req: { readonly raw: Request; arrayBuffer(): Promise<ArrayBuffer> };
}

/** For Hono: `app.post('/webhook', toHonoHandler(receiver))`. */
export function toHonoHandler(receiver: NotificationReceiver) {
  return async ({ req }: HonoContext): Promise<Response> => {
    if (!req.raw.bodyUsed) return receiver.handle(req.raw);
    const answer = await receiver.receive({
      method: req.raw.method,
      signature: req.raw.headers.get('x-signature') ?? undefined,
      readBody: async (bytesMax) => within(await honoBody(req), bytesMax),
    });
    return toResponse(answer);
  };
}

/** A body that a middleware has read: Hono keeps what was read by its own methods. */
async function honoBody(req: HonoContext['req']): Promise<Uint8Array> {
  try {
    return new Uint8Array(await req.arrayBuffer());
  } catch (cause) {
    throw new Error(
      'The bytes of the body are gone: a middleware has read c.req.raw. Let it call c.req.text() or c.req.json(), which keep them.',
      { cause },
    );
  }
}

function within(body: Uint8Array, bytesMax: number): Uint8Array | undefined {
  return body.byteLength > bytesMax ? undefined : body;
}

function oneHeader(value: string | readonly string[] | undefined): string | undefined {
  return typeof value === 'string' ? value : undefined;
}
