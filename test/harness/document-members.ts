/** The members of documents, as paths: `lines[].values[].column`. Taken from the JSON Schema of each kind. */
import { type Document, type DocumentKind, documentJsonSchema } from '#connector/documents.ts';

interface Schema {
  readonly type?: string;
  readonly const?: unknown;
  readonly format?: string;
  readonly pattern?: string;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly items?: Schema;
  readonly additionalProperties?: Schema | boolean;
}

/** The path of every member of a kind's documents that holds a value and no further members. */
export function membersOf(kind: DocumentKind): string[] {
  return pathsOf(documentJsonSchema(kind), '');
}

function pathsOf({ properties, items }: Schema, path: string): string[] {
  if (items) return pathsOf(items, `${path}[]`);
  if (!properties) return [path];
  return Object.entries(properties).flatMap(([name, member]) =>
    pathsOf(member, path === '' ? name : `${path}.${name}`),
  );
}

/** The paths of the members that a document has. */
export function membersIn(document: Document): string[] {
  const known = new Set(membersOf(document.kind));
  const found = (value: unknown, path: string): string[] => {
    if (known.has(path)) return [path];
    if (Array.isArray(value)) return value.flatMap((entry) => found(entry, `${path}[]`));
    if (typeof value !== 'object' || value === null) return [path];
    return Object.entries(value).flatMap(([name, member]) => found(member, path === '' ? name : `${path}.${name}`));
  };
  return found(document, '');
}

/**
 * A document that has every member. `changed` is the path of a member that is to have another value than without it.
 */
export function completeDocument(kind: DocumentKind, changed?: string): Document {
  return valueOf(documentJsonSchema(kind), '', changed) as Document;
}

function valueOf(schema: Schema, path: string, changed: string | undefined): unknown {
  const isOther = path === changed;
  const { type, format, pattern, properties, items, additionalProperties } = schema;
  if (schema.const !== undefined) return schema.const;
  if (properties) {
    const members = Object.entries(properties).map(([name, member]) => [
      name,
      valueOf(member, path === '' ? name : `${path}.${name}`, changed),
    ]);
    return Object.fromEntries(members);
  }
  if (items) return [valueOf(items, `${path}[]`, changed)];
  if (typeof additionalProperties === 'object') return { Own: isOther ? 'other' : 'text' };
  if (type === 'boolean') return isOther;
  if (type === 'integer') return isOther ? 2 : 1;
  if (format === 'date-time') return isOther ? '2030-01-02T00:00:00.000000Z' : '2030-01-01T00:00:00.000000Z';
  if (pattern !== undefined) return isOther ? '2.5' : '1.5';
  if (type === 'string') return isOther ? 'other' : 'text';
  throw new Error(`${path} has a schema that this harness does not know: ${JSON.stringify(schema)}`);
}
