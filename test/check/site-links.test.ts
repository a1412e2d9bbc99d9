/** The checker of the site's links, which `npm run docs:build` runs over the pages, sees what is wrong. */
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { faultyLinks } from '../../docs/.vitepress/check-links.ts';
import { scratchFolder } from '../harness/scratch-folder.ts';

test('a missing page, file or anchor is a fault, and what a server would find is none', async () => {
  const site = await scratchFolder();
  await mkdir(join(site, 'docs'));
  await writeFile(join(site, 'picture.png'), '');
  await writeFile(
    join(site, 'docs/index.html'),
    '<h2 id="a-heading">A</h2> <a href="#a-heading">1</a> <a href="/docs/other#b">2</a> <img src="../picture.png"> ' +
      '<a href="https://example.com/">3</a> <a href="#none">4</a> <a href="other.html#c">5</a> <a href="gone">6</a> ' +
      '<img src="/gone.png">',
  );
  await writeFile(join(site, 'docs/other.html'), '<h2 id="b">B</h2> <a href="/docs/">back</a>');
  expect((await faultyLinks(site)).toSorted()).toEqual([
    'docs/index.html: #none',
    'docs/index.html: /gone.png',
    'docs/index.html: gone',
    'docs/index.html: other.html#c',
  ]);
});
