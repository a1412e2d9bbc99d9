/** The documents and their pages over HTTP: without a key, without other servers, and cached only while unchanged. */
import express from 'express';
import { describe, expect, onTestFinished, test } from 'vitest';
import { parse } from 'yaml';
import { listen } from '#platform/http/server.ts';
import { createApiDocuments } from '#service/openapi/api-documents.ts';
import { serveDocuments } from '#service/openapi/serve-documents.ts';
import { specProfile } from '#service/profile/spec-profile.ts';
import { request } from '../../harness/request.ts';
import { startTestService } from '../../harness/test-service.ts';

const service = await startTestService();
const get = (path: string, headers: Record<string, string> = {}) => request('GET', service.url + path, { headers });

const documents = createApiDocuments();
const files = { '/openapi.json': 'public', '/openapi-desk.json': 'desk', '/openapi-admin.json': 'admin' } as const;
const pages = { '/docs': '/openapi.json', '/docs/desk': '/openapi-desk.json', '/docs/admin': '/openapi-admin.json' };

describe.each(Object.entries(files))('%s', (path, name) => {
  test('is the document, without a key', async () => {
    const answer = await get(path);
    expect([answer.status, answer.headers.get('content-type')]).toEqual([200, 'application/json; charset=utf-8']);
    expect(answer.body).toEqual(documents[name]);
  });

  test('is requested each time, and not sent again while it is the same', async () => {
    const first = await get(path);
    expect(first.headers.get('cache-control')).toBe('no-cache');
    expect((await get(path, { 'if-none-match': first.headers.get('etag') ?? '' })).status).toBe(304);
  });
});

describe.each(Object.entries(files))('%s in YAML', (jsonPath, name) => {
  const path = jsonPath.replace('.json', '.yaml');

  test('is the same document, without a key and without aliases', async () => {
    const answer = await get(path);
    expect([answer.status, answer.headers.get('content-type')]).toEqual([200, 'application/yaml; charset=utf-8']);
    expect(parse(answer.body, { maxAliasCount: 0 })).toEqual(documents[name]);
  });

  test('is asked for again each time, and not sent again while it is the same', async () => {
    const first = await get(path);
    expect(first.headers.get('cache-control')).toBe('no-cache');
    expect((await get(path, { 'if-none-match': first.headers.get('etag') ?? '' })).status).toBe(304);
  });
});

describe('the root', () => {
  test('redirects to the page of the public API', async () => {
    for (const method of ['GET', 'HEAD']) {
      const answer = await request(method, `${service.url}/`);
      expect([answer.status, answer.headers.get('location')]).toEqual([302, '/docs']);
    }
    expect((await fetch(service.url)).url).toBe(`${service.url}/docs`);
  });

  test('redirects below the path of the public address', async () => {
    const app = express();
    serveDocuments(app, { profile: specProfile, publicUrl: 'https://example.com/sourcing' });
    const server = await listen(app, { host: '127.0.0.1', port: 0 });
    onTestFinished(() => server.close(0));
    expect((await request('GET', server.url)).headers.get('location')).toBe('/sourcing/docs');
  });
});

/** What a page loads, as a browser resolves it. */
function addressesIn(html: string, page: string): URL[] {
  return [...html.matchAll(/(?:src|href|data-document)="([^"]*)"/g)].map(
    ([, address = '']) => new URL(address, service.url + page),
  );
}

describe.each(Object.entries(pages))('the page %s', (path, document) => {
  test.each([path, `${path}/`])('at %s loads only what this server has, the document among it', async (page) => {
    const { status, headers, body } = await get(page);
    expect([status, headers.get('content-type')]).toEqual([200, 'text/html; charset=utf-8']);
    const addresses = addressesIn(body, page).filter(({ protocol }) => protocol !== 'data:');
    expect(new Set(addresses.map(({ origin }) => origin))).toEqual(new Set([new URL(service.url).origin]));
    const found = addresses.map(({ pathname }) => pathname);
    expect(found).toEqual(expect.arrayContaining([document, ...Object.keys(pages).filter((other) => other !== path)]));
    for (const address of addresses) expect((await get(address.pathname + address.search)).status).toBe(200);
  });

  test('may run its own scripts and reach its own server, and nothing else', async () => {
    const { headers } = await get(path);
    const policy = headers.get('content-security-policy')?.split('; ') ?? [];
    expect(policy).toContain("default-src 'none'");
    expect(policy).toContain("script-src 'self'");
    expect(policy).toContain("connect-src 'self'");
    expect(policy).toContain("frame-ancestors 'none'");
    expect(policy.filter((directive) => /https?:|\*|unsafe-eval|^script-src.*unsafe-inline/.test(directive))).toEqual(
      [],
    );
    expect(headers.get('referrer-policy')).toBe('no-referrer');
    expect(headers.get('x-content-type-options')).toBe('nosniff');
  });
});

test('browsers may keep the files of the pages forever, because their addresses contain the version', async () => {
  const assets = addressesIn((await get('/docs')).body, '/docs').filter(({ pathname }) =>
    pathname.includes('/assets/'),
  );
  expect(assets.map(({ pathname }) => pathname)).toEqual([
    '/docs/assets/swagger-ui.css',
    '/docs/assets/swagger-ui-bundle.js',
    '/docs/assets/start.js',
  ]);
  for (const { pathname, search } of assets) {
    expect(search).toMatch(/^\?v=[\w.-]+$/);
    const { headers } = await get(pathname + search);
    expect(headers.get('cache-control')).toBe('public, max-age=31536000, immutable');
    expect(headers.get('content-type')).toMatch(pathname.endsWith('.css') ? /^text\/css/ : /^text\/javascript/);
    expect(headers.get('x-content-type-options')).toBe('nosniff');
  }
});

test('the page stores no key and calls no validator', async () => {
  const { body } = await get('/docs/assets/start.js');
  expect(body).toContain('persistAuthorization: false');
  expect(body).toContain('validatorUrl: null');
});

test('no other file of the package is served', async () => {
  for (const name of [
    'package.json',
    'index.html',
    'swagger-initializer.js',
    '..%2fpackage.json',
    '%2e%2e/package.json',
  ])
    expect((await get(`/docs/assets/${name}`)).status).toBe(404);
});

test('HEAD answers as GET without the body, and another method is refused with the allowed methods', async () => {
  for (const path of [
    ...Object.keys(files),
    '/openapi.yaml',
    ...Object.keys(pages),
    '/docs/assets/start.js',
    '/docs/assets/swagger-ui.css',
  ]) {
    const head = await request('HEAD', service.url + path);
    expect([path, head.status, head.body]).toEqual([path, 200, '']);
    const refused = await request('POST', service.url + path, { body: {} });
    expect([path, refused.status, refused.headers.get('allow')]).toEqual([path, 405, 'GET, HEAD']);
  }
});
