/**
 * The JWT by which a client proves itself to a token server with its private key. Source: RFC 7523, 2.2 and 3; the names of
 * the algorithms are those of RFC 7518 and RFC 8037.
 */
import { createPrivateKey, type KeyObject, randomUUID } from 'node:crypto';
import { SignJWT } from 'jose';
import type { WebhookAuthentication } from '#contract/webhook.ts';
import { AppError } from '#platform/errors.ts';

const lifetimeS = 60;
const rsaBitsMin = 2_048;
const curves: Readonly<Record<string, string>> = { prime256v1: 'ES256', secp384r1: 'ES384', secp521r1: 'ES512' };

/** Each is used once. Throws AppError `unavailable` with the path `private_key` for a key that cannot sign. */
export async function signAssertion(parameters: WebhookAuthentication['parameters'], nowMs: number): Promise<string> {
  const { access_token_url: url, client_id: id, private_key: pem = '', key_id: kid } = parameters;
  const { key, alg } = signingKeyOf(pem);
  const nowS = Math.floor(nowMs / 1_000);
  return new SignJWT()
    .setProtectedHeader({ alg, typ: 'JWT', ...(kid === undefined ? {} : { kid }) })
    .setIssuer(id)
    .setSubject(id)
    .setAudience(url)
    .setJti(randomUUID())
    .setIssuedAt(nowS)
    .setExpirationTime(nowS + lifetimeS)
    .sign(key);
}

function signingKeyOf(pem: string): { key: KeyObject; alg: string } {
  let key: KeyObject;
  try {
    key = createPrivateKey(pem);
  } catch {
    // The cause is left out: nothing of the key may come into a text.
    throw unusable('is no private key in PEM, or has a passphrase: send it as PKCS #8 without one');
  }
  const { namedCurve = '', modulusLength = 0 } = key.asymmetricKeyDetails ?? {};
  if (key.asymmetricKeyType === 'rsa' && modulusLength >= rsaBitsMin) return { key, alg: 'RS256' };
  if (key.asymmetricKeyType === 'ed25519') return { key, alg: 'EdDSA' };
  const alg = curves[namedCurve];
  if (alg === undefined)
    throw unusable('must be an RSA key of at least 2048 bits, an EC key of P-256, P-384 or P-521, or an Ed25519 key');
  return { key, alg };
}

function unusable(message: string): AppError {
  return new AppError('unavailable', `No access token could be requested: private_key ${message}.`, {
    issues: [{ path: 'private_key', message }],
    recovery: { do: 'retry' },
  });
}
