import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { apiTablePath, renderApiTable } from '../harness/api-table.ts';

test('docs/api-table.md shows the endpoints as they are: renew it with `npm run docs:api`', async () => {
  const text = await readFile(join(import.meta.dirname, '../..', apiTablePath), 'utf8');
  expect(text, 'docs/api-table.md is not up to date: run `npm run docs:api`').toBe(renderApiTable());
});
