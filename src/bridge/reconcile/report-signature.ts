/**
 * Signatures of reports: Ed25519 over the text of the member `report`. Who knows the public key can tell that the bridge
 * with that key has written the report, and that not a byte was changed since.
 */
import {
  createHash,
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  type KeyObject,
  sign,
  verify,
} from 'node:crypto';
import { AppError } from '#platform/errors.ts';
import { type ReportContent, type SignedReport, signedText } from './report-form.ts';

export interface ReportKey {
  /** 32 bytes. */
  readonly publicKey: Buffer;
  /** PKCS #8 in base64. */
  readonly privateKey: string;
}

/** Makes a new key. */
export function createReportKey(): ReportKey {
  const { publicKey, privateKey } = generateKeyPairSync('ed25519');
  const pkcs8 = privateKey.export({ format: 'der', type: 'pkcs8' });
  return { publicKey: rawBytesOf(publicKey), privateKey: pkcs8.toString('base64') };
}

/** Signs a report. */
export function signReport(report: ReportContent, { publicKey, privateKey }: ReportKey): SignedReport {
  const key = createPrivateKey({ key: Buffer.from(privateKey, 'base64'), format: 'der', type: 'pkcs8' });
  const value = sign(null, Buffer.from(signedText(report), 'utf8'), key).toString('base64url');
  return { report, signature: { algorithm: 'Ed25519', publicKey: publicKey.toString('base64url'), value } };
}

/** Whether the key that the report names has signed it. */
export function isSigned({ report, signature }: SignedReport): boolean {
  const key = keyOf(Buffer.from(signature.publicKey, 'base64url'));
  return verify(null, Buffer.from(signedText(report), 'utf8'), key, Buffer.from(signature.value, 'base64url'));
}

/** The SHA-256 of the key's 32 bytes, in hexadecimal: what people compare. */
export function keyFingerprint(publicKey: Uint8Array): string {
  return createHash('sha256').update(publicKey).digest('hex');
}

/** The key as a file for openssl and others. */
export function publicKeyPem(publicKey: Uint8Array): string {
  return keyOf(publicKey).export({ format: 'pem', type: 'spki' }).toString();
}

/** Reads the fingerprint of a public key's PEM file. Throws an AppError `invalid` for anything else. */
export function fingerprintOfPem(pem: string): string {
  try {
    const key = createPublicKey(pem);
    if (key.asymmetricKeyType === 'ed25519') return keyFingerprint(rawBytesOf(key));
  } catch {
    // Said below.
  }
  throw new AppError(
    'invalid',
    'The key must be a public Ed25519 key in PEM, as bridge report --public-key prints it.',
  );
}

function keyOf(publicKey: Uint8Array): KeyObject {
  const x = Buffer.from(publicKey).toString('base64url');
  return createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x }, format: 'jwk' });
}

function rawBytesOf(key: KeyObject): Buffer {
  return Buffer.from(key.export({ format: 'jwk' }).x ?? '', 'base64url');
}
