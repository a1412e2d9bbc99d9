/** Checks the pages that were built: every link and image leads to a file of the site, and every anchor to an element. */
import { existsSync, statSync } from 'node:fs';
import { glob, readFile } from 'node:fs/promises';
import { dirname, join, relative, resolve } from 'node:path';

/** Returns `page: link` of each link whose target is missing. Links to other hosts are not followed. */
export async function faultyLinks(site: string): Promise<string[]> {
  const pages = new Map<string, string>();
  for await (const file of glob('**/*.html', { cwd: site }))
    pages.set(join(site, file), await readFile(join(site, file), 'utf8'));
  const ids = new Map(
    [...pages].map(([file, html]) => [file, new Set([...html.matchAll(/\sid="([^"]+)"/g)].map(([, id]) => id))]),
  );
  return [...pages].flatMap(([page, html]) =>
    [...new Set([...html.matchAll(/\s(?:href|src)="([^"]*)"/g)].map(([, link = '']) => link.replaceAll('&amp;', '&')))]
      .filter((link) => !/^([a-z][a-z0-9+.-]*:|\/\/)/i.test(link))
      .filter((link) => {
        const [path = '', anchor = ''] = link.split('#');
        const target = fileOf(site, page, path.split('?')[0] ?? '');
        if (target === undefined) return true;
        return anchor !== '' && ids.get(target)?.has(decodeURIComponent(anchor)) === false;
      })
      .map((link) => `${relative(site, page)}: ${link}`),
  );
}

/** The file that a server sends for a path. */
function fileOf(site: string, page: string, path: string): string | undefined {
  if (path === '') return page;
  const target = path.startsWith('/')
    ? join(site, decodeURIComponent(path))
    : resolve(dirname(page), decodeURIComponent(path));
  return [target, `${target}.html`, join(target, 'index.html')].find(
    (file) => existsSync(file) && statSync(file).isFile(),
  );
}
