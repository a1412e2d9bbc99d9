/** The OpenAPI documents by the strict rules of a public validator. */
import { createConfig, lintFromString } from '@redocly/openapi-core';
import { expect, test } from 'vitest';
import { createApiDocuments } from '../../src/service/openapi/api-documents.ts';
import { apiNames } from '../../src/service/openapi/api-names.ts';

// biome-ignore lint/suspicious/noExplicitAny: a test looks into documents of every shape
// oxlint-disable-next-line typescript/no-explicit-any
const documents: Record<string, any> = createApiDocuments();

async function lint(document: object) {
  const config = await createConfig({
    extends: ['recommended-strict'],
    rules: {
      // The package is private: it has no licence that a URL or an identifier could name.
      'info-license-strict': 'off',
      // The contract writes two of its paths with a slash at the end.
      'no-path-trailing-slash': 'off',
    },
  });
  const problems = await lintFromString({ source: JSON.stringify(document), absoluteRef: '/openapi.json', config });
  return problems.map(({ ruleId, message, location }) => `${ruleId}: ${message} at ${location[0]?.pointer}`);
}

test.each(apiNames)('the document %s passes the strict recommended rules', async (name) => {
  expect(await lint(documents[name])).toEqual([]);
});

test('the validator reports faults', async () => {
  const broken = structuredClone(documents['public']);
  broken.paths['/api/jobs/{id}'].get.operationId = 'list-jobs';
  broken.paths['/api/jobs/{id}'].get.parameters = [];
  broken.components.schemas.Job.type = 'thing';
  const problems = await lint(broken);
  expect(problems.some((problem) => problem.startsWith('operation-operationId-unique'))).toBe(true);
  expect(problems.some((problem) => problem.startsWith('path-parameters-defined'))).toBe(true);
  expect(problems.some((problem) => problem.startsWith('struct'))).toBe(true);
});
