/**
 * A report as files: JSON, its signature (Ed25519 over the bytes of the JSON), and a page to print. The signing key is
 * derived from the master key: it is stored nowhere, and changes with the master key.
 */
import { createPrivateKey, createPublicKey, type KeyObject, sign, verify } from 'node:crypto';
import { AppError } from '#platform/errors.ts';
import type { SecretBox } from '#platform/secrets.ts';
import type { ReportContent } from './read-report.ts';
import { reportPage } from './report-page.ts';

export interface ReportFiles {
  readonly json: string;
  /** 64 bytes. */
  readonly signature: Buffer;
  readonly page: string;
}

/** Signs the report. */
export function reportFiles(report: ReportContent, secrets: Pick<SecretBox, 'derive'>): ReportFiles {
  const json = `${JSON.stringify(report, null, 2)}\n`;
  const signature = sign(null, Buffer.from(json, 'utf8'), signingKey(secrets));
  return { json, signature, page: reportPage(report, signature) };
}

/** The public key in PEM. */
export function reportPublicKey(secrets: Pick<SecretBox, 'derive'>): string {
  return createPublicKey(signingKey(secrets)).export({ format: 'pem', type: 'spki' }).toString();
}

/** Whether the key has signed exactly these bytes. Throws AppError `invalid` where `pem` is no public Ed25519 key. */
export function isReportSigned(json: Uint8Array, signature: Uint8Array, pem: string): boolean {
  return verify(null, json, publicKeyOf(pem), signature);
}

function publicKeyOf(pem: string): KeyObject {
  try {
    const key = createPublicKey(pem);
    if (key.asymmetricKeyType === 'ed25519') return key;
  } catch {
    // Said below.
  }
  throw new AppError('invalid', 'The key must be a public Ed25519 key in PEM, as bridge reconcile --out writes it.');
}

/** An Ed25519 key is any 32 bytes; this is how PKCS #8 frames them (RFC 8410, section 7). */
const pkcs8Head = Buffer.from('302e020100300506032b657004220420', 'hex');

function signingKey(secrets: Pick<SecretBox, 'derive'>): KeyObject {
  const key = Buffer.concat([pkcs8Head, secrets.derive('report signature')]);
  return createPrivateKey({ key, format: 'der', type: 'pkcs8' });
}
