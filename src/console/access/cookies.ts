/**
 * The console's cookies. Scripts cannot read them and other sites cannot send them with a request that changes something.
 * Over TLS they have the prefix `__Host-`, so that no other name of the same domain can set them. Cookies know no ports:
 * two consoles of one machine have theirs under different names.
 */
import { parseCookie } from 'cookie';
import type { Request, Response } from 'express';

/** `session`: who is logged in; `form`: belongs to the login form; `browser`: was logged in before; `openid`: under way. */
type CookieUse = 'session' | 'form' | 'browser' | 'openid';

export interface Cookies {
  read(request: Request, use: CookieUse): string | undefined;
  /** Without `lifeMs` it lasts until the browser is closed. */
  set(request: Request, response: Response, use: CookieUse, value: string, lifeMs?: number): void;
  clear(request: Request, response: Response, use: CookieUse): void;
}

/** `publicUrl`: where browsers find the console, if a proxy stands before it. */
export function createCookies(publicUrl: string | undefined): Cookies {
  const behind = publicUrl === undefined ? undefined : new URL(publicUrl);

  /** A proxy that is not among the trusted ones does not say that it speaks TLS; the setting does. */
  function isSecure(request: Request): boolean {
    return request.secure || (behind?.protocol === 'https:' && behind.host === request.headers.host);
  }

  function nameOf(request: Request, use: CookieUse): string {
    const port = URL.parse(`http://${request.headers.host ?? ''}`)?.port || '80';
    return `${isSecure(request) ? '__Host-' : ''}bridge-${use}-${port}`;
  }

  const options = (request: Request) =>
    ({ httpOnly: true, secure: isSecure(request), sameSite: 'lax', path: '/' }) as const;

  return {
    read: (request, use) => parseCookie(request.headers.cookie ?? '')[nameOf(request, use)],
    set: (request, response, use, value, lifeMs) =>
      void response.cookie(nameOf(request, use), value, {
        ...options(request),
        ...(lifeMs !== undefined && { maxAge: lifeMs }),
      }),
    clear: (request, response, use) => void response.clearCookie(nameOf(request, use), options(request)),
  };
}
