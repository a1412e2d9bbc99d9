import { randomBytes } from 'node:crypto';
import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { AppError } from '#platform/errors.ts';
import { createSecretBox } from '#platform/secrets.ts';

const key = Buffer.alloc(32, 7);
const text = fc.string({ unit: 'grapheme' });

function failure(run: () => unknown): AppError {
  try {
    run();
  } catch (error) {
    if (error instanceof AppError) return error;
    throw error;
  }
  throw new Error('it should have failed');
}

describe('secret box', () => {
  it('opens what it sealed, in its context', () => {
    const box = createSecretBox(key);
    fc.assert(
      fc.property(text, text, (plaintext, context) => {
        expect(box.open(box.seal(plaintext, context), context)).toBe(plaintext);
      }),
    );
  });

  it('opens nothing in another context', () => {
    const box = createSecretBox(key);
    fc.assert(
      fc.property(text, text, text, (plaintext, context, other) => {
        fc.pre(context !== other);
        expect(failure(() => box.open(box.seal(plaintext, context), other)).code).toBe('internal');
      }),
    );
  });

  it('opens nothing in which any single bit was flipped', () => {
    const box = createSecretBox(key);
    const sealed = box.seal('whsec_0123456789', 'webhook.signing_key:1');
    for (let bit = 0; bit < sealed.length * 8; bit++) {
      const altered = Buffer.from(sealed);
      altered.writeUInt8(altered.readUInt8(bit >> 3) ^ (1 << (bit & 7)), bit >> 3);
      expect(failure(() => box.open(altered, 'webhook.signing_key:1')).code).toBe('internal');
    }
  });

  it('opens nothing that was cut or lengthened', () => {
    const box = createSecretBox(key);
    const sealed = box.seal('abc', 'c');
    const altered = [...sealed.keys()].map((length) => sealed.subarray(0, length));
    for (const bytes of [...altered, Buffer.concat([sealed, Buffer.of(0)])])
      expect(failure(() => box.open(bytes, 'c')).code).toBe('internal');
  });

  it('seals the same text differently each time, and reveals no part of it', () => {
    const box = createSecretBox(key);
    const sealed = Array.from({ length: 200 }, () => box.seal('whsec_0123456789', 'c'));
    expect(new Set(sealed.map((bytes) => bytes.subarray(5, 17).toString('hex'))).size).toBe(200);
    for (const bytes of sealed) expect(bytes.includes('whsec')).toBe(false);
    // version, key id, nonce, 16 characters, tag
    expect(sealed[0]?.length).toBe(1 + 4 + 12 + 16 + 16);
  });

  it('names the context and why, and shows neither key, text nor ciphertext', () => {
    const sealed = createSecretBox(key).seal('whsec_0123456789', 'webhook.signing_key:42');
    const error = failure(() => createSecretBox(randomBytes(32)).open(sealed, 'webhook.signing_key:42'));
    expect(error.message).toContain('webhook.signing_key:42');
    expect(error.message).toContain('another master key');
    const shown = JSON.stringify([error.message, error.publicMessage, error.stack, error.cause]);
    for (const secret of ['whsec', sealed.toString('base64').slice(8, 20), sealed.toString('hex').slice(10, 30)])
      expect(shown).not.toContain(secret);
    expect(error.recovery).toEqual({ do: 'halt' });
  });

  it('opens what an earlier master key sealed, and seals under the new one', () => {
    const next = Buffer.alloc(32, 9);
    const before = createSecretBox(key).seal('old', 'c');
    const rotating = createSecretBox(next, [key]);
    expect(rotating.open(before, 'c')).toBe('old');
    expect(createSecretBox(next).open(rotating.seal('new', 'c'), 'c')).toBe('new');
    expect(failure(() => createSecretBox(key).open(rotating.seal('new', 'c'), 'c')).message).toContain('master key');
  });

  it('refuses a key of another length, and text that would not come back as it was', () => {
    for (const length of [0, 16, 31, 33]) failure(() => createSecretBox(Buffer.alloc(length)));
    expect(failure(() => createSecretBox(key).seal('\ud800', 'c')).code).toBe('invalid');
  });
});

describe('MACs', () => {
  const box = createSecretBox(key);
  const bytes = fc.uint8Array({ maxLength: 50 });

  it('verify their message in their context and no other', () => {
    fc.assert(
      fc.property(bytes, text, bytes, text, (message, context, otherMessage, otherContext) => {
        const mac = box.mac(message, context);
        expect(mac).toHaveLength(32);
        expect(box.verifiesMac(mac, message, context)).toBe(true);
        const same = context === otherContext && Buffer.compare(message, otherMessage) === 0;
        expect(box.verifiesMac(mac, otherMessage, otherContext)).toBe(same);
      }),
    );
  });

  it('do not let a byte move from the context into the message', () => {
    expect(box.verifiesMac(box.mac(Buffer.from('bc'), 'a'), Buffer.from('c'), 'ab')).toBe(false);
  });

  it('of another length, or of another master key, do not verify', () => {
    const message = Buffer.from('message');
    const mac = box.mac(message, 'context');
    for (const wrong of [Buffer.of(), mac.subarray(1), Buffer.concat([mac, Buffer.of(0)])])
      expect(box.verifiesMac(wrong, message, 'context')).toBe(false);
    expect(createSecretBox(Buffer.alloc(32, 8)).verifiesMac(mac, message, 'context')).toBe(false);
  });

  it('made before the master key was changed verify while the old key is known', () => {
    const message = Buffer.from('message');
    const after = createSecretBox(Buffer.alloc(32, 8), [key]);
    expect(after.verifiesMac(box.mac(message, 'context'), message, 'context')).toBe(true);
    expect(after.mac(message, 'context')).not.toEqual(box.mac(message, 'context'));
  });
});
