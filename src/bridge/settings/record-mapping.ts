/** Paths and rules into the records that a connector reads, in the language of the flows' mappings. */
import { z } from 'zod';
import { compileFieldOf } from '#bridge/documents/compile-field.ts';
import { valueText } from '#bridge/documents/mapping-path.ts';
import type { MappingRule } from '#bridge/documents/mapping-rule.ts';
import { compileValuePath, PathError, type Shape } from '#connector/document-paths.ts';
import { composed } from '#connector/human-text.ts';
import { type ReadStream, recordSchemas } from '#connector/records.ts';

const shapes = new Map<ReadStream, Shape>();

function recordShape(stream: ReadStream): Shape {
  const shape = shapes.get(stream) ?? (z.toJSONSchema(recordSchemas[stream], { io: 'output' }) as Shape);
  shapes.set(stream, shape);
  return shape;
}

/** Compiles the rule of one attribute of suppliers. Returns the fault of wrong settings. */
export function compileRecordField(name: string, rule: MappingRule) {
  const document = recordShape('supplier');
  return compileFieldOf(name, rule, (path) => {
    const { read } = compileValuePath({ document }, path);
    return (record) => valueText(read(record));
  });
}

/**
 * Compiles one rule of requisitions; `inLine`: it may read an item, too, as `line`. Returns the fault of wrong settings.
 */
export function compileRequisitionField(name: string, rule: MappingRule, inLine: boolean) {
  const document = recordShape('requisition');
  const line = document.properties?.['items']?.items ?? {};
  return compileFieldOf(name, rule, (path) => {
    const { root, read } = compileValuePath({ document, line }, path);
    if (root === 'line' && !inLine) throw new PathError('line is known only under lots');
    return (record, item) => valueText(read(root === 'line' ? item : record));
  });
}

/** Whether the settings take a record. `valueOf`: of a field of it, by which they choose. */
export function isChosen(
  only: {
    readonly external_id?: readonly string[] | undefined;
    readonly fields: Readonly<Record<string, string | string[]>>;
  },
  number: string,
  valueOf: (field: string) => string,
): boolean {
  const beginsRight = only.external_id?.some((start) => number.startsWith(start)) ?? true;
  return (
    beginsRight &&
    Object.entries(only.fields).every(([name, values]) =>
      [values]
        .flat()
        .map(composed)
        .includes(composed(valueOf(name))),
    )
  );
}
