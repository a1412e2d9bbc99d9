/** `docs/glossary.md` stays true: its terms are in order, and the code uses each of them. */
import { execFileSync } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';

const root = join(import.meta.dirname, '../..');

interface Entry {
  readonly term: string;
  readonly definition: string;
}

/** The rows `| **term** | definition |`. */
function entriesOf(markdown: string): Entry[] {
  return [...markdown.matchAll(/^\| \*\*(.+?)\*\* \| (.+) \|$/gm)].map(([, term = '', definition = '']) => ({
    term,
    definition,
  }));
}

/** Text and identifiers as words in lower case, with one blank between them: `lateEffectMs` is `late effect ms`. */
function wordsOf(text: string): string {
  return text
    .replaceAll(/([a-z0-9])([A-Z])/g, '$1 $2')
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, ' ');
}

const glossary = await readFile(join(root, 'docs/glossary.md'), 'utf8');
const entries = entriesOf(glossary);

/** Every source file of the programs and the connectors. */
async function readSources(): Promise<string> {
  const listed = execFileSync('git', ['ls-files', '-co', '--exclude-standard', 'src', 'connectors'], {
    cwd: root,
    encoding: 'utf8',
  });
  const paths = listed.split('\n').filter((path) => /\.(ts|sql|py)$/.test(path));
  const texts = await Promise.all(paths.map((path) => readFile(join(root, path), 'utf8').catch(() => '')));
  return wordsOf(texts.join('\n'));
}

test('every row of the table is read', () => {
  const rows = glossary.split('\n').filter((line) => line.startsWith('| **'));
  expect(rows.length).toBeGreaterThan(0);
  expect(entries).toHaveLength(rows.length);
});

test('terms are unique and in alphabetical order', () => {
  const terms = entries.map(({ term }) => term.toLowerCase());
  expect(terms).toEqual([...new Set(terms)].toSorted((a, b) => (a < b ? -1 : 1)));
});

test('the code uses each term, in a name or in a comment', async () => {
  const sources = await readSources();
  const isUsed = (term: string) => new RegExp(` ${wordsOf(term).trim()}e?s? `).test(sources);
  expect(entries.map(({ term }) => term).filter((term) => !isUsed(term))).toEqual([]);
});

test('words of identifiers are told apart', () => {
  expect(wordsOf('lateEffectMs; first_seen_bound, `wake-up`')).toBe('late effect ms first seen bound wake up ');
});
