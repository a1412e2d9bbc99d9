/**
 * The check of the OAuth token that a source's service sends with each notification, beside its signature. Source: API
 * document, "Authentication" 4; the header by RFC 6750, 2.1.
 */
import type { SourceSettings } from '#bridge/settings.ts';
import type { BearerCheck, BearerDeps } from './bearer-deps.ts';
import { createIntrospectionCheck } from './introspection-check.ts';
import { checkIssuedToken } from './issued-token.ts';
import { createJwtCheck } from './jwt-check.ts';

/** Creates the check for one source's setting. It caches what it gets from authorisation servers. */
export function createBearerCheck(bearer: NonNullable<SourceSettings['bearer']>, deps: BearerDeps): BearerCheck {
  switch (bearer.type) {
    case 'issued':
      return (token) => checkIssuedToken(deps.secrets, bearer, token, deps.clock.nowMs());
    case 'jwt':
      return createJwtCheck(bearer, deps);
    case 'introspection':
      return createIntrospectionCheck(bearer, deps);
  }
}

/** Returns the token of an Authorization header; undefined when it has none. */
export function bearerTokenOf(authorization: string | undefined): string | undefined {
  return /^Bearer +([A-Za-z0-9._~+/-]{1,8192}=*) *$/i.exec(authorization ?? '')?.[1];
}
