/** Paths and rules into the records that a connector reads, in the language of the flows' mappings. */
import { z } from 'zod';
import { compileValuePath, type Shape } from '#connector/document-paths.ts';
import { recordSchemas } from '#connector/records.ts';
import { compileFieldOf } from '../documents/compile-field.ts';
import { valueText } from '../documents/mapping-path.ts';
import type { MappingRule } from '../documents/mapping-rule.ts';

let shape: Shape | undefined;

/** Compiles the rule of one attribute. Returns the fault of wrong settings. */
export function compileRecordField(name: string, rule: MappingRule) {
  shape ??= z.toJSONSchema(recordSchemas.supplier, { io: 'output' }) as Shape;
  const document = shape;
  return compileFieldOf(name, rule, (path) => {
    const { read } = compileValuePath({ document }, path);
    return (record) => valueText(read(record));
  });
}
