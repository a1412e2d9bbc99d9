/**
 * Checks tokens that an authorisation server signs (RFC 7519, RFC 9068): by the server's published keys (JWKS), its
 * name as issuer, this receiver's audience and the token's times. The keys are cached, and read again when a token
 * names a key that is not among them, so that the server can rotate its keys.
 */
import { createLocalJWKSet, errors, type JSONWebKeySet, jwtVerify } from 'jose';
import type { SourceSettings } from '#bridge/settings/settings.ts';
import { AppError, errorText } from '#platform/errors.ts';
import { acceptEncoding, readJsonAnswer } from '#platform/foreign-answer.ts';
import { anyNetwork } from '#platform/network-guard.ts';
import type { BearerCheck, BearerDeps } from './bearer-deps.ts';

type Jwt = Extract<SourceSettings['bearer'], { type: 'jwt' }>;

/** Only signatures with a key pair: with an HMAC algorithm the published key itself could be used to sign. */
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
/** The keys are read again when they are older, so that a withdrawn key soon becomes invalid. */
const keysMaxAgeMs = 600_000;
/** How long known keys are used while the keys cannot be read. */
const keysStaleMaxMs = 3_600_000;
/** The least time between two reads, whatever keys the tokens name. */
const keysEveryMs = 10_000;
const clockToleranceS = 30;
const timeoutMs = 5_000;
const answerBytesMax = 512 * 1024;

/** Creates the check. It rejects with AppError `unavailable` when the keys cannot be read. */
export function createJwtCheck(settings: Jwt, { fetch, clock }: BearerDeps): BearerCheck {
  type KeySet = ReturnType<typeof createLocalJWKSet>;
  let known: { keys: KeySet; readMs: number } | undefined;
  let requestedMs = Number.NEGATIVE_INFINITY;
  let requesting: Promise<void> | undefined;

  /** The absolute difference: if the clock was set back, a time in the future counts as old, too. */
  const agoMs = (ms: number) => Math.abs(clock.nowMs() - ms);

  async function request(): Promise<void> {
    requestedMs = clock.nowMs();
    const answer = await fetch({
      url: settings.jwks_url,
      method: 'GET',
      headers: { accept: 'application/jwk-set+json, application/json', 'accept-encoding': acceptEncoding },
      allowedNetworks: anyNetwork,
      timeoutMs,
      responseBytesMax: answerBytesMax,
      onTooLarge: 'fail',
    });
    if (answer.status !== 200) throw new Error(`the server of the keys answered ${answer.status}`);
    const set = await readJsonAnswer(answer, 'the answer of the server of the keys', answerBytesMax);
    known = { keys: createLocalJWKSet(keySetOf(set)), readMs: requestedMs };
  }

  /** Makes one request at a time, which all waiting callers share. */
  function readKeys(): Promise<void> {
    requesting ??= request().finally(() => {
      requesting = undefined;
    });
    return requesting;
  }

  /**
   * Returns the keys as they were last read. Throws AppError `unavailable` when they are too old or were never read.
   */
  async function currentKeys(): Promise<KeySet> {
    const ageMs = agoMs(known?.readMs ?? Number.NEGATIVE_INFINITY);
    if (ageMs > keysMaxAgeMs && (requesting || agoMs(requestedMs) >= keysEveryMs || !known)) {
      try {
        await readKeys();
      } catch (cause) {
        if (!known || ageMs > keysStaleMaxMs) throw unavailable(errorText(cause));
      }
    }
    if (!known || agoMs(known.readMs) > keysStaleMaxMs) throw unavailable('they could not be read for too long');
    return known.keys;
  }

  async function verify(token: string, keys: KeySet): Promise<void> {
    const options = {
      issuer: settings.issuer,
      audience: settings.audience,
      algorithms,
      requiredClaims: ['exp'],
      clockTolerance: clockToleranceS,
      currentDate: new Date(clock.nowMs()),
    };
    try {
      await jwtVerify(token, keys, options);
    } catch (error) {
      // The token names no key, and several keys fit its algorithm: each of them is tried.
      if (!(error instanceof errors.JWKSMultipleMatchingKeys)) throw error;
      for await (const key of error) {
        if (await jwtVerify(token, key, options).catch(() => undefined)) return;
      }
      throw error;
    }
  }

  /** Verifies a token; reads the keys again when the token names a key that is not among them. */
  async function verifyWithCurrentKeys(token: string): Promise<void> {
    const keys = await currentKeys();
    try {
      await verify(token, keys);
    } catch (error) {
      if (!(error instanceof errors.JWKSNoMatchingKey)) throw error;
      if (!requesting && agoMs(requestedMs) < keysEveryMs) throw error;
      await readKeys().catch((cause: unknown) => {
        throw unavailable(errorText(cause));
      });
      await verify(token, await currentKeys());
    }
  }

  return async (token) => {
    try {
      await verifyWithCurrentKeys(token);
      return true;
    } catch (error) {
      if (error instanceof AppError) throw error;
      // Every other error means that the token is not valid.
      return false;
    }
  };
}

function keySetOf(set: unknown): JSONWebKeySet {
  if (typeof set !== 'object' || set === null || !('keys' in set) || !Array.isArray(set.keys))
    throw new Error('the server of the keys answered with no key set');
  return set as JSONWebKeySet;
}

function unavailable(reason: string): AppError {
  return new AppError('unavailable', 'The bearer token cannot be checked at the moment. Send it again later.', {
    message: `the keys that sign bearer tokens are not available: ${reason}`,
  });
}
