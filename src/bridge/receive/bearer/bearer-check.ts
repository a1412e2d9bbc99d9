/**
 * The check of the OAuth token that a source's service sends with each notification, beside its signature. Source: API
 * document, "Authentication" 4; the header by RFC 6750, 2.1.
 */
import { createHash, timingSafeEqual } from 'node:crypto';
import type { SourceSettings } from '#bridge/settings/settings.ts';
import type { BearerCheck, BearerDeps } from './bearer-deps.ts';
import { createJwtCheck } from './jwt-check.ts';

/** Creates the check for one source's setting: against a key set, or against the one configured token. */
export function createBearerCheck(bearer: NonNullable<SourceSettings['bearer']>, deps: BearerDeps): BearerCheck {
  if (bearer.type === 'jwt') return createJwtCheck(bearer, deps);
  const expected = digestOf(bearer.token);
  return (token) => timingSafeEqual(digestOf(token), expected);
}

/** Digests have one length, so they can be compared in constant time. */
function digestOf(token: string): Buffer {
  return createHash('sha256').update(token, 'utf8').digest();
}

/** Returns the token of an Authorization header; undefined when it has none. */
export function bearerTokenOf(authorization: string | undefined): string | undefined {
  return /^Bearer +([A-Za-z0-9._~+/-]{1,8192}=*) *$/i.exec(authorization ?? '')?.[1];
}
