import { Ajv2020 } from 'ajv/dist/2020.js';
import ajvFormats from 'ajv-formats';
import { describe, expect, test } from 'vitest';
import { documentJsonSchema, documentKinds } from '#connector/documents.ts';

function compile(schema: Record<string, unknown>) {
  const ajv = new Ajv2020({ strict: false });
  ajvFormats.default(ajv);
  return ajv.compile(schema);
}

const file = {
  kind: 'file',
  key: 'f',
  event: { id: 'e', name: 'Chairs', type: 'RFQ', is_test: false, tags: [] },
  question: { id: 'q', categories: [] },
};

describe('the JSON Schema of documents', () => {
  test('describes one kind, or all of them', () => {
    for (const schema of [documentJsonSchema('file'), documentJsonSchema()]) {
      const isValid = compile(schema);
      expect(isValid(file)).toBe(true);
      expect(isValid({ ...file, name: 'unknown' })).toBe(false);
      expect(isValid({ ...file, event: { ...file.event, name: null } })).toBe(false);
    }
    expect(compile(documentJsonSchema('award'))(file)).toBe(false);
  });

  test('has a pattern for decimals and a description for each kind', () => {
    const { properties } = documentJsonSchema('award') as { properties: Record<string, { pattern?: string }> };
    const decimal = new RegExp(properties['total_cost']?.pattern ?? 'none', 'v');
    expect(['1', '-0.50', '1234567890123456789012.3'].filter((text) => !decimal.test(text))).toEqual([]);
    expect(['', '1,5', '1e3', '.5'].filter((text) => decimal.test(text))).toEqual([]);
    for (const kind of documentKinds) expect(documentJsonSchema(kind)).toHaveProperty('description');
  });
});
