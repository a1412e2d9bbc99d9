/**
 * Serves the web application, which `npm run build:console` has made: files with a hash in their names, which a browser
 * keeps for ever, and one page that loads them, which it keeps not at all. Every page of the application has this page.
 */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import express, { type Express, type Response } from 'express';
import { AppError, hasErrorCode } from '#platform/errors.ts';
import { packageDir } from '#platform/own-package.ts';

const built = join(packageDir, 'dist', 'console');

/** The application's pages, by the first part of their paths; each may have further parts. */
const webPages = [
  'events',
  'documents',
  'refused',
  'flows',
  'intakes',
  'comparisons',
  'sources',
  'system',
  'actions',
  'account',
];

/**
 * Nothing but this origin: no script or style in the page itself, no eval, no frame around it, and no text that becomes
 * HTML by assignment.
 */
const policy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self'",
  "connect-src 'self'",
  "manifest-src 'self'",
  "base-uri 'none'",
  "form-action 'self'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  "trusted-types 'none'",
].join('; ');

/** Mounts the pages and their files. */
export function mountWebFiles(app: Express, directory: string = built): void {
  app.use(
    '/assets',
    (_request, response, next) => {
      response.locals.route = '/assets';
      response.setHeader('X-Content-Type-Options', 'nosniff');
      next();
    },
    express.static(join(directory, 'assets'), { immutable: true, maxAge: '365d', index: false, redirect: false }),
  );
  app.get(['/favicon.svg'], (_request, response) => {
    response.locals.route = '/favicon.svg';
    response.sendFile(join(directory, 'favicon.svg'), { maxAge: '1d' });
  });
  const paths = ['/', ...webPages.flatMap((page) => [`/${page}`, `/${page}/*rest`])];
  app.get(paths, (_request, response) => sendPage(directory, response, 200));
  // A person with an address that leads nowhere gets the page that says so; a program gets the error.
  app.get('/*rest', (request, response, next) =>
    request.path.startsWith('/api/') || request.accepts(['json', 'html']) !== 'html'
      ? next()
      : sendPage(directory, response, 404),
  );
}

async function sendPage(directory: string, response: Response, status: number): Promise<void> {
  response.locals.route = '/';
  const page = await readPage(directory);
  response.setHeader('Content-Security-Policy', policy);
  response.setHeader('Cross-Origin-Opener-Policy', 'same-origin');
  response.setHeader('Referrer-Policy', 'no-referrer');
  response.setHeader('X-Content-Type-Options', 'nosniff');
  response.setHeader('Cache-Control', 'no-store');
  response.status(status).type('html').send(page);
}

async function readPage(directory: string): Promise<string> {
  try {
    return await readFile(join(directory, 'index.html'), 'utf8');
  } catch (cause) {
    if (!hasErrorCode(cause, 'ENOENT')) throw cause;
    throw new AppError(
      'unavailable',
      'The pages of the console are not built. Run "npm run build:console" in the folder of the program; no restart is needed.',
      { cause },
    );
  }
}
