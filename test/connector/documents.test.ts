import { Ajv2020 } from 'ajv/dist/2020.js';
import ajvFormats from 'ajv-formats';
import { describe, expect, test } from 'vitest';
import { documentJsonSchema } from '#connector/documents.ts';

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
});
