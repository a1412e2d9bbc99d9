/**
 * Endpoints as data: method, path, scope, schemas, handler. A program lists its endpoints in one table and mounts them;
 * authentication, query, size, media type, parsing and validation happen here, in that order, once for all.
 */
import type { Express, Request, Response } from 'express';
import { z } from 'zod';
import { AppError } from '../errors.ts';
import { parseInput } from '../input.ts';
import { parseJson, readBody, refuseUnstorable } from './body.ts';
import { refuseMethod } from './problem.ts';

export type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';

export interface Call<Caller, Body, Query> {
  readonly caller: Caller;
  readonly params: Readonly<Record<string, string>>;
  readonly body: Body;
  readonly query: Query;
  /** What absolute links start with: `https://host:port`. */
  readonly baseUrl: string;
}

export interface Answer {
  status: number;
  /** Sent as JSON. */
  body?: unknown;
  /** JSON that is text or bytes already; sent as it is. */
  json?: string | Buffer;
  headers?: Record<string, string>;
}

/** An endpoint whose body and query types are known to its handler only. */
export interface Endpoint<Caller> {
  readonly method: Method;
  readonly path: string;
  readonly scope: string;
  readonly body?: z.ZodType;
  readonly query?: z.ZodType;
  readonly handle: (call: Call<Caller, never, never>) => Promise<Answer>;
}

/** Types the handler by the schemas beside it. No `body` schema: the endpoint takes none. */
export function endpoint<
  Caller,
  BodySchema extends z.ZodType = z.ZodUndefined,
  QuerySchema extends z.ZodType = z.ZodRecord<z.ZodString, z.ZodNever>,
>(definition: {
  method: Method;
  path: string;
  scope: string;
  body?: BodySchema;
  query?: QuerySchema;
  handle: (call: Call<Caller, z.output<BodySchema>, z.output<QuerySchema>>) => Promise<Answer>;
}): Endpoint<Caller> {
  return definition;
}

/** What surrounds a handler: a transaction, idempotency. It makes the handler's caller out of the identity. */
export type Around<Identity, Caller> = (
  request: {
    endpoint: Endpoint<Caller>;
    caller: Identity;
    bytes: Buffer;
    idempotencyKey: string | undefined;
    path: string;
  },
  run: (caller: Caller) => Promise<Answer>,
) => Promise<Answer>;

export interface MountOptions<Identity, Caller> {
  /** Throws `unauthorized` or `forbidden`. */
  authenticate: (request: Request, scope: string) => Promise<Identity>;
  around: Around<Identity, Caller>;
  bodyBytesMax: number;
  /** Overrides what the request's own Host header says. */
  publicUrl?: string | undefined;
}

/** Mounts the table. A known path under another method answers 405 with `Allow`. */
export function mountEndpoints<Identity, Caller>(
  app: Express,
  endpoints: readonly Endpoint<Caller>[],
  options: MountOptions<Identity, Caller>,
): void {
  const methodsByPath = Map.groupBy(endpoints, (one) => one.path);
  for (const one of endpoints) {
    app[one.method.toLowerCase() as Lowercase<Method>](one.path, async (request: Request, response: Response) => {
      response.locals.route = one.path;
      send(response, await answer(one, request, options));
    });
  }
  for (const [path, list] of methodsByPath) {
    const allow = [...new Set(list.flatMap((one) => (one.method === 'GET' ? ['GET', 'HEAD'] : [one.method])))].join(
      ', ',
    );
    app.all(path, (request, response) => refuseMethod(request, response, path, allow));
  }
}

async function answer<Identity, Caller>(
  one: Endpoint<Caller>,
  request: Request,
  options: MountOptions<Identity, Caller>,
): Promise<Answer> {
  const identity = await options.authenticate(request, one.scope);
  refuseUnstorable(request.params, 'The path');
  refuseUnstorable(request.query, 'The query');
  const query = one.query
    ? parseInput(one.query, { ...request.query }, 'The query')
    : refuseAll(Object.keys(request.query));
  const bytes = await readBody(request, options.bodyBytesMax);
  if (bytes.length > 0) checkMediaType(request);
  const body = readJsonBody(one, bytes);
  const run = (caller: Caller) =>
    one.handle({
      caller,
      params: request.params as Record<string, string>,
      body: body as never,
      query: query as never,
      baseUrl: options.publicUrl ?? `${request.protocol}://${request.get('host') ?? 'localhost'}`,
    });
  const idempotencyKey = request.get('idempotency-key');
  return options.around({ endpoint: one, caller: identity, bytes, idempotencyKey, path: request.path }, run);
}

/** Throws `unsupported-media` unless the body is JSON in UTF-8, as it stands. */
function checkMediaType(request: Request): void {
  if (!request.is(['application/json', '+json']))
    throw new AppError('unsupported-media', 'The body must be JSON, with the header Content-Type: application/json.');
  const charset = /;\s*charset\s*=\s*"?([^\s;"]+)/i.exec(request.get('content-type') ?? '')?.[1];
  if (charset !== undefined && !/^(utf-8|utf8|us-ascii)$/i.test(charset))
    throw new AppError(
      'unsupported-media',
      'The body must be in UTF-8: leave out the charset, or write charset=utf-8.',
    );
  if (!/^(identity)?$/i.test(request.get('content-encoding') ?? ''))
    throw new AppError('unsupported-media', 'The body must be sent as it is, without a Content-Encoding.');
}

/** An endpoint without a schema takes no body; `{}` counts as none, since many clients send it with every POST. */
function readJsonBody<Caller>(one: Endpoint<Caller>, bytes: Uint8Array): unknown {
  if (one.body) return parseInput(one.body, parseJson(bytes), 'The body');
  if (bytes.length === 0) return undefined;
  if (one.method !== 'POST') throw new AppError('invalid', `${one.method} ${one.path} takes no body.`);
  parseInput(noFields, parseJson(bytes), 'The body');
  return undefined;
}

const noFields = z.strictObject({});

function refuseAll(names: readonly string[]): Record<string, never> {
  if (names.length === 0) return {};
  throw new AppError('invalid', `The query is not valid: ${names[0]} is not a known parameter.`, {
    issues: names.map((path) => ({ path, message: 'is not a known parameter' })),
  });
}

function send(response: Response, { status, body, json, headers }: Answer): void {
  // Express gives no 304 to a request that says no-cache, and fetch() says so with every If-None-Match. But whoever
  // names a tag has asked us, which is what no-cache demands.
  if (response.req.headers['if-none-match'] !== undefined) delete response.req.headers['cache-control'];
  response.status(status);
  for (const [name, value] of Object.entries(headers ?? {})) response.setHeader(name, value);
  const text = json ?? (body === undefined ? undefined : JSON.stringify(body));
  if (text === undefined) response.end();
  else response.type('application/json').send(text);
}
