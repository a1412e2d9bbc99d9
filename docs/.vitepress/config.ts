/**
 * The site of the documentation: `npm run docs` shows it, `npm run docs:build` writes it to dist/site and checks every
 * link. The pages are the Markdown files of the repository as they stand: a link to another of them leads to its page; one
 * to any other file is the file's name, or a link if DOCS_REPOSITORY says where the files can be read.
 */
import { existsSync, readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { dirname, join, relative, resolve } from 'node:path';
import { defineConfig } from 'vitepress';
import { faultyLinks } from './check-links.ts';

const root = resolve(import.meta.dirname, '../..');
const { version, repository: known } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
  version: string;
  repository?: string;
};
/** For example `https://git.example.com/acme/sourcing-bridge/blob/main/`. */
const repository = process.env['DOCS_REPOSITORY'] ?? known;

const section = (text: string, ...items: [string, string][]) => ({
  text,
  collapsed: false,
  items: items.map(([title, path]) => ({ text: title, link: `/${path}` })),
});
const connectors = ['sap-s4hana', 'odoo', 'tryton', 'postgres', 'http', 'file', 'memory'];

const logo = `data:image/svg+xml,${encodeURIComponent(readFileSync(join(root, 'docs/images/logo.svg'), 'utf8'))}`;

/** Folders that have no pages. */
const excluded = ['dist', 'node_modules', 'src', 'test'];

/** The anchor of a heading as Git hosts make it, for which the links are written. */
const anchorOf = (title: string) =>
  title
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
    .trim()
    .replaceAll(/\s/g, '-');

/** Where a link of a page leads on the site; undefined for a file that is no page. */
function onSite(page: string, link: string): string | undefined {
  const [path = '', anchor] = link.split('#');
  const target = resolve(root, dirname(page), decodeURIComponent(path));
  if (excluded.includes(relative(root, target).split('/')[0] ?? '')) return undefined;
  if (path.endsWith('.md')) return link;
  if (target === root || !existsSync(join(target, 'README.md'))) return undefined;
  return `${path.replace(/\/$/, '')}/README.md${anchor === undefined ? '' : `#${anchor}`}`;
}

// oxlint-disable-next-line import/no-default-export -- VitePress reads it.
export default defineConfig({
  title: 'sourcing-bridge',
  description: 'Keeps ERPs in step with a sourcing service: every award once, none lost',
  srcDir: '..',
  srcExclude: [...excluded.map((folder) => `${folder}/**`), '**/node_modules/**'],
  outDir: '../dist/site',
  cacheDir: '../node_modules/.cache/vitepress',
  lastUpdated: false,
  // A page that is linked and does not exist ends the build; check-links.ts also sees anchors and files.
  ignoreDeadLinks: false,
  head: [
    ['meta', { name: 'referrer', content: 'no-referrer' }],
    ['link', { rel: 'icon', href: logo }],
  ],
  markdown: {
    languageAlias: { caddyfile: 'nginx' },
    anchor: { slugify: anchorOf },
    config: (markdown) => {
      // Two braces in a text are braces, and no program.
      for (const name of ['text', 'code_inline'] as const) {
        const render = markdown.renderer.rules[name];
        markdown.renderer.rules[name] = (...args) => (render?.(...args) ?? '').replaceAll('{{', '&#123;&#123;');
      }
      markdown.core.ruler.push('links of the repository', (state) => {
        const page = (state.env as { relativePath: string }).relativePath;
        for (const block of state.tokens) {
          const { children } = block;
          // Git hosts draw it; here it is the text that it is drawn of.
          if (block.type === 'fence' && block.info === 'mermaid') block.info = '';
          const closing: string[] = [];
          for (const token of children ?? []) {
            if (token.type === 'link_close') token.tag = closing.pop() ?? 'a';
            if (token.type !== 'link_open') continue;
            const link = token.attrGet('href') ?? '';
            if (/^([a-z][a-z0-9+.-]*:|\/|#)/i.test(link)) {
              closing.push('a');
              continue;
            }
            const target = onSite(page, link);
            const file = relative(root, resolve(root, dirname(page), link));
            if (target !== undefined) token.attrSet('href', target);
            else if (repository !== undefined) token.attrSet('href', new URL(file, repository).href);
            else {
              token.tag = 'span';
              token.attrs = [['title', `In the repository: ${file}`]];
            }
            closing.push(token.tag);
          }
        }
      });
    },
  },
  buildEnd: async ({ outDir }) => {
    // The first page has an address of its own, as each page has.
    await writeFile(
      join(outDir, 'index.html'),
      '<!doctype html><meta http-equiv="refresh" content="0; url=docs/index.html"><a href="docs/index.html">sourcing-bridge</a>\n',
    );
    const faults = await faultyLinks(outDir);
    if (faults.length > 0) throw new Error(`Links without a target:\n  ${faults.join('\n  ')}`);
    process.stdout.write('Every link has its target. The site is in dist/site.\n');
  },
  vite: {
    plugins: [
      {
        name: 'first page',
        configureServer: (server) => {
          server.middlewares.use((request, response, next) => {
            if (request.url !== '/') return next();
            response.writeHead(302, { Location: '/docs/' }).end();
          });
        },
      },
    ],
  },
  themeConfig: {
    logoLink: '/docs/',
    search: { provider: 'local' },
    outline: [2, 3],
    logo,
    nav: [
      { text: 'Start', link: '/docs/start' },
      { text: 'Commands', link: '/docs/reference/commands' },
      { text: version, link: '/CHANGELOG' },
    ],
    ...(repository !== undefined && { editLink: { pattern: `${repository.replace('/blob/', '/edit/')}:path` } }),
    sidebar: [
      section(
        'Try it',
        ['What it does', 'docs/'],
        ['Is this for you?', 'docs/comparison'],
        ['Proofs', 'docs/prove-it'],
      ),
      section(
        'Connect your service and your ERP',
        ['15 minutes', 'docs/start'],
        ['Every step', 'docs/connect'],
        ['Documents and mapping', 'docs/documents'],
        ['Suppliers to the service', 'docs/way-back'],
        ['Requisitions to the service', 'docs/requisitions'],
        ['Webhooks', 'docs/webhooks'],
        ['What each connector does', 'docs/connectors'],
        ...connectors.map((name): [string, string] => [name, `connectors/${name}/README`]),
      ),
      section('Write a connector', ['The guide', 'docs/writing-a-connector']),
      section(
        'Run it for real',
        ['Operate', 'docs/operations'],
        ['Watch', 'docs/watch'],
        ['Repair', 'docs/repair'],
        ['The console', 'docs/console'],
        ['Who did what', 'docs/audit-log'],
        ['Traces', 'docs/traces'],
        ['Install', 'docs/install'],
        ['One machine: systemd', 'docs/one-machine'],
        ['Containers', 'docker/README'],
        ['Kubernetes', 'docs/kubernetes'],
        ['Behind a proxy', 'docs/behind-a-proxy'],
        ['Processes, database, settings', 'docs/processes'],
        ['Scaling', 'docs/scaling'],
        ['Backup and restore', 'docs/backup'],
        ['Upgrade and roll back', 'docs/upgrade'],
        ['Data protection', 'docs/data-protection'],
        ['Security questionnaire', 'docs/questionnaire'],
      ),
      section(
        'The Sourcing Service',
        ['Run it', 'docs/service'],
        ['Operate it', 'docs/service-operations'],
        ['Use its API', 'docs/api-for-integrators'],
        ['Every call', 'docs/api-table'],
        ['The operator’s calls', 'docs/spec/operator-api'],
        ['Receive its webhooks', 'docs/library'],
        ['Let it misbehave', 'docs/misbehave'],
        ['The contract', 'docs/spec/sourcing-service-api'],
        ['Decisions', 'docs/spec/decisions'],
      ),
      section(
        'Reference',
        ['Commands', 'docs/reference/commands'],
        ['Commands of the bridge: look', 'docs/reference/commands-look'],
        ['Commands of the bridge: change', 'docs/reference/commands-bridge'],
        ['Settings: programs, service', 'docs/reference/settings'],
        ['Settings: bridge, sources', 'docs/reference/settings-bridge'],
        ['Settings: flows, intakes', 'docs/reference/settings-flows'],
        ['Conditions', 'docs/reference/conditions'],
        ['Metrics', 'docs/reference/metrics'],
        ['Errors', 'docs/reference/errors'],
        ['Glossary', 'docs/glossary'],
      ),
      section(
        'Work on it',
        ['Contribute', 'CONTRIBUTING'],
        ['The repository', 'README'],
        ['How it reads and delivers', 'docs/delivery'],
        ['Checkpoints', 'docs/checkpoints'],
        ['Security', 'SECURITY'],
        ['Changes', 'CHANGELOG'],
      ),
    ],
  },
});
