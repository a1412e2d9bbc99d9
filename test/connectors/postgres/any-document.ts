/** Random documents that the JSON Schema allows, for property tests. */
import * as fc from 'fast-check';
import { type Document, type DocumentKind, documentJsonSchema } from '#connector/documents.ts';

interface Schema {
  type?: string;
  const?: unknown;
  format?: string;
  pattern?: string;
  properties?: Record<string, Schema>;
  required?: string[];
  items?: Schema;
  additionalProperties?: Schema | boolean;
}

const numerals = '0123456789'.split('');
/** Characters and words with a meaning in SQL, in array literals and in COPY. */
const syntaxTexts = ['\\', "'", '"', '{', '}', ',', ';', '%', '\n', '\r', '\t', '$1', ' ', 'NULL', 'é', '\u{1f600}'];

/** Text of all characters that PostgreSQL can hold: all except the zero character. */
const text = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 20 }).map((given) => given.replaceAll('\0', '')),
  fc.string({ unit: fc.constantFrom(...syntaxTexts), maxLength: 12 }),
);

const digits = (minLength: number, maxLength: number) =>
  fc.string({ unit: fc.constantFrom(...numerals), minLength, maxLength });
const decimal = fc
  .tuple(
    fc.constantFrom('', '-'),
    digits(1, 40),
    fc.oneof(
      fc.constant(''),
      digits(1, 30).map((fraction) => `.${fraction}`),
    ),
  )
  .map((parts) => parts.join(''));

/** UTC with microseconds. */
const time = fc
  .tuple(
    fc.date({ min: new Date('0001-01-01T00:00:00Z'), max: new Date('9999-12-31T23:59:59Z'), noInvalidDate: true }),
    digits(3, 3),
  )
  .map(([date, micros]) => date.toISOString().replace('Z', `${micros}Z`));

/** A random document. Some keys repeat between runs. */
export function anyDocument(kind: DocumentKind): fc.Arbitrary<Document> {
  const keys = fc.oneof(fc.constantFrom('a', 'b', 'c', 'd'), text);
  return fc.tuple(documentOf(kind), keys).map(([document, key]) => ({ ...document, key }));
}

function documentOf(kind: DocumentKind): fc.Arbitrary<Document> {
  return valueOf(documentJsonSchema(kind)) as fc.Arbitrary<Document>;
}

function valueOf(schema: Schema): fc.Arbitrary<unknown> {
  if (schema.const !== undefined) return fc.constant(schema.const);
  if (schema.type === 'string')
    return schema.format === 'date-time' ? time : schema.pattern === undefined ? text : decimal;
  if (schema.type === 'boolean') return fc.boolean();
  if (schema.type === 'integer') return fc.maxSafeInteger();
  if (schema.type === 'array' && schema.items) return fc.array(valueOf(schema.items), { maxLength: 4 });
  if (schema.type === 'object' && schema.properties) {
    const members = Object.entries(schema.properties).map(([name, member]) => [name, valueOf(member)] as const);
    return fc.record(Object.fromEntries(members), { requiredKeys: schema.required ?? [] });
  }
  if (schema.type === 'object' && typeof schema.additionalProperties === 'object')
    return fc.dictionary(text, valueOf(schema.additionalProperties), { maxKeys: 4, noNullPrototype: true });
  throw new Error(`this schema is not supported: ${JSON.stringify(schema)}`);
}
