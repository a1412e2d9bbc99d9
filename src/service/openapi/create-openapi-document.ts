/**
 * OpenAPI 3.1 documents made from tables of endpoints. Requests and answers are described by the schemas that check
 * them; this module describes what all endpoints have in common. The same table always makes the same text. Source:
 * decisions, "Conventions".
 */
import { z } from 'zod';
import type { LimitName } from '#contract/limits.ts';
import { problem, problemMediaType } from '#contract/problem.ts';
import type { Endpoint } from '#platform/http/endpoint.ts';
import type { Profile } from '../profile/profile.ts';
import { requestExamples } from './examples.ts';
import { operationOf } from './operations.ts';
import { createSchemaSet, type JsonObject, type SchemaSet } from './schema-set.ts';

export type DescribedEndpoint = Omit<Endpoint<never>, 'prepare' | 'handle'>;

export interface DocumentOptions {
  title: string;
  description: string;
  tags: Readonly<Record<string, string>>;
  /** What the bearer token is. */
  token: string;
  endpoints: readonly DescribedEndpoint[];
  /** The calls that the service makes. */
  webhooks?: (schemas: SchemaSet) => JsonObject;
  /** The errors of these endpoints; undefined: problem details. */
  errors?: Profile['errors'];
  profile: Profile;
  /** The base of the paths. */
  serverUrl: string;
}

export function createOpenApiDocument(options: DocumentOptions): JsonObject {
  const schemas = createSchemaSet();
  const paths: Record<string, JsonObject> = {};
  for (const endpoint of options.endpoints) {
    const { listedAs = endpoint.path } = operationOf(endpoint.method, endpoint.path);
    const item = (paths[templateOf(listedAs)] ??= {});
    item[endpoint.method.toLowerCase()] = operation(endpoint, schemas, options);
  }
  const responses = problemResponses(schemas, options);
  const made = schemas.resolve({
    openapi: '3.1.0',
    info: { title: options.title, version: '1.0.0', description: options.description, contact, license },
    servers: [{ url: options.serverUrl }],
    tags: Object.entries(options.tags).map(([name, description]) => ({ name, description })),
    paths,
    ...(options.webhooks && { webhooks: options.webhooks(schemas) }),
    components: {
      securitySchemes: { bearer: { type: 'http', scheme: 'bearer', description: options.token } },
      parameters,
      headers,
      responses,
    },
  });
  return withoutUnused(made.document, made.schemas);
}

/** Whom to ask, and the licence of the package (its SPDX identifier). */
const contact = { name: 'The operator of this service' };
const license = { name: 'Apache License 2.0', identifier: 'Apache-2.0' };

function sendsBody({ method }: DescribedEndpoint): boolean {
  return method !== 'GET' && method !== 'DELETE';
}

/** `/api/jobs/:id` as `/api/jobs/{id}`. */
function templateOf(path: string): string {
  return path.replace(/:(\w+)/g, '{$1}');
}

function operation(endpoint: DescribedEndpoint, schemas: SchemaSet, options: DocumentOptions): JsonObject {
  const { id, tag, description } = operationOf(endpoint.method, endpoint.path);
  const takesBody = sendsBody(endpoint) && (endpoint.body !== undefined || endpoint.raw === true);
  return {
    operationId: id,
    tags: [tag],
    summary: endpoint.summary ?? id,
    description: [description, scopeText(endpoint), limitText(endpoint.limit, options.profile)]
      .filter(Boolean)
      .join('\n\n'),
    // The description names the scope: OpenAPI 3.1 allows it here, but many tools for 3.0 do not.
    security: [{ bearer: [] }],
    parameters: [
      ...pathParameters(endpoint.path),
      ...queryParameters(endpoint, schemas),
      ...headerParameters(endpoint),
    ],
    ...(takesBody && { requestBody: requestBody(endpoint, id, schemas) }),
    responses: { ...successes(endpoint, schemas, options.profile), ...problems(endpoint, options) },
  };
}

function scopeText({ scope, orScope }: DescribedEndpoint): string {
  if (scope === 'operator') return "Needs the operator's token.";
  return `Needs an API key with the scope \`${scope}\`${orScope === undefined ? '' : ` or \`${orScope}\``}.`;
}

function limitText(name: LimitName | undefined, { limits }: Profile): string {
  if (name === undefined) return '';
  const { burst, sustained } = limits[name];
  const words: Readonly<Record<number, string>> = { 60: 'a minute', 3_600: 'an hour', 86_400: 'a day' };
  const text = [burst, sustained].map(({ requests, seconds }) => `${requests} requests ${words[seconds]}`);
  const bucket = name === 'feeds' ? 'each feed' : `all calls of the limit \`${name}\` together`;
  return `Rate limit for ${bucket}: ${text.join(' and ')} for each API key.`;
}

const uuidSchema = { type: 'string', format: 'uuid' };

/** The schemas of path parameters; every other parameter is text. */
const pathValues: Readonly<Record<string, JsonObject>> = {
  id: uuidSchema,
  uuid: uuidSchema,
  keyId: uuidSchema,
  question: uuidSchema,
  file: uuidSchema,
  number: { type: 'integer', minimum: 1 },
};

const pathDescriptions: Readonly<Record<string, string>> = {
  external_id: 'The identifier that the client chose, percent-encoded.',
  number: 'The number of the round, from 1.',
  supplier: "The supplier's `external_id`.",
};

function pathParameters(path: string): JsonObject[] {
  return [...path.matchAll(/:(\w+)/g)].map(([, name = '']) => ({
    name,
    in: 'path',
    required: true,
    ...(pathDescriptions[name] && { description: pathDescriptions[name] }),
    schema: pathValues[name] ?? { type: 'string', minLength: 1 },
  }));
}

/**
 * A query is text, from which schemas make numbers and lists. A parameter is described by the schema's output, unless
 * JSON Schema cannot express that output; whether it is required is decided by the input.
 */
function queryParameters({ query }: DescribedEndpoint, schemas: SchemaSet): JsonObject[] {
  return Object.entries(query ? membersOf(query) : {}).map(([name, schema]) => {
    const input = schemas.input(schema);
    const output = schemas.output(schema);
    const { description, ...described } = 'type' in output || '$ref' in output ? output : input;
    return {
      name,
      in: 'query',
      ...(description !== undefined && { description }),
      ...(schema._zod.optin === undefined && { required: true }),
      // A list in one text is separated by commas; otherwise the parameter is repeated.
      ...(described['type'] === 'array' && { style: 'form', explode: input['type'] !== 'string' }),
      ...(described['type'] === 'object' && { style: 'deepObject', explode: true }),
      // The default is no filter, so that pages for trying the API do not invent one.
      schema: described['type'] === 'object' ? { ...described, default: {} } : described,
    };
  });
}

/** The members of an object's schema, also of a schema with a preparing step. */
function membersOf(schema: z.core.$ZodType): Readonly<Record<string, z.ZodType>> {
  if (schema instanceof z.ZodPipe) return membersOf(schema.out);
  if (schema instanceof z.ZodObject) return schema.shape;
  throw new Error('The schema of a query must be an object.');
}

const parameters = {
  'Idempotency-Key': {
    name: 'Idempotency-Key',
    in: 'header',
    description:
      'Makes a repetition safe: for 24 hours the same key with the same body gets the first answer again, and with another body a 409. A secret that is shown once is not repeated.',
    schema: { type: 'string', minLength: 1, maxLength: 255, pattern: '^[\\x21-\\x7e]+$' },
  },
  'If-None-Match': {
    name: 'If-None-Match',
    in: 'header',
    description: 'The `ETag` of an earlier answer: while nothing has changed the answer is 304, without a body.',
    schema: { type: 'string' },
  },
  'X-File-Name': {
    name: 'X-File-Name',
    in: 'header',
    required: true,
    description: 'The name of the file as percent-encoded UTF-8: `%` itself, and what is not visible ASCII, as `%XX`.',
    schema: { type: 'string', minLength: 1 },
  },
};

function headerParameters({ method, path, raw }: DescribedEndpoint): JsonObject[] {
  const names: (keyof typeof parameters)[] = [];
  if (method === 'POST' && path.startsWith('/api/')) names.push('Idempotency-Key');
  if (method === 'GET') names.push('If-None-Match');
  if (raw) names.push('X-File-Name');
  return names.map((name) => ({ $ref: `#/components/parameters/${name}` }));
}

function requestBody({ body, raw }: DescribedEndpoint, operationId: string, schemas: SchemaSet): JsonObject {
  if (raw || body === undefined)
    return {
      required: true,
      description: 'The bytes of the file, with its media type as Content-Type.',
      content: { '*/*': { schema: { type: 'string', contentMediaType: 'application/octet-stream' } } },
    };
  const examples = requestExamples[operationId];
  return {
    required: body._zod.optin === undefined,
    content: {
      'application/json': {
        schema: schemas.input(body),
        ...(examples && { examples }),
      },
    },
  };
}

const headers = {
  'X-Request-Id': {
    description: "Identifies the request in the service's logs: the one that was sent, or a new one.",
    required: true,
    schema: { type: 'string' },
  },
  ETag: {
    description: 'Changes when the answer does; see `If-None-Match`.',
    required: true,
    schema: { type: 'string' },
  },
  Link: {
    description: 'On a page that another one follows: `<URL of the next page>; rel="next"`.',
    schema: { type: 'string' },
  },
  Location: {
    description: 'Where the new resource is, or where the outcome of the call is read.',
    required: true,
    schema: { type: 'string' },
  },
  'Feed-Order': {
    description: '`commit`: records appear in the order of `modified`, so following `next` misses none.',
    required: true,
    schema: { type: 'string', const: 'commit' },
  },
  RateLimit: {
    description: 'What is left of each limit (`r`), and in how many seconds a request of it is free again (`t`).',
    schema: { type: 'string', examples: ['"jobs_read.burst";r=29;t=60, "jobs_read.sustained";r=599;t=3600'] },
  },
  'RateLimit-Policy': {
    description: 'The limits that count for this call: requests (`q`) in a window of seconds (`w`).',
    schema: { type: 'string', examples: ['"jobs_read.burst";q=30;w=60, "jobs_read.sustained";q=600;w=3600'] },
  },
  'RateLimit-Limit': {
    description: 'How many requests the limit allows that is reached first.',
    schema: { type: 'integer' },
  },
  'RateLimit-Remaining': { description: 'How many of them are left.', schema: { type: 'integer' } },
  'RateLimit-Reset': {
    description: 'In how many seconds a request of it is free again.',
    schema: { type: 'integer' },
  },
  'Retry-After': {
    description: 'Seconds to wait before the request is sent again.',
    required: true,
    schema: { type: 'integer', minimum: 1 },
  },
  'WWW-Authenticate': { description: '`Bearer`.', required: true, schema: { type: 'string' } },
};

type HeaderName = keyof typeof headers;

function headersOf(...names: HeaderName[]): JsonObject {
  return Object.fromEntries(names.map((name) => [name, { $ref: `#/components/headers/${name}` }]));
}

const done: Readonly<Record<number, string>> = {
  200: 'Done.',
  201: 'Made.',
  202: 'Taken; the work goes on after the answer.',
  204: 'Done; there is no body.',
};

function successes(endpoint: DescribedEndpoint, schemas: SchemaSet, profile: Profile): JsonObject {
  const answers = Object.entries(endpoint.answers ?? {}).map(([status, schema]) => {
    const names: HeaderName[] = ['X-Request-Id'];
    if (endpoint.method === 'GET') names.push('ETag');
    if (['201', '202'].includes(status) && endpoint.path.startsWith('/api/')) names.push('Location');
    if (schema && hasNextPage(schema)) names.push('Link');
    if (endpoint.path.startsWith('/api/feeds/') && profile.feeds.declaresOrder) names.push('Feed-Order');
    if (endpoint.limit !== undefined) names.push(...profile.headerNames);
    const response = {
      description: done[Number(status)] ?? 'Done.',
      headers: headersOf(...names),
      ...(schema && { content: { 'application/json': { schema: schemas.output(schema) } } }),
    };
    return [status, response] as const;
  });
  if (endpoint.method === 'GET')
    answers.push(['304', { description: 'Unchanged; there is no body.', headers: headersOf('X-Request-Id', 'ETag') }]);
  return Object.fromEntries(answers);
}

/** Whether the answer is a page that another one may follow. */
function hasNextPage(schema: z.ZodType): boolean {
  return schema instanceof z.ZodObject && 'next' in schema.shape;
}

const refusals = {
  400: ['BadRequest', 'The body, the query or a header is not valid; `errors` names each place.'],
  401: ['Unauthorized', 'There is no key, or it is unknown, expired or revoked.', 'WWW-Authenticate'],
  403: ['Forbidden', 'The key lacks the scope.'],
  404: ['NotFound', "There is no such thing, or it is another organisation's."],
  409: ['Conflict', 'The state does not allow it, or the Idempotency-Key was used before with another body.'],
  413: ['ContentTooLarge', 'The body is larger than the service takes.'],
  415: ['UnsupportedMediaType', 'The body is not JSON in UTF-8, or it is encoded.'],
  429: [
    'TooManyRequests',
    'A limit of calls or of bytes is reached, too many calls wait, or the address has sent too many wrong tokens.',
    'Retry-After',
  ],
  500: ['InternalError', 'Something went wrong in the service; the request id identifies it.'],
  507: ['InsufficientStorage', 'The organisation has no room left for files; `left_bytes` says how much there is.'],
  503: ['Unavailable', 'The service is stopping, or its database is away.', 'Retry-After'],
} as const satisfies Record<number, readonly [name: string, description: string, ...headers: HeaderName[]]>;

function problemResponses(schemas: SchemaSet, { errors, profile }: DocumentOptions): JsonObject {
  const content = errors
    ? { [errors.mediaType]: { schema: schemas.output(errors.schema) } }
    : { [problemMediaType]: { schema: schemas.output(problem) } };
  return Object.fromEntries(
    Object.entries(refusals).map(([status, [name, description, ...names]]) => {
      const ofLimits = status === '429' ? profile.headerNames : [];
      const response = { description, headers: headersOf('X-Request-Id', ...names, ...ofLimits), content };
      return [name, errors && status === '403' ? withoutBody : response];
    }),
  );
}

/** Of another form of errors: it answers a wrong key as it answers one that lacks the scope. */
const withoutBody = {
  description: 'The key is unknown, expired or revoked, or lacks the scope. There is no body.',
  headers: headersOf('X-Request-Id'),
};

function problems(endpoint: DescribedEndpoint, { errors }: DocumentOptions): JsonObject {
  const { method, path, scope } = endpoint;
  const sends = sendsBody(endpoint);
  const applies: Record<keyof typeof refusals, boolean> = {
    400: true,
    401: errors === undefined,
    403: scope !== 'operator',
    404: path.includes(':'),
    409: method === 'POST' || (method !== 'GET' && path.startsWith('/desk/')),
    413: sends,
    415: sends,
    429: true,
    500: true,
    503: true,
    507: endpoint.raw === true,
  };
  return Object.fromEntries(
    Object.entries(refusals)
      .filter(([status]) => applies[Number(status) as keyof typeof refusals])
      .map(([status, [name]]) => [status, { $ref: `#/components/responses/${name}` }]),
  );
}

/** Leaves out the shared parts that nothing refers to. */
function withoutUnused(document: JsonObject, schemas: JsonObject): JsonObject {
  const components = { ...(document['components'] as Record<string, JsonObject>), schemas };
  const used = new Set<string>();
  const visit = (value: unknown): void => {
    if (typeof value !== 'object' || value === null) return;
    for (const [key, inner] of Object.entries(value)) {
      if (key !== '$ref' || typeof inner !== 'string' || used.has(inner)) visit(inner);
      else {
        used.add(inner);
        const [kind = '', name = ''] = inner.split('/').slice(2);
        visit((components as Record<string, JsonObject>)[kind]?.[name]);
      }
    }
  };
  visit([document['paths'], document['webhooks']]);
  const kept = Object.entries(components).map(([kind, parts]) => [
    kind,
    kind === 'securitySchemes'
      ? parts
      : Object.fromEntries(Object.entries(parts).filter(([name]) => used.has(`#/components/${kind}/${name}`))),
  ]);
  return { ...document, components: Object.fromEntries(kept) };
}
