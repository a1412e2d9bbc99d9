/**
 * Settings without their secrets, for people who may read them. A value is hidden where the schema marks it as a secret,
 * where its name sounds like one, where it came from the environment, and below a name of HTTP headers. Of an address the
 * path is shown, and nothing after it.
 */
import { z } from 'zod';
import { soundsSecret } from './secret-names.ts';

/** Marks a setting as a secret: `z.string().meta(secretMark)`. */
export const secretMark = { format: 'password', writeOnly: true } as const;

const hidden = '(hidden)';

/** Shorter texts of the environment hide only what is equal to them: they may well be a part of other words. */
const partCharactersMin = 4;

/** The part of a JSON Schema, made by zod, that this reads. */
interface JsonSchema {
  readonly writeOnly?: boolean;
  readonly properties?: Readonly<Record<string, JsonSchema>>;
  readonly additionalProperties?: JsonSchema | boolean;
  readonly items?: JsonSchema;
  readonly anyOf?: readonly JsonSchema[];
  readonly oneOf?: readonly JsonSchema[];
  readonly allOf?: readonly JsonSchema[];
}

/** Returns a copy of the settings without secrets. `fromEnvironment`: every text that a variable has given. */
export function withoutSecretSettings(
  settings: unknown,
  schema: z.ZodType,
  fromEnvironment: readonly string[] = [],
): unknown {
  const isFromEnvironment = (text: string) =>
    fromEnvironment.some((given) => text === given || (given.length >= partCharactersMin && text.includes(given)));
  const shown = (value: unknown, schemas: readonly JsonSchema[], name: string): unknown => {
    if (isEmpty(value)) return value;
    if (soundsSecret(name) || schemas.some(({ writeOnly }) => writeOnly === true)) return hidden;
    if (Array.isArray(value)) return value.map((item) => shown(item, itemsOf(schemas), ''));
    if (typeof value === 'object' && value !== null)
      return Object.fromEntries(
        Object.entries(value).map(([key, member]) => [
          key,
          isHeader(name) && key !== 'name' ? hidden : shown(member, membersOf(schemas, key), key),
        ]),
      );
    if (typeof value !== 'string') return value;
    return isFromEnvironment(value) ? hidden : withoutQuery(value);
  };
  return shown(settings, [jsonSchemaOf(schema)].flatMap(choicesOf), '');
}

function jsonSchemaOf(schema: z.ZodType): JsonSchema {
  return z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' }) as JsonSchema;
}

/** A schema and all that it may be instead. */
function choicesOf(schema: JsonSchema): JsonSchema[] {
  const { anyOf = [], oneOf = [], allOf = [] } = schema;
  return [schema, ...[...anyOf, ...oneOf, ...allOf].flatMap(choicesOf)];
}

function membersOf(schemas: readonly JsonSchema[], name: string): JsonSchema[] {
  return schemas
    .map(({ properties = {}, additionalProperties: others }) =>
      Object.hasOwn(properties, name) ? properties[name] : typeof others === 'object' ? others : undefined,
    )
    .flatMap((schema) => (schema ? choicesOf(schema) : []));
}

function itemsOf(schemas: readonly JsonSchema[]): JsonSchema[] {
  return schemas.flatMap(({ items }) => (items ? choicesOf(items) : []));
}

function isHeader(name: string): boolean {
  return /headers?$/i.test(name);
}

function isEmpty(value: unknown): boolean {
  return value === undefined || value === null || value === '' || (Array.isArray(value) && value.length === 0);
}

/** `https://user:key@host/path?key=value#part` and `/path?key=value` as far as their path. */
function withoutQuery(text: string): string {
  if (!/^([a-z][a-z0-9+.-]*:\/\/|\/)/i.test(text)) return text.replace(/\/\/[^/@\s]{1,500}@/g, '//…@');
  const path = text.split(/[?#]/, 1)[0] ?? '';
  return (path === text ? text : `${path}?…`).replace(/\/\/[^/@\s]{1,500}@/, '//…@');
}
