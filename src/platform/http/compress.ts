/**
 * Compresses answers to GET when the client asks for it: fast rather than small, with a bounded window for each answer.
 * Answers to other methods are not compressed: they are short, and some hold a secret that is shown once, which the
 * length of a compressed answer could reveal. Files, and parts of them, are sent as they are.
 */
import { constants } from 'node:zlib';
import compression from 'compression';
import type { NextFunction, Request, Response } from 'express';

/** Compressing a shorter answer saves too little. */
const thresholdBytes = 512;

const handle = compression({
  threshold: thresholdBytes,
  level: 1,
  brotli: { params: { [constants.BROTLI_PARAM_QUALITY]: 1, [constants.BROTLI_PARAM_LGWIN]: 18 } },
  filter: (request, response) =>
    !response.hasHeader('Content-Disposition') &&
    !response.hasHeader('Content-Range') &&
    compression.filter(request, response),
});

/** Express middleware; mount it before every route. */
export function compress(request: Request, response: Response, next: NextFunction): void {
  if (request.method !== 'GET' && request.method !== 'HEAD') {
    next();
    return;
  }
  // Also where nothing is compressed, and on a 304: a cache must not send a compressed answer to a client that cannot
  // read it.
  response.vary('Accept-Encoding');
  // HEAD must have the headers of GET, and Node drops the body. For a HEAD request the middleware would set other
  // headers.
  const asGet: Request = request.method === 'GET' ? request : Object.create(request, { method: { value: 'GET' } });
  handle(asGet, response, next);
}
