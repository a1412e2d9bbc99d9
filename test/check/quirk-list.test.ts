import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { quirkTable } from '#service/misbehave/quirk-table.ts';
import { quirkListPath, renderQuirkList } from '../harness/quirk-list.ts';

test('docs/misbehave.md lists the quirks as they are: renew it with `npm run docs:misbehave`', async () => {
  const text = await readFile(join(import.meta.dirname, '../..', quirkListPath), 'utf8');
  expect(text, 'docs/misbehave.md is not up to date: run `npm run docs:misbehave`').toBe(renderQuirkList(text));
  for (const { name } of quirkTable) expect(text).toMatch(new RegExp(`\\| \`${name}[\`=]`));
});
