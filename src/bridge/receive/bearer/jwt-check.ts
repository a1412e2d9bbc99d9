/**
 * Tokens that an authorisation server signs (RFC 7519, RFC 9068): checked with its published keys (JWKS), its name, this
 * receiver's audience and their time. The keys are kept, and read again when a token names one that is not among them:
 * so the server can rotate them.
 */
import type { JSONWebKeySet, JWTPayload } from 'jose';
import type { SourceSettings } from '#bridge/settings.ts';
import { AppError, errorText } from '#platform/errors.ts';
import { anyNetwork } from '#platform/network-guard.ts';
import type { BearerCheck, BearerDeps } from './bearer-deps.ts';
import { createVerdicts, type Verdict } from './token-verdicts.ts';

type Jwt = Extract<SourceSettings['bearer'], { type: 'jwt' }>;

/** Signatures with a key pair only: under a shared secret the published key itself could sign. */
const algorithms = [
  'RS256',
  'RS384',
  'RS512',
  'PS256',
  'PS384',
  'PS512',
  'ES256',
  'ES384',
  'ES512',
  'EdDSA',
  'Ed25519',
];
/** The keys are read again when they are older, so that one that was withdrawn is soon of no use. */
const keysMaxAgeMs = 600_000;
/** When they cannot be read, known ones go on so long. */
const keysStaleMaxMs = 3_600_000;
/** Between two reads, whatever the tokens name. */
const keysEveryMs = 10_000;
const verdictMs = 60_000;
const badMs = 5_000;
const clockToleranceS = 30;
const timeoutMs = 5_000;
const answerBytesMax = 512 * 1024;

/** The library is loaded here, as it is needed by few. */
export async function createJwtCheck(settings: Jwt, { fetch, clock }: BearerDeps): Promise<BearerCheck> {
  const { createLocalJWKSet, errors, jwtVerify } = await import('jose');
  type KeySet = ReturnType<typeof createLocalJWKSet>;
  let known: { keys: KeySet; readMs: number } | undefined;
  let askedMs = Number.NEGATIVE_INFINITY;
  let asking: Promise<void> | undefined;

  /** A time that is yet to come, as the clock was set back, is as long ago. */
  const agoMs = (ms: number) => Math.abs(clock.nowMs() - ms);

  async function ask(): Promise<void> {
    askedMs = clock.nowMs();
    const answer = await fetch({
      url: settings.jwks_url,
      method: 'GET',
      headers: { accept: 'application/jwk-set+json, application/json' },
      allowedNetworks: anyNetwork,
      timeoutMs,
      responseBytesMax: answerBytesMax,
      onTooLarge: 'fail',
    });
    if (answer.status !== 200) throw new Error(`the server of the keys answered ${answer.status}`);
    known = { keys: createLocalJWKSet(parseKeys(answer.body)), readMs: askedMs };
  }

  /** One request at a time, whose answer all who wait get. */
  function readKeys(): Promise<void> {
    asking ??= ask().finally(() => {
      asking = undefined;
    });
    return asking;
  }

  /** The keys as they were last read. Throws `unavailable` when there are none that may be believed any more. */
  async function currentKeys(): Promise<KeySet> {
    const ageMs = agoMs(known?.readMs ?? Number.NEGATIVE_INFINITY);
    if (ageMs > keysMaxAgeMs && (asking || agoMs(askedMs) >= keysEveryMs || !known)) {
      try {
        await readKeys();
      } catch (cause) {
        if (!known || ageMs > keysStaleMaxMs) throw unavailable(errorText(cause));
      }
    }
    if (!known || agoMs(known.readMs) > keysStaleMaxMs) throw unavailable('they could not be read for long');
    return known.keys;
  }

  async function verify(token: string, keys: KeySet): Promise<JWTPayload> {
    const options = {
      issuer: settings.issuer,
      audience: settings.audience,
      algorithms,
      requiredClaims: ['exp'],
      clockTolerance: clockToleranceS,
      currentDate: new Date(clock.nowMs()),
    };
    try {
      return (await jwtVerify(token, keys, options)).payload;
    } catch (error) {
      // It names no key, and several are of its kind: one of them has signed it, or none.
      if (!(error instanceof errors.JWKSMultipleMatchingKeys)) throw error;
      for await (const key of error) {
        const verified = await jwtVerify(token, key, options).catch(() => undefined);
        if (verified) return verified.payload;
      }
      throw error;
    }
  }

  /** With keys that are read again when the token names one that is not among them. */
  async function verifyAnew(token: string): Promise<JWTPayload> {
    const keys = await currentKeys();
    try {
      return await verify(token, keys);
    } catch (error) {
      if (!(error instanceof errors.JWKSNoMatchingKey)) throw error;
      if (!asking && agoMs(askedMs) < keysEveryMs) throw error;
      await readKeys().catch((cause: unknown) => {
        throw unavailable(errorText(cause));
      });
      return verify(token, await currentKeys());
    }
  }

  return createVerdicts(clock, async (token): Promise<Verdict> => {
    try {
      const { exp = 0 } = await verifyAnew(token);
      return { good: true, untilMs: Math.min(clock.nowMs() + verdictMs, (exp + clockToleranceS) * 1000) };
    } catch (error) {
      // Whatever else is thrown says that the token is wrong, in one of many ways.
      if (error instanceof AppError) throw error;
      return { good: false, untilMs: clock.nowMs() + badMs };
    }
  });
}

function parseKeys(body: Buffer): JSONWebKeySet {
  const set: unknown = JSON.parse(body.toString('utf8'));
  if (typeof set !== 'object' || set === null || !('keys' in set) || !Array.isArray(set.keys))
    throw new Error('the server of the keys answered with no key set');
  return set as JSONWebKeySet;
}

function unavailable(reason: string): AppError {
  return new AppError('unavailable', 'The bearer token cannot be checked at the moment. Send it again later.', {
    message: `the keys that sign bearer tokens are not at hand: ${reason}`,
  });
}
