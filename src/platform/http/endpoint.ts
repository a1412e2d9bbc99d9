/**
 * Endpoints as data: method, path, scope, schemas, handler. A program lists its endpoints in one table and mounts them;
 * authentication, rate limit, query, size, media type, parsing and validation happen here, in that order, once for all.
 */
import type { IncomingHttpHeaders } from 'node:http';
import type { Express, Request, Response } from 'express';
import { z } from 'zod';
import type { LimitName } from '#contract/limits.ts';
import { AppError } from '../errors.ts';
import { parseInput } from '../input.ts';
import { bodyChunks, parseJson, readBody, refuseUnstorable } from './body.ts';
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

/** A body that is not read before the endpoint is called, of any media type. */
export interface RawBody {
  readonly headers: IncomingHttpHeaders;
  /** To be read once; throws `too-large` beyond the limit of bodies, and `invalid` when the body breaks off. */
  readonly bytes: AsyncIterable<Buffer>;
}

export interface Answer {
  status: number;
  /** Sent as JSON. */
  body?: unknown;
  /** JSON that is text or bytes already; sent as it is. */
  json?: string | Buffer;
  headers?: Record<string, string>;
}

export type EndpointAnswers = Readonly<Record<number, z.ZodType | null>>;

/** What every endpoint says of itself, whatever its body and its query are. */
interface EndpointFacts {
  readonly method: Method;
  readonly path: string;
  readonly scope: string;
  /** The rate limit that counts this call; none: it is not limited. */
  readonly limit?: LimitName;
  /** Where the body decides which limit it is: asked with the body before it is validated, undefined when it is no JSON. */
  readonly limitOf?: (body: unknown) => LimitName;
  /** A read of several statements that must show one moment. */
  readonly snapshot?: true;
  /** What it does, in a few words for the OpenAPI document. */
  readonly summary?: string;
  /** What it answers when it succeeds, by status; null: no body. */
  readonly answers?: EndpointAnswers;
}

/** An endpoint whose body and query types are known to its handler only. */
export interface Endpoint<Caller> extends EndpointFacts {
  readonly body?: z.ZodType;
  /** Its `body` is a RawBody. */
  readonly raw?: true;
  readonly query?: z.ZodType;
  readonly prepare?: (call: Call<Caller, never, never>) => Promise<unknown>;
  readonly handle: (call: Call<Caller, never, never>, prepared: never) => Promise<Answer>;
}

/** The query of an endpoint that takes no parameter. */
export type NoQuery = z.ZodRecord<z.ZodString, z.ZodNever>;

/** Types the handler by the schemas beside it. No `body` schema: the endpoint takes none. */
export function endpoint<
  Caller,
  BodySchema extends z.ZodType = z.ZodUndefined,
  QuerySchema extends z.ZodType = NoQuery,
  Prepared = undefined,
>(
  definition: EndpointFacts & {
    body?: BodySchema;
    query?: QuerySchema;
    /**
     * Runs before `handle` and outside of the transaction around it, for what waits on other servers. Not run when a
     * kept answer is given again. What it gives is the second argument of `handle`; what it throws is the answer.
     */
    prepare?: (call: Call<Caller, z.output<BodySchema>, z.output<QuerySchema>>) => Promise<Prepared>;
    handle: (call: Call<Caller, z.output<BodySchema>, z.output<QuerySchema>>, prepared: Prepared) => Promise<Answer>;
  },
): Endpoint<Caller> {
  return definition;
}

/**
 * An endpoint that takes raw bytes. `prepare` reads them, outside of the transaction around `handle`; idempotency keys
 * do not apply, as the body is gone before it could be compared.
 */
export function rawEndpoint<Caller, Prepared>(
  definition: Omit<EndpointFacts, 'limitOf' | 'snapshot'> & {
    prepare: (call: Call<Caller, RawBody, Record<string, never>>) => Promise<Prepared>;
    handle: (call: Call<Caller, RawBody, Record<string, never>>, prepared: Prepared) => Promise<Answer>;
  },
): Endpoint<Caller> {
  return { ...definition, raw: true };
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
  run: (caller: Caller, prepared?: unknown) => Promise<Answer>,
  /** The endpoint's `prepare`, when it has one: gives what `run` takes beside the caller. */
  prepare: ((caller: Caller) => Promise<unknown>) | undefined,
) => Promise<Answer>;

/** A call that was counted: what every answer to it says of the limit, and the refusal where the limit is reached. */
export interface CountedCall {
  readonly headers: Readonly<Record<string, string>>;
  readonly refusal?: AppError;
}

export interface MountOptions<Identity, Caller> {
  /** Throws `unauthorized` or `forbidden`. */
  authenticate: (request: Request, scope: string) => Promise<Identity>;
  /** Counts a call of an endpoint that has a limit. */
  count?: (identity: Identity, call: { limit: LimitName; path: string }) => Promise<CountedCall>;
  around: Around<Identity, Caller>;
  bodyBytesMax: number;
  /** Overrides what the request's own Host header says. */
  publicUrl?: string | undefined;
}

/**
 * Mounts the table. A known path under another method answers 405 with `Allow`. Where two paths match, the one that
 * stands first in the table answers.
 */
export function mountEndpoints<Identity, Caller>(
  app: Express,
  endpoints: readonly Endpoint<Caller>[],
  options: MountOptions<Identity, Caller>,
): void {
  for (const [path, list] of Map.groupBy(endpoints, (one) => one.path)) {
    for (const one of list)
      app[one.method.toLowerCase() as Lowercase<Method>](path, async (request: Request, response: Response) => {
        response.locals.route = path;
        send(response, await answer(one, request, response, options));
      });
    const allow = [...new Set(list.flatMap((one) => (one.method === 'GET' ? ['GET', 'HEAD'] : [one.method])))].join(
      ', ',
    );
    // Not app.all: that compiles the path once for each of Node's methods.
    app.route(path).all((request, response) => refuseMethod(request, response, path, allow));
  }
}

async function answer<Identity, Caller>(
  one: Endpoint<Caller>,
  request: Request,
  response: Response,
  options: MountOptions<Identity, Caller>,
): Promise<Answer> {
  const identity = await options.authenticate(request, one.scope);
  const early = one.limitOf ? await readBody(request, options.bodyBytesMax) : undefined;
  const limit = early && one.limitOf ? one.limitOf(jsonIfAny(early)) : one.limit;
  if (limit !== undefined && options.count) {
    const { headers, refusal } = await options.count(identity, { limit, path: one.path });
    for (const [name, value] of Object.entries(headers)) response.setHeader(name, value);
    if (refusal) throw refusal;
  }
  refuseUnstorable(request.params, 'The path');
  refuseUnstorable(request.query, 'The query');
  const query = one.query
    ? parseInput(one.query, { ...request.query }, 'The query')
    : refuseAll(Object.keys(request.query));
  const { bytes, body } = one.raw
    ? rawBody(request, options.bodyBytesMax)
    : await jsonBody(one, request, options, early);
  const callOf = (caller: Caller) => ({
    caller,
    params: request.params as Record<string, string>,
    body: body as never,
    query: query as never,
    baseUrl: options.publicUrl ?? `${request.protocol}://${request.get('host') ?? 'localhost'}`,
  });
  const { prepare, handle } = one;
  const idempotencyKey = one.raw ? undefined : request.get('idempotency-key');
  return options.around(
    { endpoint: one, caller: identity, bytes, idempotencyKey, path: request.path },
    (caller, prepared) => handle(callOf(caller), prepared as never),
    prepare && ((caller) => prepare(callOf(caller))),
  );
}

async function jsonBody<Identity, Caller>(
  one: Endpoint<Caller>,
  request: Request,
  options: MountOptions<Identity, Caller>,
  early: Buffer | undefined,
): Promise<{ bytes: Buffer; body: unknown }> {
  const bytes = early ?? (await readBody(request, options.bodyBytesMax));
  if (bytes.length > 0) checkMediaType(request);
  return { bytes, body: readJsonBody(one, bytes) };
}

function rawBody(request: Request, bytesMax: number): { bytes: Buffer; body: RawBody } {
  checkContentEncoding(request);
  return { bytes: Buffer.of(), body: { headers: request.headers, bytes: bodyChunks(request, bytesMax) } };
}

function jsonIfAny(bytes: Uint8Array): unknown {
  try {
    return parseJson(bytes);
  } catch {
    return undefined;
  }
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
  checkContentEncoding(request);
}

function checkContentEncoding(request: Request): void {
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
  heedTag(response.req);
  response.status(status);
  for (const [name, value] of Object.entries(headers ?? {})) response.setHeader(name, value);
  const text = json ?? (body === undefined ? undefined : JSON.stringify(body));
  if (text === undefined) response.end();
  else response.type('application/json').send(text);
}

/**
 * Lets Express answer with 304. It gives none to a request that says no-cache, and fetch() says so with every
 * If-None-Match; but whoever names a tag has asked us, which is what no-cache demands.
 */
export function heedTag({ headers }: Request): void {
  if (headers['if-none-match'] !== undefined) delete headers['cache-control'];
}
