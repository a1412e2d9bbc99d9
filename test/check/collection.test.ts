/** The Postman collection in `docs/`: up to date, and true to the documents that it is made from. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { endpointTables } from '#service/openapi/api-documents.ts';
import { collectionPath, renderCollection } from '../harness/collection.ts';

interface Folder {
  item?: Folder[];
  request?: {
    method: string;
    header: { key: string; disabled: boolean }[];
    body?: { raw?: string };
    url: { raw: string; path: string[]; query?: { key: string; disabled: boolean }[]; variable?: { key: string }[] };
  };
}

const requests = (function requestsIn(folder: Folder): NonNullable<Folder['request']>[] {
  return [...(folder.request ? [folder.request] : []), ...(folder.item ?? []).flatMap(requestsIn)];
})(JSON.parse(renderCollection()));

test('docs/sourcing-service.postman_collection.json shows the calls as they are: renew it with `npm run docs:collection`', async () => {
  const text = await readFile(join(import.meta.dirname, '../..', collectionPath), 'utf8');
  expect(text === renderCollection(), `${collectionPath} is not up to date: run \`npm run docs:collection\``).toBe(
    true,
  );
});

test('the collection has each call of an API key once, and none of the operator', () => {
  const made = requests.map(({ method, url }) => `${method} /${url.path.join('/').replace(/\/$/, '')}`);
  expect(made.sort()).toEqual(
    endpointTables()
      .organisation.map(({ method, path }) => `${method} ${path}`)
      .sort(),
  );
});

test('a request holds its path’s values as variables, a body that is JSON, and no key', () => {
  for (const { method, url, body, header } of requests) {
    expect(url.raw).toBe(`{{base_url}}/${url.path.join('/')}`);
    expect((url.variable ?? []).map(({ key }) => `:${key}`)).toEqual(url.path.filter((one) => one.startsWith(':')));
    expect(typeof JSON.parse(body?.raw ?? '{}')).toBe('object');
    expect(header.map(({ key }) => key)).not.toContain('Authorization');
    const key = header.find((one) => one.key === 'Idempotency-Key');
    expect(key?.disabled).toBe(method === 'POST' && url.path[0] === 'api' ? false : undefined);
  }
});

test('no filter is switched on before its user chooses it', () => {
  const filters = requests.flatMap(({ url }) => url.query ?? []);
  expect(filters.length).toBeGreaterThan(20);
  expect(filters.filter(({ disabled }) => !disabled)).toEqual([]);
});
