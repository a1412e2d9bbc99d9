/** The field mapping of a flow, as it is written in the configuration; docs/documents.md explains it. */
import { z } from 'zod';
import { documentKinds } from '#connector/documents.ts';
import { compileField } from './compile-field.ts';
import { fieldTypes } from './field-types.ts';
import { hasLines } from './mapping-path.ts';

const path = z.string().min(1);

const rule = z.union([
  path.describe('A path into the document'),
  z.strictObject({
    from: z
      .union([path, z.array(path).min(1)])
      .optional()
      .describe('A path into the document, or several: the first that leads to something'),
    template: z.string().min(1).optional().describe('Text with paths in braces: "{event.reference_id}-{line.lot}"'),
    value: z.string().min(1).optional().describe('Always this'),
    default: z.string().min(1).optional().describe('Where there is no value'),
    map: z
      .record(z.string(), z.string())
      .optional()
      .describe('Values and what stands for them; "*" is any other. Without that, others make a dead letter'),
    type: z.enum(fieldTypes).default('text').describe('What the value must read as'),
    cut: z.int().min(1).optional().describe('Longer text is cut to so many characters'),
    required: z.boolean().default(false).describe('Without a value the document is a dead letter'),
  }),
]);

const fields = z.record(z.string().min(1), rule);

/** By document kind: `fields` of the document, and `lines` of each of its lines. */
export const mappingSettings = z
  .partialRecord(z.enum(documentKinds), z.strictObject({ fields: fields.default({}), lines: fields.default({}) }))
  .superRefine((mapping, context) => {
    for (const kind of documentKinds) {
      const given = mapping[kind];
      if (!given) continue;
      if (!hasLines(kind) && Object.keys(given.lines).length > 0)
        context.addIssue({ code: 'custom', path: [kind, 'lines'], message: `is not possible: ${kind} has no lines` });
      else
        for (const place of ['fields', 'lines'] as const)
          for (const [name, one] of Object.entries(given[place])) {
            const compiled = compileField(kind, name, one, place === 'lines');
            if ('fault' in compiled)
              context.addIssue({ code: 'custom', path: [kind, place, name, ...compiled.at], message: compiled.fault });
          }
    }
  });

export type MappingRule = z.output<typeof rule>;
export type MappingSettings = z.output<typeof mappingSettings>;
