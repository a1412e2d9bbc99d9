/** Every relative link of every Markdown file leads to a file or folder that exists, and to a heading of it. */
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { expect, test } from 'vitest';

const root = join(import.meta.dirname, '../..');

/** The text outside of code blocks and code spans, where nothing is a link. */
function proseOf(markdown: string): string {
  return markdown.replaceAll(/^ *```[\s\S]*?^ *```/gm, '').replaceAll(/`[^`\n]*`/g, '');
}

/** The targets of links and images that are neither URLs nor absolute paths. */
function relativeLinks(markdown: string): string[] {
  const inline = [...proseOf(markdown).matchAll(/\]\(([^()\s]+)(?: "[^"]*")?\)/g)].map(([, target = '']) => target);
  const named = [...proseOf(markdown).matchAll(/^\[[^\]]+\]: (\S+)/gm)].map(([, target = '']) => target);
  return [...inline, ...named].filter((target) => !/^[a-z][a-z0-9+.-]*:|^\//i.test(target));
}

/** The anchors that GitHub makes of the headings. */
function anchorsOf(markdown: string): string[] {
  const headings = [...markdown.replaceAll(/^ *```[\s\S]*?^ *```/gm, '').matchAll(/^#+ (.+)$/gm)];
  return headings.map(([, title = '']) =>
    title
      .replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1')
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
      .trim()
      .replaceAll(/\s/g, '-'),
  );
}

/** What is wrong with the link; undefined for one that works. `from` is the path of the Markdown file. */
function faultOf(from: string, link: string): string | undefined {
  const [path = '', anchor] = link.split('#');
  const target = path === '' ? from : resolve(dirname(from), decodeURIComponent(path));
  if (!existsSync(target)) return 'no such file';
  if (anchor === undefined || !target.endsWith('.md')) return undefined;
  return anchorsOf(readFileSync(target, 'utf8')).includes(anchor) ? undefined : 'no such heading';
}

const listed = execFileSync('git', ['ls-files', '-co', '--exclude-standard', '*.md'], { cwd: root, encoding: 'utf8' });
const files = listed.split('\n').filter((path) => path !== '' && existsSync(join(root, path)));

test('there are Markdown files with links', () => {
  expect(files).toContain('README.md');
  expect(relativeLinks(readFileSync(join(root, 'README.md'), 'utf8')).length).toBeGreaterThan(10);
});

test.each(files)('every relative link of %s works', (path) => {
  const from = join(root, path);
  const faults = relativeLinks(readFileSync(from, 'utf8')).map((link) => ({ link, fault: faultOf(from, link) }));
  expect(faults.filter(({ fault }) => fault !== undefined)).toEqual([]);
});

test('links are found as they stand in the text, and not in code', () => {
  const markdown =
    '[a](b.md) ![c](d/e.png "f")\n\n```\n[g](h.md)\n```\n`[i](j.md)` [k](https://l) [m](#n-o)\n\n[p]: q.md\n';
  expect(relativeLinks(markdown)).toEqual(['b.md', 'd/e.png', '#n-o', 'q.md']);
});

test('a missing file and a missing heading are faults', () => {
  const from = join(root, 'docs/documents.md');
  expect(faultOf(from, '#field-mapping')).toBeUndefined();
  expect(faultOf(from, 'service.md#a-tour-in-ten-calls')).toBeUndefined();
  expect(faultOf(from, 'no-such-page.md')).toBe('no such file');
  expect(faultOf(from, 'service.md#no-such-heading')).toBe('no such heading');
});
