/**
 * The OpenAPI documents over HTTP, and the page to read them and to try the calls. Nothing here needs a key, and nothing
 * is told that the source code does not tell. The page is whole in itself: a browser that is offline, or behind a proxy
 * that adds a path, shows it, and its policy forbids it to reach any other server.
 */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Express, Request, Response } from 'express';
import { refuseMethod } from '#platform/http/problem.ts';
import { type ApiName, apiNames, createApiDocuments } from './api-documents.ts';
import { renderDocsPage, startScript } from './docs-page.ts';

const policy = [
  "default-src 'none'",
  "script-src 'self'",
  // The page's package sets styles on its elements.
  "style-src 'self' 'unsafe-inline'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ');

const documentPaths: Record<ApiName, string> = {
  public: '/openapi.json',
  desk: '/openapi-desk.json',
  admin: '/openapi-admin.json',
};

const packageFile = fileURLToPath(import.meta.resolve('swagger-ui-dist/package.json'));

/** Makes the documents, and serves them and their pages from then on. */
export function serveDocuments(app: Express, options: { publicUrl?: string | undefined }): void {
  const documents = createApiDocuments(options.publicUrl);
  for (const name of apiNames) {
    const text = JSON.stringify(documents[name]);
    serve(app, documentPaths[name], (_request, response) => {
      // Asked for each time, and answered with 304 while it is the same.
      response.setHeader('Cache-Control', 'no-cache');
      response.type('application/json').send(text);
    });
    serve(app, name === 'public' ? '/docs' : `/docs/${name}`, (request, response) => {
      response.setHeader('Cache-Control', 'no-cache');
      response.setHeader('Content-Security-Policy', policy);
      response.setHeader('Referrer-Policy', 'no-referrer');
      const page = { root: rootFrom(request.path), document: documentPaths[name], assets, current: name };
      response.type('html').send(renderDocsPage(page));
    });
  }
  serveAssets(app);
}

/** The way from a page to the root of the service, as its browser sees it. */
function rootFrom(path: string): string {
  return '../'.repeat(path.split('/').length - 2) || './';
}

function fileName(name: string, version: string): string {
  return `docs/assets/${name}?v=${version}`;
}

const packageVersion = (JSON.parse(readFileSync(packageFile, 'utf8')) as { version: string }).version;
const assets = {
  style: fileName('swagger-ui.css', packageVersion),
  bundle: fileName('swagger-ui-bundle.js', packageVersion),
  start: fileName('start.js', createHash('sha256').update(startScript).digest('hex').slice(0, 12)),
};

/** Their addresses name their version, so a browser keeps them for good. */
function serveAssets(app: Express): void {
  const kept = 'public, max-age=31536000, immutable';
  for (const name of ['swagger-ui.css', 'swagger-ui-bundle.js']) {
    // Read once, and always sent whole: what sends files by parts throws for a Range or an If-Match that it cannot meet.
    const bytes = readFileSync(join(dirname(packageFile), name));
    serve(app, `/docs/assets/${name}`, (_request, response) => {
      response.setHeader('Cache-Control', kept);
      response.type(name).send(bytes);
    });
  }
  serve(app, '/docs/assets/start.js', (_request, response) => {
    response.setHeader('Cache-Control', kept);
    response.type('text/javascript').send(startScript);
  });
}

function serve(app: Express, path: string, answer: (request: Request, response: Response) => void): void {
  app.get(path, (request, response) => {
    response.locals.route = path;
    response.setHeader('X-Content-Type-Options', 'nosniff');
    // As with every endpoint: who names a tag gets 304, also where fetch() adds no-cache to it.
    if (request.headers['if-none-match'] !== undefined) delete request.headers['cache-control'];
    answer(request, response);
  });
  app.all(path, (request, response) => refuseMethod(request, response, path, 'GET, HEAD'));
}
