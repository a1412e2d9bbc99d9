/**
 * Endpoints as data: method, path, scope, schemas, handler. A program lists its endpoints in one table and mounts them.
 * Authentication, rate limit, query, size, media type, parsing and validation happen here, in that order, for all of
 * them.
 */
import { createHash } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import type { Express, Request, Response } from 'express';
import type { z } from 'zod';
import type { Issue } from '#contract/issue.ts';
import type { LimitName } from '#contract/limits.ts';
import { AppError } from '../errors.ts';
import { parseInput } from '../input.ts';
import { bodyChunks, type OpenBody, openBody, parseJson, refuseUnstorable } from './body.ts';
import type { CheckedBody } from './body-thread.ts';
import { checkBody, smallBodyBytes } from './check-body.ts';
import type { BodySender, LargeBodies } from './large-bodies.ts';
import { refuseMethod } from './problem.ts';

export type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';

export interface Call<Caller, Body, Query> {
  readonly caller: Caller;
  readonly params: Readonly<Record<string, string>>;
  readonly body: Body;
  readonly query: Query;
  /** The beginning of absolute links: `https://host:port`. */
  readonly baseUrl: string;
}

/** A body of any media type that is not read before the endpoint is called. */
export interface RawBody {
  readonly headers: IncomingHttpHeaders;
  /** To be read once; throws `too-large` beyond the limit of bodies, and `invalid` when the body breaks off. */
  readonly bytes: AsyncIterable<Buffer>;
  /** The limit of bodies. */
  readonly bytesMax: number;
}

export interface Answer {
  status: number;
  /** Sent as JSON. */
  body?: unknown;
  /** JSON as text; sent unchanged. */
  json?: string;
  headers?: Record<string, string>;
}

export type EndpointAnswers = Readonly<Record<number, z.ZodType | null>>;

/** The properties of every endpoint, whatever its body and its query are. */
interface EndpointFacts {
  readonly method: Method;
  readonly path: string;
  readonly scope: string;
  /** Another scope that is enough, too. */
  readonly orScope?: string;
  /** The rate limit that counts this call; without it the call is not limited. */
  readonly limit?: LimitName;
  /**
   * For a limit that depends on the body: called with the body before it is validated, undefined when it is not JSON, or
   * too large to be read before it is counted.
   */
  readonly limitOf?: (body: unknown) => LimitName;
  /** A member of the body that is null counts as left out, at any depth. Without it the schema decides. */
  readonly nullsAreLeftOut?: true;
  /** True for a read of several statements that must all see the same moment. */
  readonly snapshot?: true;
  /** What it does, in a few words for the OpenAPI document. */
  readonly summary?: string;
  /** The schemas of its successful answers, by status; null: no body. */
  readonly answers?: EndpointAnswers;
}

/** An endpoint whose body and query types only its handler knows. */
export interface Endpoint<Caller> extends EndpointFacts {
  readonly body?: z.ZodType;
  readonly check?: (body: never) => readonly Issue[];
  /** Its `body` is a RawBody. */
  readonly raw?: true;
  readonly query?: z.ZodType;
  readonly prepare?: (call: Call<Caller, never, never>) => Promise<unknown>;
  readonly handle: (call: Call<Caller, never, never>, prepared: never) => Promise<Answer>;
}

/** The query of an endpoint that takes no parameter. */
export type NoQuery = z.ZodRecord<z.ZodString, z.ZodNever>;

/** Types the handler by the schemas beside it. Without a `body` schema the endpoint takes no body. */
export function endpoint<
  Caller,
  BodySchema extends z.ZodType = z.ZodUndefined,
  QuerySchema extends z.ZodType = NoQuery,
  Prepared = undefined,
>(
  definition: EndpointFacts & {
    body?: BodySchema;
    /**
     * The faults of a body that its schema has passed. It may run in another thread, and uses nothing but the body.
     */
    check?: (body: z.output<BodySchema>) => readonly Issue[];
    query?: QuerySchema;
    /**
     * Runs before `handle` and outside of the transaction around it, for work that waits for other servers. It does not
     * run when a stored answer is repeated. Its result is the second argument of `handle`; its error is the answer.
     */
    prepare?: (call: Call<Caller, z.output<BodySchema>, z.output<QuerySchema>>) => Promise<Prepared>;
    handle: (call: Call<Caller, z.output<BodySchema>, z.output<QuerySchema>>, prepared: Prepared) => Promise<Answer>;
  },
): Endpoint<Caller> {
  return definition;
}

/**
 * An endpoint that takes raw bytes. `prepare` reads them, outside of the transaction around `handle`. Idempotency keys
 * do not apply, because the body is consumed before it could be compared.
 */
export function rawEndpoint<Caller, Prepared>(
  definition: Omit<EndpointFacts, 'limitOf' | 'nullsAreLeftOut' | 'snapshot'> & {
    prepare: (call: Call<Caller, RawBody, Record<string, never>>) => Promise<Prepared>;
    handle: (call: Call<Caller, RawBody, Record<string, never>>, prepared: Prepared) => Promise<Answer>;
  },
): Endpoint<Caller> {
  return { ...definition, raw: true };
}

/** What surrounds a handler: a transaction, idempotency. It turns the identity into the handler's caller. */
export type Around<Identity, Caller> = (
  request: {
    endpoint: Endpoint<Caller>;
    caller: Identity;
    params: Readonly<Record<string, string>>;
    /** As it was accepted; of a raw endpoint the RawBody. */
    body: unknown;
    /** The SHA-256 of the body's bytes. */
    bodyHash: () => Buffer;
    idempotencyKey: string | undefined;
    path: string;
  },
  run: (caller: Caller, prepared?: unknown) => Promise<Answer>,
  /** The endpoint's `prepare`, when it has one: its result is the second argument of `run`. */
  prepare: ((caller: Caller) => Promise<unknown>) | undefined,
) => Promise<Answer>;

/** A call that was counted: the limit's headers for every answer to it, and the refusal when the limit is reached. */
export interface CountedCall {
  readonly headers: Readonly<Record<string, string>>;
  readonly refusal?: AppError;
}

export interface MountOptions<Identity, Caller> {
  /** Any of the scopes is enough. Throws `unauthorized` or `forbidden`. */
  authenticate: (request: Request, scopes: readonly string[]) => Promise<Identity>;
  /** Counts a call of an endpoint that has a limit. */
  count?: (identity: Identity, call: { limit: LimitName; path: string }) => Promise<CountedCall>;
  around: Around<Identity, Caller>;
  /** Gives up waiting for an answer, by its own error. Without it a call waits as long as its handler does. */
  giveUp?: (answer: Promise<Answer>) => Promise<Answer>;
  bodyBytesMax: number;
  /** Where large bodies take their turns. Without it they are read and checked at once, as small ones are. */
  large?: { bodies: LargeBodies; senderOf: (identity: Identity) => BodySender };
  /** Used for links instead of the request's Host header. */
  publicUrl?: string | undefined;
}

/**
 * Mounts the table. A known path with another method answers 405 with `Allow`. Where two paths match, the first in the
 * table answers.
 */
export function mountEndpoints<Identity, Caller>(
  app: Express,
  endpoints: readonly Endpoint<Caller>[],
  options: MountOptions<Identity, Caller>,
): void {
  for (const [path, list] of Map.groupBy(endpoints, (each) => each.path)) {
    for (const mounted of list)
      app[mounted.method.toLowerCase() as Lowercase<Method>](path, async (request: Request, response: Response) => {
        response.locals.route = path;
        const answered = answer(mounted, request, response, options);
        send(response, await (options.giveUp ? options.giveUp(answered) : answered));
      });
    const allow = [...new Set(list.flatMap(({ method }) => (method === 'GET' ? ['GET', 'HEAD'] : [method])))].join(
      ', ',
    );
    // Not app.all, which compiles the path once for each of Node's methods.
    app.route(path).all((request, response) => refuseMethod(request, response, path, allow));
  }
}

async function answer<Identity, Caller>(
  called: Endpoint<Caller>,
  request: Request,
  response: Response,
  options: MountOptions<Identity, Caller>,
): Promise<Answer> {
  const { scope, orScope } = called;
  const identity = await options.authenticate(request, orScope === undefined ? [scope] : [scope, orScope]);
  const open = called.raw ? undefined : openBody(request, options.bodyBytesMax);
  const limit = open && called.limitOf ? called.limitOf(await beginningOf(open)) : called.limit;
  if (limit !== undefined && options.count) {
    const { headers, refusal } = await options.count(identity, { limit, path: called.path });
    for (const [name, value] of Object.entries(headers)) response.setHeader(name, value);
    if (refusal) throw refusal;
  }
  refuseUnstorable(request.params, 'The path');
  refuseUndecodable(request.url);
  refuseUnstorable(request.query, 'The query');
  const query = called.query
    ? parseInput(called.query, { ...request.query }, 'The query')
    : refuseParameters(Object.keys(request.query));
  const answered = ({ body, bodyHash }: ReceivedBody) =>
    handled(called, { request, identity, query, body, bodyHash }, options);
  if (!open) return answered({ body: openRawBody(request, options.bodyBytesMax), bodyHash: () => Buffer.of() });
  const isSmall = await open.isWithin(smallBodyBytes);
  return isSmall || !options.large
    ? answered(await smallBody(called, request, open))
    : withLargeBody(called, request, open, options.large.bodies, options.large.senderOf(identity), answered);
}

/** A body that was accepted, or the raw bytes that the endpoint reads itself. */
interface ReceivedBody {
  readonly body: unknown;
  readonly bodyHash: () => Buffer;
}

function handled<Identity, Caller>(
  called: Endpoint<Caller>,
  call: ReceivedBody & { request: Request; identity: Identity; query: unknown },
  options: MountOptions<Identity, Caller>,
): Promise<Answer> {
  const { request, identity, query, body, bodyHash } = call;
  const callOf = (caller: Caller) => ({
    caller,
    params: request.params as Record<string, string>,
    body: body as never,
    query: query as never,
    baseUrl: options.publicUrl ?? `${request.protocol}://${request.get('host') ?? 'localhost'}`,
  });
  const { prepare, handle } = called;
  const idempotencyKey = called.raw ? undefined : request.get('idempotency-key');
  return options.around(
    {
      endpoint: called,
      caller: identity,
      params: request.params as Record<string, string>,
      body,
      bodyHash,
      idempotencyKey,
      path: request.path,
    },
    (caller, prepared) => handle(callOf(caller), prepared as never),
    prepare && ((caller) => prepare(callOf(caller))),
  );
}

/** The body that decides which limit counts, if it is small enough to be read before it is counted. */
const countedBodyBytes = 16 * 1024;

async function beginningOf(open: OpenBody): Promise<unknown> {
  return (await open.isWithin(countedBodyBytes)) ? jsonIfAny(await open.readAll()) : undefined;
}

async function smallBody<Caller>(called: Endpoint<Caller>, request: Request, open: OpenBody): Promise<ReceivedBody> {
  const bytes = await open.readAll();
  if (bytes.length > 0) checkMediaType(request);
  return { body: checkBody(called, bytes), bodyHash: () => createHash('sha256').update(bytes).digest() };
}

/** Reads, checks and answers a large body in its sender's turn. What would refuse it is known before it is read. */
async function withLargeBody<Caller>(
  called: Endpoint<Caller>,
  request: Request,
  open: OpenBody,
  bodies: LargeBodies,
  sender: BodySender,
  answered: (received: ReceivedBody) => Promise<Answer>,
): Promise<Answer> {
  checkMediaType(request);
  const turn = await bodies.enter(sender, open.announcedBytes ?? open.bytesMax);
  try {
    const bytes = await open.readAll();
    turn.received(bytes.length);
    const { body, hash }: CheckedBody = await bodies.thread.check(called, bytes);
    return await answered({ body, bodyHash: () => hash });
  } finally {
    turn.end();
  }
}

/** A body that is read while it comes. Throws `unsupported-media` for an encoded one. */
export function openRawBody(request: Request, bytesMax: number): RawBody {
  checkContentEncoding(request);
  return { headers: request.headers, bytes: bodyChunks(request, bytesMax), bytesMax };
}

function jsonIfAny(bytes: Uint8Array): unknown {
  try {
    return parseJson(bytes);
  } catch {
    return undefined;
  }
}

/** Throws `unsupported-media` unless the body is declared as JSON in UTF-8, without a content encoding. */
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

/** Express reads what it cannot decode of a query as other text: a filter by that would find nothing. */
function refuseUndecodable(url: string): void {
  const queryAt = url.indexOf('?');
  if (queryAt < 0) return;
  for (const parameter of url.slice(queryAt + 1).split('&'))
    try {
      decodeURIComponent(parameter);
    } catch (cause) {
      const issue = { path: parameter.split('=', 1)[0] ?? '', message: 'is not percent-encoded UTF-8' };
      throw new AppError('invalid', `The query is not valid: ${issue.path} ${issue.message}.`, {
        cause,
        issues: [issue],
      });
    }
}

function refuseParameters(names: readonly string[]): Record<string, never> {
  if (names.length === 0) return {};
  throw new AppError('invalid', `The query is not valid: ${names[0]} is not a known parameter.`, {
    issues: names.map((path) => ({ path, message: 'is not a known parameter' })),
  });
}

function send(response: Response, { status, body, json, headers }: Answer): void {
  allowNotModified(response.req);
  response.status(status);
  for (const [name, value] of Object.entries(headers ?? {})) response.setHeader(name, value);
  const text = json ?? (body === undefined ? undefined : JSON.stringify(body));
  if (text === undefined) response.end();
  else if (response.req.method === 'GET' || response.req.method === 'HEAD')
    response.type('application/json').send(text);
  else {
    // Not by Express, which would add an ETag: nothing can be asked for with the tag of an answer to a command.
    response.type('application/json').setHeader('Content-Length', Buffer.byteLength(text));
    response.end(text);
  }
}

/**
 * Lets Express answer 304. Express does not answer 304 to a request with `no-cache`, and fetch() sends that with every
 * If-None-Match. But no-cache only demands that a cache asks the server, and a request that names a tag does so.
 */
export function allowNotModified({ headers }: Request): void {
  if (headers['if-none-match'] !== undefined) delete headers['cache-control'];
}
