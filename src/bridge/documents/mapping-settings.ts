/** The field mapping of a flow, as it is written in the configuration, checked against its documents' schemas. */
import { z } from 'zod';
import { documentKinds } from '#connector/documents.ts';
import { compileField } from './compile-field.ts';
import { hasLines } from './mapping-path.ts';
import { mappingRule } from './mapping-rule.ts';

const fields = z.record(z.string().min(1), mappingRule);

/** By document kind: `fields` of the document, and `lines` of each of its lines. */
export const mappingSettings = z
  .partialRecord(z.enum(documentKinds), z.strictObject({ fields: fields.default({}), lines: fields.default({}) }))
  .superRefine((mapping, context) => {
    for (const kind of documentKinds) {
      const rules = mapping[kind];
      if (!rules) continue;
      if (!hasLines(kind) && Object.keys(rules.lines).length > 0)
        context.addIssue({ code: 'custom', path: [kind, 'lines'], message: `is not possible: ${kind} has no lines` });
      else
        for (const place of ['fields', 'lines'] as const)
          for (const [name, rule] of Object.entries(rules[place])) {
            const compiled = compileField(kind, name, rule, { inLine: place === 'lines' });
            if ('fault' in compiled)
              context.addIssue({ code: 'custom', path: [kind, place, name, ...compiled.at], message: compiled.fault });
          }
    }
  });

export type MappingSettings = z.output<typeof mappingSettings>;
