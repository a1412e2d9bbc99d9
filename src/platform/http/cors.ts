/**
 * Cross-origin requests (Fetch standard, "HTTP CORS protocol"): lets the pages of listed origins call an API from a
 * browser. A page of `https://app.example.com` that calls `GET /api/jobs/` gets the answer with
 * `Access-Control-Allow-Origin: https://app.example.com`. A page of any other origin gets no such header, and its
 * browser keeps the answer from it. Origins are always named: `*` is never sent, and neither is permission to send
 * cookies, which these APIs do not read.
 */
import type { NextFunction, Request, Response } from 'express';

export interface CorsOptions {
  /** Like `https://app.example.com`; none: no cross-origin header is ever sent. */
  readonly origins: readonly string[];
  /** The beginnings of the paths that pages may call, such as `/api/`. */
  readonly paths: readonly string[];
}

const methods = 'GET, HEAD, POST, PUT, PATCH, DELETE';
const requestHeaders = [
  'Authorization',
  'Content-Type',
  'Idempotency-Key',
  'If-None-Match',
  'If-Range',
  'Range',
  'X-File-Name',
  'X-Request-Id',
].join(', ');
/** Beyond what a browser always shows to a page. */
const answerHeaders = [
  'Accept-Ranges',
  'Content-Disposition',
  'Content-Range',
  'ETag',
  'Feed-Order',
  'Link',
  'Location',
  'RateLimit',
  'RateLimit-Limit',
  'RateLimit-Policy',
  'RateLimit-Remaining',
  'RateLimit-Reset',
  'Retry-After',
  'WWW-Authenticate',
  'X-Request-Id',
].join(', ');
/** How long a browser remembers the answer to a preflight; an origin that is taken off the list may call for so long. */
const preflightSeconds = 600;

/** Express middleware; mount it before what refuses requests, because a page must be able to read refusals, too. */
export function allowOrigins({ origins, paths }: CorsOptions) {
  const allowed = new Set(origins);
  return (request: Request, response: Response, next: NextFunction): void => {
    if (allowed.size === 0 || !paths.some((path) => request.path.startsWith(path))) return next();
    // Also without an origin: a cache must not answer a page with what it has kept from a request of another.
    response.vary('Origin');
    const origin = request.get('origin');
    if (origin === undefined || !allowed.has(origin)) return next();
    response.setHeader('Access-Control-Allow-Origin', origin);
    if (request.method !== 'OPTIONS' || request.get('access-control-request-method') === undefined) {
      response.setHeader('Access-Control-Expose-Headers', answerHeaders);
      return next();
    }
    response.locals.route = 'preflight';
    response.setHeader('Access-Control-Allow-Methods', methods);
    response.setHeader('Access-Control-Allow-Headers', requestHeaders);
    response.setHeader('Access-Control-Max-Age', preflightSeconds);
    response.status(204).end();
  };
}
