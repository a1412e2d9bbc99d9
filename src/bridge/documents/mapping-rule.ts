/** One rule of a field mapping, as it is written in the configuration; docs/documents.md explains it. */
import { z } from 'zod';
import { fieldTypes } from './field-types.ts';

const path = z.string().min(1);

const fullRule = z.strictObject({
  from: z
    .union([path, z.array(path).min(1)])
    .optional()
    .describe('A path into the document, or several: the first that is not empty'),
  template: z.string().min(1).optional().describe('Text with paths in braces: "{event.reference_id}-{line.lot}"'),
  value: z.string().min(1).optional().describe('Always this value'),
  default: z.string().min(1).optional().describe('The value when there is none'),
  map: z
    .record(z.string(), z.string())
    .optional()
    .describe('Values and what replaces them; "*" is any other value. Without "*", another value makes a dead letter'),
  type: z.enum(fieldTypes).default('text').describe('What the value must read as'),
  cut: z.int().min(1).optional().describe('Longer text is cut to this number of characters'),
  required: z.boolean().default(false).describe('Without a value the document is a dead letter'),
});

export const mappingRule = z.union([path.describe('A path into the document'), fullRule]).meta({ title: 'rule' });

/** A rule with its members. */
export type FullRule = z.output<typeof fullRule>;

/** A rule as it is written: with its members, or as a path alone. */
export type MappingRule = z.output<typeof mappingRule>;
