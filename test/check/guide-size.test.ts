/** Guides stay short: people read pages of a few screens, and find the rest by links. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';

const root = join(import.meta.dirname, '../..');
const docs = join(root, 'docs');
const guides = readdirSync(docs, { recursive: true, encoding: 'utf8' }).filter(
  (path) => path.endsWith('.md') && !/^(spec|\.vitepress)\//.test(path),
);
const pages = [...guides.map((path) => join(docs, path)), join(root, 'README.md')].map((path) => ({
  path,
  text: readFileSync(path, 'utf8'),
}));

test.each(pages.map(({ path, text }) => [path.slice(root.length + 1), text.split('\n').length - 1]))(
  '%s has at most 250 lines',
  (_path, lines) => {
    expect(lines).toBeLessThanOrEqual(250);
  },
);

test('README and the pages of docs have at most 60,000 words', () => {
  const words = pages.reduce((sum, { text }) => sum + text.split(/\s+/).filter(Boolean).length, 0);
  expect(words).toBeGreaterThan(30_000);
  expect(words).toBeLessThanOrEqual(60_000);
});
