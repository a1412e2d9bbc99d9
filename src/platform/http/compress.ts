/**
 * Answers to GET, compressed when the client asks. Fast rather than small, with a bounded window for each answer. The
 * other methods answer shortly, and some of them with a secret that is shown once: the length of a compressed answer
 * would tell of it. Files, and parts of them, are sent as they are.
 */
import { constants } from 'node:zlib';
import compression from 'compression';
import type { NextFunction, Request, Response } from 'express';

/** A shorter answer does not get shorter by enough to be worth it. */
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

/** Express middleware; stands before everything that answers. */
export function compress(request: Request, response: Response, next: NextFunction): void {
  if (request.method !== 'GET' && request.method !== 'HEAD') {
    next();
    return;
  }
  // Also where nothing is compressed, and on a 304: a cache must not give a compressed answer to one who cannot read it.
  response.vary('Accept-Encoding');
  // HEAD has the headers of GET, and Node drops its body; told that it is HEAD, the handler would give others.
  const asGet: Request = request.method === 'GET' ? request : Object.create(request, { method: { value: 'GET' } });
  handle(asGet, response, next);
}
