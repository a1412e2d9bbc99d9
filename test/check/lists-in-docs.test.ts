/** Where the guides list the feeds or the kinds of documents, they list all of them. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { documentKinds } from '#connector/documents.ts';
import { feedNames } from '#contract/feed.ts';

const root = join(import.meta.dirname, '../..');

/** The lines of a file that match; throws where there is none, because then the list has moved. */
async function linesOf(path: string, pattern: RegExp): Promise<string> {
  const lines = (await readFile(join(root, path), 'utf8')).split('\n').filter((line) => pattern.test(line));
  if (lines.length === 0) throw new Error(`${path} has no line like ${String(pattern)} any more: correct this test.`);
  return lines.join('\n');
}

describe.each([
  ['docs/service.md', 'in the table "When a feed changes"', /^\| `[a-z-]+` \|/],
  ['docs/glossary.md', 'in the definition of "feed"', /^\| \*\*feed\*\* \|/],
  ['config/bridge.yaml', 'in the example of `feeds`', /^ *# +feeds: \[/],
])('%s names, %s', (path, _place, pattern) => {
  test.each(feedNames)('the feed %s', async (feed) => {
    expect(await linesOf(path, pattern)).toMatch(new RegExp(`(?<![\\w-])${feed}(?![\\w-])`));
  });
});

describe.each([
  ['docs/documents.md', 'in its table', /^\| `[a-z-]+` \|/],
  ['docs/glossary.md', 'in the definition of "document kind"', /^\| \*\*document kind\*\* \|/],
  ['config/bridge.yaml', 'in the comment on `documents`', /kinds of documents:/i],
])('%s names, %s', (path, _place, pattern) => {
  test.each(documentKinds)('the kind %s', async (kind) => {
    expect(await linesOf(path, pattern)).toMatch(new RegExp(`(?<![\\w-])${kind}(?![\\w-])`));
  });
});
