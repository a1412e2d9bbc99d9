/**
 * A Postman collection (format 2.1, which Bruno, Insomnia and Hoppscotch also import) made from the OpenAPI documents:
 * `npm run docs:collection` writes it to `docs/`. Made here and not by a converter: `openapi-to-postmanv2` brings 85
 * packages (40 MB), fills bodies with invented text, and makes new random ids with each run, so that no test could hold
 * the file. This one always gives the same text, with the bodies that the documents show.
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createApiDocuments } from '#service/openapi/api-documents.ts';
import { docsPaths } from '#service/openapi/docs-page.ts';

export const collectionPath = 'docs/sourcing-service.postman_collection.json';

// biome-ignore lint/suspicious/noExplicitAny: the writer looks into documents of every shape
// oxlint-disable-next-line typescript/no-explicit-any
type Json = any;

/** The documents that a holder of an API key uses; what the operator does is not for a shared file. */
const parts = ['public', 'desk'] as const;

const description = `Every call of the Sourcing Service. Set the variables \`base_url\` and \`api_key\` of the collection (or of an environment) and send. Values of paths, such as an event's id, are asked for in each request. Filters are switched off until you want them. This file is made by \`npm run docs:collection\`.`;

/** The whole file. */
export function renderCollection(): string {
  const documents = createApiDocuments();
  const collection = {
    info: {
      name: 'Sourcing Service',
      description,
      schema: 'https://schema.getpostman.com/json/collection/v2.1.0/collection.json',
    },
    auth: { type: 'bearer', bearer: [{ key: 'token', value: '{{api_key}}', type: 'string' }] },
    variable: [
      { key: 'base_url', value: 'http://127.0.0.1:8080' },
      { key: 'api_key', value: '' },
    ],
    item: parts.map((name) => ({ name: docsPaths[name].title, item: foldersOf(documents[name]) })),
  };
  return `${JSON.stringify(collection, null, 2)}\n`;
}

function foldersOf(document: Json): Json[] {
  const calls = Object.entries<Json>(document.paths).flatMap(([path, item]) =>
    Object.entries<Json>(item).map(([method, operation]) => ({
      tag: operation.tags[0],
      request: requestOf(method.toUpperCase(), path, operation, document),
    })),
  );
  return document.tags.map(({ name, description: about }: Json) => ({
    name,
    description: about,
    item: calls.filter(({ tag }) => tag === name).map(({ request }) => request),
  }));
}

function requestOf(method: string, path: string, operation: Json, document: Json): Json {
  const parameters: Json[] = operation.parameters.map((one: Json) => behind(one, document));
  const of = (place: string) => parameters.filter((one) => one.in === place);
  const segments = path.slice(1).split('/');
  const query = of('query').map((one) => ({
    key: one.schema.type === 'object' ? tagFilter(one) : one.name,
    value: textOf(one.schema.default ?? sample(one.schema, document)),
    description: one.description ?? '',
    disabled: one.required !== true,
  }));
  const content = operation.requestBody?.content;
  const file = content !== undefined && !('application/json' in content);
  return {
    name: operation.summary,
    request: {
      method,
      description: operation.description,
      header: [
        ...(content && !file ? [{ key: 'Content-Type', value: 'application/json' }] : []),
        ...(file ? [{ key: 'Content-Type', value: 'application/pdf' }] : []),
        ...of('header').map((one) => headerOf(one)),
      ],
      ...(content && {
        body: file
          ? { mode: 'file', file: {} }
          : {
              mode: 'raw',
              raw: JSON.stringify(bodyOf(content['application/json'], document), null, 2),
              options: { raw: { language: 'json' } },
            },
      }),
      url: {
        raw: `{{base_url}}/${segments.map(variable).join('/')}`,
        host: ['{{base_url}}'],
        path: segments.map(variable),
        ...(query.length > 0 && { query }),
        ...(of('path').length > 0 && {
          variable: of('path').map((one) => ({ key: one.name, value: '', description: one.description ?? '' })),
        }),
      },
    },
  };
}

/** A filter by the tag `Region`, under the name that this feed has for tags. */
function tagFilter({ name, schema }: Json): string {
  const member = new RegExp(schema.propertyNames.pattern).test('tags.Region') ? 'tags' : 'sourcing_event.tags';
  return `${name}[${member}.Region]`;
}

/** `{id}` as `:id`. */
function variable(segment: string): string {
  return segment.replace(/^\{(\w+)\}$/, ':$1');
}

/** A new idempotency key for each sending; a header that only some calls need is switched off. */
function headerOf({ name, description: about, required }: Json): Json {
  const values: Readonly<Record<string, string>> = { 'Idempotency-Key': '{{$guid}}', 'X-File-Name': 'quote.pdf' };
  const isOn = required === true || name === 'Idempotency-Key';
  return { key: name, value: values[name] ?? '', description: about, disabled: !isOn };
}

function bodyOf({ schema, examples }: Json, document: Json): unknown {
  const [first] = Object.values<Json>(examples ?? {});
  return first?.value ?? sample(schema, document);
}

/** The shortest value that the schema describes: required members only. */
function sample(given: Json, document: Json): unknown {
  const schema = behind(given, document);
  const [choice] = schema.oneOf ?? schema.anyOf ?? [];
  if (choice !== undefined) return sample(choice, document);
  if ('const' in schema) return schema.const;
  if (schema.enum) return schema.enum[0];
  if (schema.type === 'array')
    return Array.from({ length: schema.minItems ?? 1 }, () => sample(schema.items, document));
  if (schema.type === 'object')
    return Object.fromEntries(
      (schema.required ?? []).map((name: string) => [name, sample(schema.properties[name], document)]),
    );
  if (schema.type === 'boolean') return false;
  if (schema.type === 'integer' || schema.type === 'number') return schema.minimum ?? 1;
  if (schema.format === 'uuid') return '7f9c24e8-3b12-4c8f-9a51-2d6f0e4b7a10';
  if (schema.format === 'date-time') return '2030-12-31T23:59:59Z';
  return '';
}

function textOf(value: unknown): string {
  if (Array.isArray(value)) return value.map(textOf).join(',');
  return typeof value === 'string' ? value : typeof value === 'object' ? '' : JSON.stringify(value);
}

function behind(value: Json, document: Json): Json {
  if (value.$ref === undefined) return value;
  const target = value.$ref
    .slice(2)
    .split('/')
    .reduce((part: Json, key: string) => part[key], document);
  return behind(target, document);
}

if (import.meta.main) writeFileSync(join(import.meta.dirname, '../..', collectionPath), renderCollection());
