/**
 * Encryption of the secrets that the database holds (signing keys, client secrets) under the master key: AES-256-GCM,
 * bound to a context such as `webhook.signing_key:<uuid>`, so that a value that was copied into another row does not
 * open. Also MACs for values that the program hands out and gets back (download links).
 *
 * A sealed value is: version (1 byte), id of the key (4), nonce (12), ciphertext, tag (16).
 */
import { createCipheriv, createDecipheriv, createHmac, hkdfSync, randomBytes, timingSafeEqual } from 'node:crypto';
import { AppError } from './errors.ts';

const version = 1;
const keyIdBytes = 4;
const nonceBytes = 12;
const tagBytes = 16;
const headerBytes = 1 + keyIdBytes;

/** Length of a master key. */
export const masterKeyBytes = 32;

export interface SecretBox {
  /** Encrypts; throws an `invalid` AppError for text that UTF-8 cannot carry (lone surrogates). */
  seal(plaintext: string, context: string): Buffer;
  /**
   * Decrypts; throws an `internal` AppError that names the context for another key, another context or altered bytes.
   */
  open(sealed: Uint8Array, context: string): string;
  /** The id of the key that `seal` uses, as it stands in the sealed values. */
  readonly keyId: Buffer;
  /** The ids of all keys with which `open` can work, that of `seal` first. */
  readonly knownKeyIds: readonly Buffer[];
  /** Returns a MAC of 32 bytes over the context and the message: HMAC-SHA256 under a key that serves only this. */
  mac(message: Uint8Array, context: string): Buffer;
  /** Returns a key of 32 bytes for this purpose alone: HKDF-SHA256 of the master key that `seal` uses. */
  derive(purpose: string): Buffer;
  /** Whether `mac` belongs to this message in this context; compared in constant time. */
  verifiesMac(mac: Uint8Array, message: Uint8Array, context: string): boolean;
}

interface BoxKey {
  readonly id: Buffer;
  readonly key: Buffer;
  readonly macKey: Buffer;
}

/**
 * Seals under `masterKey`, and also opens what was sealed under one of `previousKeys`: a rotation of the master key
 * needs this until all rows are sealed again. Throws an `internal` AppError when a key does not have 32 bytes.
 */
export function createSecretBox(masterKey: Uint8Array, previousKeys: readonly Uint8Array[] = []): SecretBox {
  const current = boxKey(masterKey);
  const keys = [current, ...previousKeys.map(boxKey)];

  return {
    keyId: current.id,
    knownKeyIds: keys.map(({ id }) => id),

    seal(plaintext, context) {
      if (!plaintext.isWellFormed())
        throw new AppError('invalid', 'A secret must be text without unpaired surrogates.', {
          message: `The secret ${context} holds an unpaired surrogate.`,
        });
      const header = Buffer.concat([Buffer.of(version), current.id]);
      const nonce = randomBytes(nonceBytes);
      const cipher = createCipheriv('aes-256-gcm', current.key, nonce, { authTagLength: tagBytes });
      cipher.setAAD(associatedData(header, context));
      return Buffer.concat([header, nonce, cipher.update(plaintext, 'utf8'), cipher.final(), cipher.getAuthTag()]);
    },

    open(sealed, context) {
      const bytes = Buffer.from(sealed);
      if (bytes.length < headerBytes + nonceBytes + tagBytes || bytes[0] !== version)
        throw unreadable(context, 'it is not a sealed value of this version');
      const header = bytes.subarray(0, headerBytes);
      const key = keys.find((candidate) => candidate.id.equals(header.subarray(1)));
      if (key === undefined) throw unreadable(context, 'it was sealed under another master key');
      const nonce = bytes.subarray(headerBytes, headerBytes + nonceBytes);
      const decipher = createDecipheriv('aes-256-gcm', key.key, nonce, { authTagLength: tagBytes });
      decipher.setAAD(associatedData(header, context));
      decipher.setAuthTag(bytes.subarray(bytes.length - tagBytes));
      try {
        const body = bytes.subarray(headerBytes + nonceBytes, bytes.length - tagBytes);
        return Buffer.concat([decipher.update(body), decipher.final()]).toString('utf8');
      } catch {
        throw unreadable(context, 'it was altered, or belongs to another row');
      }
    },

    mac: (message, context) => macOf(current, message, context),

    derive: (purpose) => derived(masterKey, `derived key: ${purpose}`, 32),

    verifiesMac: (mac, message, context) =>
      keys.some((key) => {
        const expected = macOf(key, message, context);
        return mac.length === expected.length && timingSafeEqual(mac, expected);
      }),
  };
}

/**
 * Derives all keys from the master key, which itself encrypts nothing: the key's id stands in clear before each
 * ciphertext and must reveal nothing about the key.
 */
function boxKey(masterKey: Uint8Array): BoxKey {
  if (masterKey.length !== masterKeyBytes)
    throw new AppError('internal', `The master key must have ${masterKeyBytes} bytes, not ${masterKey.length}.`);
  return {
    id: derived(masterKey, 'key id', keyIdBytes),
    key: derived(masterKey, 'encryption', 32),
    macKey: derived(masterKey, 'authentication', 32),
  };
}

function derived(masterKey: Uint8Array, purpose: string, length: number): Buffer {
  return Buffer.from(hkdfSync('sha256', masterKey, '', `sourcing-bridge secret box ${version} ${purpose}`, length));
}

/** The length of the context comes first, so that no byte can move from the context into the message. */
function macOf({ macKey }: BoxKey, message: Uint8Array, context: string): Buffer {
  const contextBytes = Buffer.from(context, 'utf8');
  const length = Buffer.alloc(4);
  length.writeUInt32BE(contextBytes.length);
  return createHmac('sha256', macKey).update(length).update(contextBytes).update(message).digest();
}

function associatedData(header: Buffer, context: string): Buffer {
  return Buffer.concat([header, Buffer.from(context, 'utf8')]);
}

function unreadable(context: string, why: string): AppError {
  return new AppError('internal', 'A stored secret cannot be read; the operator must look at the master key.', {
    message: `The sealed secret ${context} cannot be opened: ${why}. Start with the master key it was sealed under.`,
  });
}
