/**
 * Refuses requests that a page of another site makes in an operator's browser. Every browser of today says where a
 * request comes from (`Sec-Fetch-Site`); for the others there is `Origin`. A request that changes something must also
 * carry a header that no foreign page can send unasked, or, as a form, a token that it cannot know.
 */
import type { Request, RequestHandler } from 'express';
import { AppError } from '#platform/errors.ts';

/** A request that changes something carries this header, with any value: only a page of the console can send it. */
export const consoleHeader = 'X-Console-Request';

const readingMethods = new Set(['GET', 'HEAD', 'OPTIONS']);

/** Whether the request changes nothing, by its method. */
export function isReading({ method }: Pick<Request, 'method'>): boolean {
  return readingMethods.has(method);
}

/** `forms`: the paths that take a form, and check its token themselves. */
export function refuseForgery({ forms }: { forms: ReadonlySet<string> }): RequestHandler {
  return (request, _response, next) => {
    if (isReading(request)) {
      // The audit log has some of the calls that only read, under the name of the person: no link may lead to one.
      if (isForeign(request) && (!isNavigation(request) || request.path.startsWith('/api/'))) throw forged();
    } else {
      if (isForeign(request)) throw forged();
      if (request.headers[consoleHeader.toLowerCase()] === undefined && !forms.has(request.path))
        throw new AppError('forbidden', `A request that changes something must carry the header ${consoleHeader}.`);
    }
    next();
  };
}

function isForeign({ headers }: Request): boolean {
  const site = headers['sec-fetch-site'];
  if (site !== undefined) return site !== 'same-origin' && site !== 'none';
  return headers.origin !== undefined && URL.parse(headers.origin)?.host !== headers.host;
}

/** A person who follows a link from elsewhere, or comes back from the OpenID provider. */
function isNavigation({ headers, method }: Request): boolean {
  const mode = headers['sec-fetch-mode'];
  return method === 'GET' && (mode === undefined || (mode === 'navigate' && headers['sec-fetch-dest'] === 'document'));
}

function forged(): AppError {
  return new AppError('forbidden', 'The request comes from a page of another site: the console does not answer it.');
}
