/** Paths and rules into a requisition and, as `line`, into one of its items. */
import { z } from 'zod';
import { compileFieldOf } from '#bridge/documents/compile-field.ts';
import { valueText } from '#bridge/documents/mapping-path.ts';
import type { MappingRule } from '#bridge/documents/mapping-rule.ts';
import { compileValuePath, PathError, type Shape } from '#connector/document-paths.ts';
import { recordSchemas } from '#connector/records.ts';

let shapes: { document: Shape; line: Shape } | undefined;

/** Compiles one rule; `inLine`: it may read the item, too. Returns the fault of wrong settings. */
export function compileRequisitionField(name: string, rule: MappingRule, inLine: boolean) {
  const { document, line } = (shapes ??= shapesOf());
  return compileFieldOf(name, rule, (path) => {
    const { root, read } = compileValuePath({ document, line }, path);
    if (root === 'line' && !inLine) throw new PathError('line is known only under lots');
    return (record, item) => valueText(read(root === 'line' ? item : record));
  });
}

function shapesOf() {
  const document = z.toJSONSchema(recordSchemas.requisition, { io: 'output' }) as Shape;
  return { document, line: document.properties?.['items']?.items ?? {} };
}
