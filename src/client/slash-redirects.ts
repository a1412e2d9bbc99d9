/**
 * Follows a permanent redirect (301, 308) that only adds a slash to the path, as many frameworks answer. Nothing else is
 * followed: another origin would get the API key, and another path could be anything. The redirect is remembered, so
 * that later requests go to the right path at once. Example, with the base URL `https://erp.example.com`:
 *
 * | request                       | 301 to                                          | what happens                         |
 * |-------------------------------|-------------------------------------------------|--------------------------------------|
 * | GET /api/feeds/awards?a=1     | /api/feeds/awards/                              | GET /api/feeds/awards/?a=1, once     |
 * | GET /api/feeds/awards/?a=1    | anything                                        | an error, and the path is forgotten  |
 * | GET /api/feeds/awards?a=1     | http://erp.example.com/api/feeds/awards/        | an error: another origin             |
 * | GET /api/feeds/awards?a=1     | /login/                                         | an error: another path               |
 */
import type { GuardedResponse } from '#platform/guarded-fetch/guarded-request.ts';

/** Paths that name single objects are many: they are not remembered beyond this. */
const pathsMax = 100;

/**
 * Returns a function that requests a path and follows such a redirect once. `request` gets the path with its query, from
 * the base URL on.
 */
export function createSlashRedirects(base: string) {
  const slashed = new Set<string>();
  return async <Answer extends { readonly received: GuardedResponse }>(
    target: string,
    request: (target: string) => Promise<Answer>,
  ): Promise<Answer> => {
    const queryAt = target.indexOf('?');
    const path = queryAt === -1 ? target : target.slice(0, queryAt);
    const withSlash = queryAt === -1 ? `${path}/` : `${path}/${target.slice(queryAt)}`;
    if (!slashed.has(path)) {
      const answer = await request(target);
      if (!addsSlash(base + path, answer.received)) return answer;
      if (slashed.size < pathsMax) slashed.add(path);
    }
    const answer = await request(withSlash);
    const { status } = answer.received;
    if (status === 404 || isRedirect(status)) slashed.delete(path);
    return answer;
  };
}

function addsSlash(url: string, { status, headers }: GuardedResponse): boolean {
  const from = URL.parse(url);
  const to = URL.parse(headers['location'] ?? '', url);
  if (!from || !to || (status !== 301 && status !== 308)) return false;
  const isPlain = to.username === '' && to.password === '';
  return isPlain && to.origin === from.origin && to.pathname === `${from.pathname}/`;
}

export function isRedirect(status: number): boolean {
  return status >= 300 && status <= 399 && status !== 304;
}

/** Where a redirect points to, as far as an error may show it: without a query, which may hold a secret. */
export function redirectTarget(location: string | undefined, url: string): string {
  const to = location === undefined ? null : URL.parse(location, url);
  return to === null ? 'no valid address' : `${to.origin}${to.pathname}`;
}
