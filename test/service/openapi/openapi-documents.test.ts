/** The OpenAPI documents: complete, and equal to the schemas that parse requests. test/rare holds them against a validator. */
import { readFileSync } from 'node:fs';
import { Ajv2020 } from 'ajv/dist/2020.js';
import ajvFormats from 'ajv-formats';
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { feedNames } from '#contract/feed.ts';
import { jobTypes } from '#contract/job.ts';
import { limits } from '#contract/limits.ts';
import { triggers } from '#contract/webhook.ts';
import { createApiDocuments, endpointTables } from '#service/openapi/api-documents.ts';
import { apiNames } from '#service/openapi/api-names.ts';
import { requestExamples } from '#service/openapi/examples.ts';
import { describedOperations } from '#service/openapi/operations.ts';
import { createSchemaSet } from '#service/openapi/schema-set.ts';

// biome-ignore lint/suspicious/noExplicitAny: a test looks into documents of every shape
// oxlint-disable-next-line typescript/no-explicit-any
type Json = any;

const documents: Record<string, Json> = createApiDocuments();
const open = documents['public'];
const tables = endpointTables();
const endpoints = [...tables.organisation, ...tables.operator];

/** Every operation of a document, its webhooks among them. */
function operationsOf(document: Json): Json[] {
  return [document.paths, document.webhooks ?? {}].flatMap((paths) =>
    Object.values(paths).flatMap((item) => Object.values(item as object)),
  );
}

/** Every object of a document with its place. */
function* objectsOf(value: Json, place = ''): Generator<[string, Json]> {
  if (typeof value !== 'object' || value === null) return;
  if (!Array.isArray(value)) yield [place, value];
  for (const [key, inner] of Object.entries(value)) yield* objectsOf(inner, `${place}/${key}`);
}

describe.each(apiNames)('the document %s', (name) => {
  const document = documents[name];

  test('is always the same text', () => {
    expect(JSON.stringify(createApiDocuments()[name])).toBe(JSON.stringify(document));
  });

  test('names each operation once, as a verb and a noun', () => {
    const names = operationsOf(document).map((operation) => operation.operationId);
    expect(new Set(names).size).toBe(names.length);
    expect(names.filter((one) => !/^[a-z]+(-[a-z]+)+$/.test(one))).toEqual([]);
  });

  test('states the authorisation of each operation, and all its refusals', () => {
    for (const operation of operationsOf({ paths: document.paths })) {
      expect(operation.security).toEqual([{ bearer: [] }]);
      expect(operation.description).toMatch(
        /Needs (an API key with the scope `[a-z]+`( or `[a-z]+`)?|the operator's token)\./,
      );
      const statuses = Object.keys(operation.responses);
      expect(statuses).toEqual(expect.arrayContaining(['400', '401', '500', '503']));
      expect(statuses.filter((status) => status < '300')).toHaveLength(1);
      expect(statuses.includes('403')).toBe(name !== 'admin');
      expect(statuses).toContain('429');
      const sends = operation.requestBody !== undefined;
      expect(!sends || (statuses.includes('413') && statuses.includes('415'))).toBe(true);
    }
  });

  test('has no empty schema, which would accept any value', () => {
    const schemas = [...objectsOf(document)].filter(([place]) =>
      /\/(schema|items|additionalProperties|(properties|(any|one|all)Of)\/[^/]+)$/.test(place),
    );
    expect(schemas.length).toBeGreaterThan(30);
    const empty = schemas.filter(([, schema]) => Object.keys(schema).every((key) => key === 'description'));
    // Another service defines the values there.
    expect(empty.map(([place]) => place)).toEqual(name === 'public' ? emptyOnPurpose : []);
  });
});

const emptyOnPurpose = ['/components/schemas/SupplierChangeSubmission/properties/change_warnings/anyOf/0/items'];

test('every endpoint is described, and nothing else', () => {
  const served = endpoints.map(({ method, path }) => `${method} ${path}`);
  expect([...describedOperations].sort()).toEqual([...served].sort());
  const documented = apiNames.flatMap((name) =>
    Object.entries(documents[name].paths).flatMap(([path, item]) =>
      Object.keys(item as object).map(
        (method) => `${method.toUpperCase()} ${path.replace(/\{(\w+)\}/g, ':$1').replace(/\/$/, '')}`,
      ),
    ),
  );
  expect(documented.sort()).toEqual(served.sort());
  expect(endpoints.filter((one) => one.summary === undefined || one.answers === undefined)).toEqual([]);
  expect(
    endpoints.filter((one) => one.path.startsWith('/api/') && one.limit === undefined && one.limitOf === undefined),
  ).toEqual([]);
});

test('each path is listed as the contract spells it, with the slash at its end where it has one', () => {
  // From the API document, "Endpoints".
  const methodsOf = (path: string) => Object.keys(open.paths[path] ?? {});
  expect(methodsOf('/api/manage/supplier_changes')).toEqual(['post']);
  expect(methodsOf('/api/manage/supplier_changes/')).toEqual(['get']);
  expect(methodsOf('/api/jobs')).toEqual(['post']);
  expect(methodsOf('/api/jobs/')).toEqual(['get']);
  expect(methodsOf('/api/manage/suppliers')).toEqual(['get']);
  const slashed = Object.keys(open.paths).filter((path) => path.endsWith('/'));
  expect(slashed).toEqual(['/api/manage/supplier_changes/', '/api/jobs/']);
});

test('says whom to ask, and the licence of the package', () => {
  const { license } = JSON.parse(readFileSync('package.json', 'utf8'));
  for (const name of apiNames) {
    expect(documents[name].info.contact.name).toBe('The operator of this service');
    expect(documents[name].info.license).toEqual({ name: 'Apache License 2.0', identifier: license });
  }
});

test('the errors of a submission and those of its state have types of their own', () => {
  const { state, state_errors: errors } = open.components.schemas.SupplierChangeSubmission.properties;
  expect(state.$ref).toBe('#/components/schemas/SubmissionState');
  expect(errors.type).toBe('object');
});

test('the public document holds the paths of the public contract and no other', () => {
  expect(Object.keys(open.paths).filter((path) => !path.startsWith('/api/'))).toEqual([]);
  for (const { path } of Object.values(jobTypes)) expect(open.paths[`/api/jobs/${path}`].post).toBeDefined();
  for (const feed of feedNames) expect(Object.keys(open.paths[`/api/feeds/${feed}`])).toEqual(['get']);
});

/** The members of an object, each with what its reference says. */
function behindReferences(members: Record<string, Json>): Record<string, Json> {
  const found = Object.entries(members).map(([name, schema]) => [
    name,
    schema.$ref ? open.components.schemas[schema.$ref.split('/').at(-1)] : schema,
  ]);
  return Object.fromEntries(found);
}

describe('requests', () => {
  test('a tag filter is a parameter of style deepObject, with the prefix of its feed', () => {
    const names = ['tags.Region', 'sourcing_event.tags.Region', 'Region'];
    const taken = feedNames.map((feed) => {
      const { parameters } = open.paths[`/api/feeds/${feed}`].get;
      const filter = parameters.find((one: Json) => one.name === 'filter');
      expect(filter).toMatchObject({
        in: 'query',
        style: 'deepObject',
        explode: true,
        schema: { type: 'object', default: {} },
      });
      return names.filter((one) => new RegExp(filter.schema.propertyNames.pattern).test(one));
    });
    expect(taken).toEqual([['tags.Region'], ...Array.from({ length: 3 }, () => ['sourcing_event.tags.Region'])]);
  });

  test('numbers, flags and lists of a query are described as such', () => {
    const parametersOf = (path: string): Record<string, Json> =>
      Object.fromEntries(open.paths[path].get.parameters.map((one: Json) => [one.name, one]));
    const events = parametersOf('/api/feeds/sourcing-events');
    expect(events['page_size'].schema).toMatchObject({ type: 'integer', minimum: 1, maximum: 1000 });
    expect(events['sourcing_requests']).toMatchObject({ explode: false, schema: { type: 'array' } });
    expect(events['modified_after'].schema).toMatchObject({ type: 'string', format: 'date-time' });
    expect(events['status'].schema.enum).toEqual(['DRAFT', 'OPEN', 'PAUSED', 'CLOSED', 'DELETED']);
    const bids = parametersOf('/api/feeds/latest-bids');
    expect(bids['include']).toMatchObject({ explode: true, schema: { type: 'array', items: { type: 'string' } } });
    const suppliers = parametersOf('/api/manage/suppliers');
    expect(suppliers['archived'].schema.type).toBe('boolean');
    expect(suppliers['page_size'].schema).toMatchObject({ default: 20, maximum: 1000 });
    expect(Object.values(suppliers).some((one) => one.required)).toBe(false);
  });

  test('every optional field of a payload that has a default states it', () => {
    const { properties: references, required } = open.components.schemas.CreateSourcingEvent;
    expect(required).toEqual(['name']);
    const properties = behindReferences(references);
    const settings = behindReferences(properties['settings'].properties);
    // From the decisions, "Jobs".
    expect(properties['event_type'].default).toBe('RFQ');
    expect(properties['primary_currency'].default).toBe('EUR');
    const lists = ['suppliers', 'rounds', 'questions', 'tags', 'sourcing_requests', 'secondary_currencies'];
    expect(lists.map((list) => properties[list].default)).toEqual(lists.map(() => []));
    const flags = ['is_test', 'is_template', 'close_after_last_round'];
    expect(flags.map((flag) => settings[flag].default)).toEqual(flags.map(() => false));
    expect(properties['settings'].default).toEqual({});
    expect(properties['bid_sheet'].default).toEqual({});
  });

  test('an unknown field is refused by the document as by the service', () => {
    const sent = operationsOf({ paths: open.paths }).flatMap(({ requestBody }): string[] => {
      const reference = requestBody?.content['application/json'].schema.$ref;
      return reference ? [reference.split('/').at(-1)] : [];
    });
    expect(sent.length).toBeGreaterThan(8);
    const objects = sent.filter((name) => open.components.schemas[name].type === 'object');
    expect(objects.filter((name) => open.components.schemas[name].additionalProperties !== false)).toEqual([]);
  });

  test('schemas that differ between requests and answers are separate components', () => {
    const set = createSchemaSet();
    const part = z.strictObject({ size: z.int().default(1) }).meta({ id: 'Part' });
    const whole = z.strictObject({ part }).meta({ id: 'Whole' });
    const same = z.looseObject({ name: z.string() }).meta({ id: 'Same' });
    const { document, schemas } = set.resolve({
      sent: [set.input(whole), set.input(same.optional())],
      answered: [set.output(whole)],
    });
    expect(Object.keys(schemas)).toEqual(['Part', 'PartInput', 'PartSize', 'Same', 'Whole', 'WholeInput']);
    expect(document['sent']).toMatchObject([
      { $ref: '#/components/schemas/WholeInput' },
      { $ref: '#/components/schemas/Same' },
    ]);
    expect(document['answered']).toMatchObject([{ $ref: '#/components/schemas/Whole' }]);
    expect(schemas['WholeInput']).toMatchObject({ properties: { part: { $ref: '#/components/schemas/PartInput' } } });
    expect(schemas['Part']).toMatchObject({ required: ['size'] });
    expect(schemas['PartInput']).not.toHaveProperty('required');
  });

  test('no optional member of a named schema states its default itself: a generator would make it required', () => {
    const found = (where: Json) =>
      [...objectsOf(where)].flatMap(([place, { properties = {}, required = [] }]) =>
        Object.keys(properties)
          .filter((name) => properties[name].default !== undefined && !required.includes(name))
          .map((name) => `${place}/${name}`),
      );
    for (const document of Object.values(documents)) expect(found(document.components.schemas)).toEqual([]);
    expect(found({ Planted: { properties: { size: { default: 1 } } } })).toEqual(['/Planted/size']);
  });

  test('a default has one name, also where the union of all jobs repeats it, and never the name of another schema', () => {
    const set = createSchemaSet();
    const event = z.strictObject({ kind: z.enum(['a', 'b']).default('a').describe('Which.') }).meta({ id: 'Thing' });
    const union = z.discriminatedUnion('type', [event.extend({ type: z.literal('x') })]).meta({ id: 'Every' });
    set.input(union);
    set.input(event);
    const { schemas } = set.resolve({});
    const kind = { $ref: '#/components/schemas/ThingKind', description: 'Which. Left out: `a`.' };
    expect(Object.keys(schemas)).toEqual(['Every', 'Thing', 'ThingKind']);
    expect(schemas['ThingKind']).toEqual({ default: 'a', type: 'string', enum: ['a', 'b'] });
    expect(schemas['Thing']).toMatchObject({ properties: { kind } });
    expect(schemas['Every']).toMatchObject({ oneOf: [{ properties: { kind } }] });
    set.input(z.string().meta({ id: 'ThingKind' }));
    expect(() => set.resolve({})).toThrow(/ThingKind/);
  });

  test('an address that the service will call is described as HTTPS', () => {
    const { url } = open.components.schemas.CreateWebhook.properties;
    expect(url).toMatchObject({ type: 'string', format: 'uri', pattern: '^https://' });
    const { access_token_url: token } = open.components.schemas.WebhookAuthentication.properties.parameters.properties;
    expect(token.pattern).toBe('^https://');
  });

  test('two different schemas cannot share a name', () => {
    const set = createSchemaSet();
    set.output(z.object({ a: z.string() }).meta({ id: 'Taken' }));
    expect(() => set.output(z.object({ b: z.string() }).meta({ id: 'Taken' }))).toThrow(/Taken/);
  });

  test.each(
    Object.entries(requestExamples).flatMap(([id, examples]) =>
      Object.entries(examples).map(([name, { value }]) => [id, name, value] as const),
    ),
  )('the example of %s "%s" is taken by the service and by the document', (id, _name, value) => {
    const operation = operationsOf({ paths: open.paths }).find((one) => one.operationId === id);
    expect(operation).toBeDefined();
    const path = Object.keys(open.paths).find((one) => open.paths[one].post === operation);
    const endpoint = endpoints.find((one) => one.method === 'POST' && one.path === path);
    expect(endpoint?.body?.safeParse(value).error).toBeUndefined();
    const ajv = new Ajv2020({ strict: false });
    ajvFormats.default(ajv);
    const { $ref } = operation.requestBody.content['application/json'].schema;
    ajv.addSchema(open, 'public').validate({ $ref: `public${$ref}` }, value);
    expect(ajv.errors).toBeNull();
  });
});

test('a limit is described with the numbers of the contract', () => {
  expect(limits.suppliers.burst).toEqual({ requests: 30, seconds: 60 });
  expect(open.paths['/api/manage/suppliers'].get.description).toContain(
    '30 requests a minute and 600 requests an hour',
  );
  const { headers } = open.paths['/api/manage/suppliers'].get.responses[200];
  expect(Object.keys(headers)).toEqual(['X-Request-Id', 'ETag', 'Link', 'RateLimit', 'RateLimit-Policy']);
  expect(Object.keys(open.components.responses.TooManyRequests.headers)).toContain('Retry-After');
});

test('POST under /api takes an Idempotency-Key, and GET an If-None-Match', () => {
  for (const [method, item] of Object.values<Json>(open.paths).flatMap((paths) => Object.entries<Json>(paths))) {
    const references = JSON.stringify(item.parameters);
    expect(references.includes('Idempotency-Key')).toBe(method === 'post');
    expect(references.includes('If-None-Match')).toBe(method === 'get');
    expect('304' in item.responses).toBe(method === 'get');
  }
});

test('every notification is described with its signature and its payload', () => {
  expect(Object.keys(open.webhooks)).toEqual([...triggers]);
  for (const trigger of triggers) {
    const { parameters, requestBody } = open.webhooks[trigger].post;
    expect(parameters.map((one: Json) => one.name)).toEqual([
      'X-Signature',
      'webhook-signature',
      'webhook-id',
      'webhook-timestamp',
      'webhook-attempt',
    ]);
    const { properties, required } = requestBody.content['application/json'].schema;
    expect(required).toEqual(['trigger', 'timestamp', 'payload']);
    expect(properties.trigger.const).toBe(trigger);
    expect(properties.payload.$ref).toMatch(/(Feed|Job|Test)Notification$/);
  }
});

test('paths are relative to the server of the document, or to its public address', () => {
  expect(open.servers).toEqual([{ url: '/' }]);
  expect(createApiDocuments('https://sourcing.example.com').public['servers']).toEqual([
    { url: 'https://sourcing.example.com' },
  ]);
});

test('every answer that has a next page names Link, and every 202 of the public API names Location', () => {
  const answersOf = (document: Json) =>
    operationsOf({ paths: document.paths }).flatMap((operation) =>
      Object.entries<Json>(operation.responses).map(([status, response]) => ({ status, response })),
    );
  const behind = (schema: Json) => open.components.schemas[schema.$ref?.split('/').at(-1)] ?? schema;
  const pages = answersOf(open).filter(
    ({ response }) => behind(response.content?.['application/json']?.schema ?? {}).properties?.next !== undefined,
  );
  // Four feeds and six lists.
  expect(pages).toHaveLength(10);
  for (const { response } of pages) expect(Object.keys(response.headers)).toContain('Link');
  const accepted = answersOf(open).filter(({ status }) => status === '202');
  expect(accepted.length).toBeGreaterThan(8);
  for (const { response } of accepted) expect(Object.keys(response.headers)).toContain('Location');
});
