/** The JSON Schema of a feed's records, with its references followed: which members and items a record has. */
import { z } from 'zod';

export interface RecordSchema {
  readonly properties: Readonly<Record<string, RecordSchema>> | undefined;
  readonly required: readonly string[];
  readonly items: RecordSchema | undefined;
}

interface Node {
  readonly $ref?: string;
  readonly properties?: Readonly<Record<string, Node>>;
  readonly required?: readonly string[];
  readonly items?: Node;
  readonly anyOf?: readonly Node[];
}

/** Schemas of records contain no loops. */
export function recordSchema(schema: z.ZodType): RecordSchema {
  const { $defs = {}, ...root } = z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' }) as Node & {
    $defs?: Readonly<Record<string, Node>>;
  };
  const resolve = (node: Node): RecordSchema => {
    const named = node.$ref === undefined ? undefined : $defs[node.$ref.slice('#/$defs/'.length)];
    if (named !== undefined) return resolve(named);
    const { properties, items, required = [] } = node.anyOf?.find((one) => one.properties ?? one.items) ?? node;
    return {
      properties:
        properties && Object.fromEntries(Object.entries(properties).map(([name, inner]) => [name, resolve(inner)])),
      required,
      items: items && resolve(items),
    };
  };
  return resolve(root);
}
