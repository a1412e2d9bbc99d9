/**
 * Endpoints as data: method, path, scope, schemas, handler. A program lists its endpoints in one table and mounts them;
 * authentication, media type, size, parsing and validation happen here, in that order, once for all.
 */
import type { Express, Request, Response } from 'express';
import type { z } from 'zod';
import { AppError } from '../errors.ts';
import { parseInput } from '../input.ts';
import { parseJson, readBody } from './body.ts';

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
  /** JSON that is text already; sent as it is. */
  json?: string;
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
    app.all(path, (request, response) => {
      response.locals.route = path;
      response.setHeader('Allow', allow);
      throw new AppError('method-not-allowed', `${request.method} is not possible here. Possible: ${allow}.`);
    });
  }
}

async function answer<Identity, Caller>(
  one: Endpoint<Caller>,
  request: Request,
  options: MountOptions<Identity, Caller>,
): Promise<Answer> {
  const identity = await options.authenticate(request, one.scope);
  const query = one.query
    ? parseInput(one.query, { ...request.query }, 'The query')
    : refuseAll(Object.keys(request.query));
  const bytes = await readBody(request, options.bodyBytesMax);
  if (bytes.length > 0 && !request.is(['application/json', '+json']))
    throw new AppError('unsupported-media', 'The body must be JSON, with the header Content-Type: application/json.');
  if (!one.body && bytes.length > 0 && one.method !== 'POST')
    throw new AppError('invalid', `${one.method} ${one.path} takes no body.`);
  const parsed = parseJson(bytes);
  const body = one.body ? parseInput(one.body, parsed, 'The body') : undefined;
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

function refuseAll(names: readonly string[]): Record<string, never> {
  if (names.length === 0) return {};
  throw new AppError('invalid', `The query is not valid: ${names[0]} is not a known parameter.`, {
    issues: names.map((path) => ({ path, message: 'is not a known parameter' })),
  });
}

function send(response: Response, { status, body, json, headers }: Answer): void {
  response.status(status);
  for (const [name, value] of Object.entries(headers ?? {})) response.setHeader(name, value);
  const text = json ?? (body === undefined ? undefined : JSON.stringify(body));
  if (text === undefined) response.end();
  else response.type('application/json').send(text);
}
