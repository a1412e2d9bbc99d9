/**
 * The service's HTTP API as a table in Markdown, made from its endpoints. The file of each endpoint is read from
 * `src/service/api.ts`, because an endpoint does not know its file. `npm run docs:api` writes the table to
 * `docs/api-table.md`.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { jobTypeNames } from '#contract/job.ts';
import type { LimitName } from '#contract/limits.ts';
import { endpointTables } from '#service/openapi/api-documents.ts';
import type { DescribedEndpoint } from '#service/openapi/create-openapi-document.ts';

const root = join(import.meta.dirname, '../..');
export const apiTablePath = 'docs/api-table.md';

const head = `# The HTTP API of the service

Every route, in the order in which the service tries them. What a call takes and answers stands in \`/docs\` of a running
service, and in [the API document](spec/sourcing-service-api.md). This file is made by \`npm run docs:api\`.

- **Scope**: what the API key must have; \`operator\` is the operator's token instead of an API key.
- **Rate limit**: the bucket that counts the call, for each API key ([limits.ts](../src/contract/limits.ts) has the
  numbers). Each feed has a bucket of its own. Without a bucket the call is not limited.

These routes need no key and have no limit: \`/healthz\`, \`/readyz\` and \`/metrics\`
([probes.ts](../src/platform/http/probes.ts)), \`/\`, \`/openapi.json\`, \`/openapi.yaml\`, \`/docs\` and what they load
([serve-documents.ts](../src/service/openapi/serve-documents.ts)), and the download links, which are signed
([serve-downloads.ts](../src/service/files/serve-downloads.ts)).
`;

/** The whole file. Throws for an endpoint whose row in `src/service/api.ts` is not found. */
export function renderApiTable(): string {
  const { organisation, operator } = endpointTables();
  const fileOf = createFileFinder(readFileSync(join(root, 'src/service/api.ts'), 'utf8'));
  const sections = [
    ['## `/api`: the public contract', organisation.filter(({ path }) => path.startsWith('/api/'))],
    [
      '## `/desk`: what buyers and suppliers do on screen',
      organisation.filter(({ path }) => path.startsWith('/desk/')),
    ],
    ['## `/admin`: what the operator does', operator],
  ] as const;
  const tables = sections.map(([title, endpoints]) => {
    const rows = endpoints.map((endpoint) => {
      const { method, path, scope, orScope } = endpoint;
      const file = fileOf(`${method} ${path}`);
      const link = `[${file.split('/').at(-1)}](../src/service/${file})`;
      return `| ${method} | \`${path}\` | ${orScope === undefined ? scope : `${scope} or ${orScope}`} | ${limitOf(endpoint)} | ${link} |\n`;
    });
    return `\n${title}\n\n| Method | Path | Scope | Rate limit | Handler |\n|---|---|---|---|---|\n${rows.join('')}`;
  });
  return head + tables.join('');
}

function limitOf({ limit, limitOf: ofBody }: DescribedEndpoint): string {
  const named: (LimitName | undefined)[] = ofBody ? jobTypeNames.map((type) => ofBody({ type })) : [limit];
  return [...new Set(named.filter((name) => name !== undefined))].map((name) => `\`${name}\``).join(' or ');
}

/** Finds the file of a route: the one from which its row in the source of `api.ts` imports the endpoint. */
function createFileFinder(source: string): (route: string) => string {
  const files = new Map<string, string>();
  for (const [, names = '', file = ''] of source.matchAll(/^import \{([^}]+)\} from '\.\/([^']+)';$/gm))
    for (const name of names.split(',')) files.set(name.trim(), file);
  const rows = [...source.matchAll(/^ {4}'([A-Z]+ \/[^']+)': (.+),$/gm)].map(([, route = '', value = '']) => ({
    form: new RegExp(`^${route.replaceAll(/\{\w+\}/g, '[^/]+')}$`),
    file: [...value.matchAll(/\w+/g)].map(([name]) => files.get(name)).find((file) => file !== undefined),
  }));
  return (route) => {
    const file = rows.find(({ form }) => form.test(route))?.file;
    if (file === undefined)
      throw new Error(`src/service/api.ts has no row for ${route}, or one that is not understood.`);
    return file;
  };
}

if (import.meta.main) writeFileSync(join(root, apiTablePath), renderApiTable());
