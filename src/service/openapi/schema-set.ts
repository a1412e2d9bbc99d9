/**
 * JSON Schemas (2020-12) for the OpenAPI document, made by zod from the contract's schemas. Schemas with an id become
 * components, and others refer to them. A schema may differ between requests (defaults may be left out, unknown members
 * are refused) and answers (defaults are filled in, members are added over time). Such a schema becomes two components;
 * the one for requests is `<id>Input`.
 */
import { isDeepStrictEqual } from 'node:util';
import { z } from 'zod';

export type JsonObject = { [key: string]: unknown };

export interface SchemaSet {
  /** The schema for requests. */
  input(schema: z.ZodType): JsonObject;
  /** The schema for answers. */
  output(schema: z.ZodType): JsonObject;
  /** Resolves the references in a document that was made with these schemas, and returns it with the components. */
  resolve(document: JsonObject): { document: JsonObject; schemas: JsonObject };
}

type Direction = 'input' | 'output';

/** Until it is known which schemas become two components, a reference contains its direction. */
const pending = { input: '#input/', output: '#output/' } as const;

export function createSchemaSet(): SchemaSet {
  const components: Record<Direction, Map<string, JsonObject>> = { input: new Map(), output: new Map() };
  const converted: Record<Direction, Map<z.ZodType, JsonObject>> = { input: new Map(), output: new Map() };
  const add = (schema: z.ZodType, io: Direction): JsonObject => {
    const known = converted[io].get(schema);
    if (known) return known;
    const { $schema: _dialect, $defs, ...root } = toJsonSchema(schema, io);
    for (const [id, component] of Object.entries(($defs ?? {}) as Record<string, JsonObject>)) {
      const { id: _id, ...content } = withReferences(component, ['#/$defs/', pending[io]]) as JsonObject;
      const known = components[io].get(id);
      if (known !== undefined && !isDeepStrictEqual(known, content))
        throw new Error(`Two different schemas of the contract have the id ${id}.`);
      components[io].set(id, content);
    }
    const result = withReferences(root, ['#/$defs/', pending[io]]) as JsonObject;
    converted[io].set(schema, result);
    return result;
  };
  return {
    input: (schema) => add(schema, 'input'),
    output: (schema) => add(schema, 'output'),
    resolve: (document) => {
      const twice = readDifferently(components);
      const inputName = (id: string) => (twice.has(id) ? `${id}Input` : id);
      const resolved = (value: unknown) =>
        withReferences(withReferences(value, [pending.input, '#/components/schemas/', inputName]), [
          pending.output,
          '#/components/schemas/',
        ]) as JsonObject;
      const input = nameDefaults(components.input);
      const schemas = [
        ...[...components.output].map(([id, schema]) => [id, resolved(schema)] as const),
        ...[...input].map(([id, schema]) => [inputName(id), resolved(schema)] as const),
      ];
      return {
        document: resolved(document),
        schemas: Object.fromEntries(schemas.sort(([a], [b]) => (a < b ? -1 : 1))),
      };
    },
  };
}

/**
 * The components that are sent, with each member that has a default moved to a component of its own: `event_type` of
 * `CreateSourcingEvent` to `CreateSourcingEventEventType`. Such a member may be left out, but openapi-typescript makes it
 * a required member of the type unless its default stands behind a reference. A union that repeats a member refers to
 * the same component. Throws when a name is taken.
 */
function nameDefaults(components: ReadonlyMap<string, JsonObject>): Map<string, JsonObject> {
  const named = new Map<string, JsonObject>();
  const parts = new Map<string, { member: string; part: JsonObject }>();
  const nameOf = (owner: string, path: string, member: string, part: JsonObject): string => {
    const isUnion = components.get(owner)?.['oneOf'] !== undefined;
    const known = [...parts].find(([, other]) => other.member === member && isDeepStrictEqual(other.part, part));
    if (isUnion && known) return known[0];
    const id = owner + path + pascalCase(member);
    if (components.has(id) || parts.has(id)) throw new Error(`Two different schemas would have the id ${id}.`);
    parts.set(id, { member, part });
    return id;
  };
  const visit = (value: unknown, owner: string, path: string): unknown => {
    if (typeof value !== 'object' || value === null) return value;
    if (Array.isArray(value)) return value.map((item) => visit(item, owner, path));
    return Object.fromEntries(
      Object.entries(value).map(([key, inner]) => [
        key,
        key === 'properties' ? membersOf(inner as Record<string, JsonObject>, owner, path) : visit(inner, owner, path),
      ]),
    );
  };
  const membersOf = (members: Readonly<Record<string, JsonObject>>, owner: string, path: string) =>
    Object.fromEntries(
      Object.entries(members).map(([member, schema]) => {
        const { description, ...part } = visit(schema, owner, path + pascalCase(member)) as JsonObject;
        const described = description === undefined ? {} : { description };
        if (!('default' in part)) return [member, { ...described, ...part }];
        const about = [description, leftOut(part['default'])].filter(Boolean).join(' ');
        return [member, { $ref: pending.input + nameOf(owner, path, member, part), description: about }];
      }),
    );
  // Unions last: what they repeat has its name by then.
  const unionsLast = [...components].sort(([, a], [, b]) => Number('oneOf' in a) - Number('oneOf' in b));
  for (const [id, schema] of unionsLast) named.set(id, visit(schema, id, '') as JsonObject);
  return new Map([...named, ...[...parts].map(([id, { part }]) => [id, part] as const)]);
}

/** The default in words, for readers who do not follow the reference. */
function leftOut(value: unknown): string {
  if (value === '') return 'Left out: empty.';
  return `Left out: \`${typeof value === 'string' ? value : JSON.stringify(value)}\`.`;
}

/** `event_type` as `EventType`. */
function pascalCase(name: string): string {
  return name.replaceAll(/(?:^|_)(\w)/g, (_, first: string) => first.toUpperCase());
}

/** The schema as zod writes it, with corrections for readers and tools. */
function toJsonSchema(schema: z.ZodType, io: Direction): JsonObject {
  return z.toJSONSchema(schema, {
    io,
    // A transform has no schema; types that end in a transform carry their description (`uuid`, `timestamp`).
    unrepresentable: 'any',
    override: ({ zodSchema, jsonSchema }) => {
      const { def } = zodSchema._zod;
      // Zod leaves out the default of a schema that contains a transform.
      if (io === 'input' && (def.type === 'default' || def.type === 'prefault'))
        jsonSchema.default ??= def.defaultValue as never;
      if (io === 'output' && isAnyOrNone(jsonSchema.additionalProperties)) delete jsonSchema.additionalProperties;
      if (jsonSchema.minimum === Number.MIN_SAFE_INTEGER) delete jsonSchema.minimum;
      if (jsonSchema.maximum === Number.MAX_SAFE_INTEGER) delete jsonSchema.maximum;
      if (jsonSchema.minLength === 0) delete jsonSchema.minLength;
      if (jsonSchema.format === 'uuid') delete jsonSchema.pattern;
      // `contentEncoding` is enough; `format` and `pattern` only repeat it at length.
      if (jsonSchema.contentEncoding !== undefined) {
        delete jsonSchema.format;
        delete jsonSchema.pattern;
      }
    },
  });
}

function isAnyOrNone(additional: unknown): boolean {
  return additional === false || isDeepStrictEqual(additional, {});
}

/** The ids of components that differ between the two directions, directly or through their references. */
function readDifferently(components: Record<Direction, ReadonlyMap<string, JsonObject>>): Set<string> {
  const neutral = (schema: JsonObject | undefined) => withReferences(schema, [pending.input, pending.output]);
  const both = [...components.input.keys()].filter((id) => components.output.has(id));
  const twice = new Set(
    both.filter((id) => !isDeepStrictEqual(neutral(components.input.get(id)), components.output.get(id))),
  );
  for (let found = -1; found !== twice.size; ) {
    found = twice.size;
    for (const id of both) if (referencesOf(components.input.get(id)).some((other) => twice.has(other))) twice.add(id);
  }
  return twice;
}

function referencesOf(value: unknown): string[] {
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([key, inner]) =>
    key === '$ref' ? [String(inner).slice(String(inner).indexOf('/') + 1)] : referencesOf(inner),
  );
}

/** Returns a copy in which references with one prefix get another prefix and, with `rename`, another name. */
function withReferences(
  value: unknown,
  [from, to, rename = (id) => id]: readonly [string, string, ((id: string) => string)?],
): unknown {
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map((item) => withReferences(item, [from, to, rename]));
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]) => [
      key,
      key === '$ref' && typeof inner === 'string' && inner.startsWith(from)
        ? to + rename(inner.slice(from.length))
        : withReferences(inner, [from, to, rename]),
    ]),
  );
}
