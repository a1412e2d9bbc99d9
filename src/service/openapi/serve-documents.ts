/**
 * Serves the OpenAPI documents, and the page for reading them and trying the calls. No key is needed: the documents say
 * nothing that the source code does not say. The page loads nothing from other servers, and its policy forbids that. So
 * it also works in a browser that is offline, or behind a proxy that adds a path.
 */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Express, Request, Response } from 'express';
import { stringify as toYaml } from 'yaml';
import { hasErrorCode } from '#platform/errors.ts';
import { allowNotModified } from '#platform/http/endpoint.ts';
import { refuseMethod } from '#platform/http/problem.ts';
import { installCommand } from '#platform/optional-package.ts';
import type { Profile } from '../profile/profile.ts';
import { createApiDocuments } from './api-documents.ts';
import { apiNames } from './api-names.ts';
import { docsPaths, renderDocsPage, startScript, yamlName } from './docs-page.ts';
import type { JsonObject } from './schema-set.ts';

const policy = [
  "default-src 'none'",
  "script-src 'self'",
  // Swagger UI sets styles on its elements.
  "style-src 'self' 'unsafe-inline'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ');

/**
 * Serves the documents and their pages. The documents are made at the first request: at the start of the service it
 * would be a third of the work.
 */
export function serveDocuments(app: Express, options: { publicUrl?: string | undefined; profile: Profile }): void {
  let documents: ReturnType<typeof createApiDocuments> | undefined;
  const swagger = findSwagger();
  for (const current of apiNames) {
    const { document, page } = docsPaths[current];
    const serveAs = (path: string, mediaType: string, write: (made: JsonObject) => string) => {
      let text: string | undefined;
      serve(app, path, (_request, response) => {
        // The browser asks each time, and gets a 304 while the document is the same.
        response.setHeader('Cache-Control', 'no-cache');
        documents ??= createApiDocuments(options.publicUrl, options.profile);
        text ??= write(documents[current]);
        response.type(mediaType).send(text);
      });
    };
    serveAs(`/${document}`, 'application/json', (made) => JSON.stringify(made));
    // Without aliases, which JSON does not have and some readers of OpenAPI do not follow.
    serveAs(`/${yamlName(document)}`, 'application/yaml', (made) => toYaml(made, { aliasDuplicateObjects: false }));
    serve(app, `/${page}`, (request, response) => {
      response.setHeader('Cache-Control', 'no-cache');
      response.setHeader('Content-Security-Policy', policy);
      response.setHeader('Referrer-Policy', 'no-referrer');
      response
        .type('html')
        .send(renderDocsPage({ root: rootFrom(request.path), current, assets: swagger?.assets, install }));
    });
  }
  if (swagger) serveAssets(app, swagger.folder);
  // Behind a proxy that adds a path, the public address names that path.
  const { pathname } = new URL(options.publicUrl ?? 'http://localhost');
  serve(app, '/', (_request, response) => {
    response.setHeader('Cache-Control', 'no-cache');
    response.redirect(`${pathname.replace(/\/$/, '')}/docs`);
  });
}

/** The relative path from a page to the root of the service, as the browser sees it. */
function rootFrom(path: string): string {
  return '../'.repeat(path.split('/').length - 2) || './';
}

function fileName(name: string, version: string): string {
  return `docs/assets/${name}?v=${version}`;
}

const install = installCommand('docsPage');

/** Where the page's files are; undefined where the optional package is not installed. */
function findSwagger() {
  try {
    const packageFile = fileURLToPath(import.meta.resolve('swagger-ui-dist/package.json'));
    const { version } = JSON.parse(readFileSync(packageFile, 'utf8')) as { version: string };
    const assets = {
      style: fileName('swagger-ui.css', version),
      bundle: fileName('swagger-ui-bundle.js', version),
      start: fileName('start.js', createHash('sha256').update(startScript).digest('hex').slice(0, 12)),
    };
    return { folder: dirname(packageFile), assets };
  } catch (error) {
    if (hasErrorCode(error, 'ERR_MODULE_NOT_FOUND') || hasErrorCode(error, 'ENOENT')) return undefined;
    throw error;
  }
}

/** The addresses contain the version, so a browser may keep the files forever. */
function serveAssets(app: Express, folder: string): void {
  const kept = 'public, max-age=31536000, immutable';
  for (const name of ['swagger-ui.css', 'swagger-ui-bundle.js']) {
    // Read when somebody opens the page, as few services show it, and kept: many who ask at once share it. Always sent
    // whole: Express's sendFile throws for a Range or an If-Match that it cannot satisfy.
    let bytes: Buffer | undefined;
    serve(app, `/docs/assets/${name}`, (_request, response) => {
      bytes ??= readFileSync(join(folder, name));
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
    allowNotModified(request);
    answer(request, response);
  });
  app.route(path).all((request, response) => refuseMethod(request, response, path, 'GET, HEAD'));
}
