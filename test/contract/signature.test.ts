import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { signatureMatches, signBody } from '#contract/signature.ts';

// RFC 4231, test case 2: HMAC-SHA-256 with the key "Jefe".
const key = 'Jefe';
const body = Buffer.from('what do ya want for nothing?');
const digest = '5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843';
const signature = `hmac-sha256=${digest}`;

describe('signing', () => {
  test('returns the value of RFC 4231, for text and for bytes', () => {
    expect(signBody(body, key)).toBe(signature);
    expect(signBody(body.toString(), key)).toBe(signature);
  });

  test('refuses an empty key', () => {
    expect(() => signBody(body, '')).toThrow('must not be empty');
  });

  test('takes key and text as UTF-8', () => {
    // printf 'Kraków' | openssl dgst -sha256 -hmac 'ключ'
    expect(signBody('Kraków', 'ключ')).toBe(
      'hmac-sha256=43102506e4b455740db1b178e9d068aaad95bc746275e73fa0fb6114b5f414b6',
    );
  });
});

describe('checking', () => {
  test('accepts the signature of any of the keys, also in upper-case hex', () => {
    expect(signatureMatches(body, signature, [key])).toBe(true);
    expect(signatureMatches(body, signature, ['previous', key])).toBe(true);
    expect(signatureMatches(body, `hmac-sha256=${digest.toUpperCase()}`, [key])).toBe(true);
  });

  test.each([
    ['missing', undefined],
    ['empty', ''],
    ['the prefix alone', 'hmac-sha256='],
    ['short by one digit', signature.slice(0, -1)],
    ['long by one digit', `${signature}0`],
    ['one digit changed', `${signature.slice(0, -1)}4`],
    ['without its prefix', digest],
    ['of another algorithm', `hmac-sha1=${digest}`],
    ['with its prefix in capitals', `HMAC-SHA256=${digest}`],
    ['not hex', `hmac-sha256=${'g'.repeat(64)}`],
    ['Base64', 'hmac-sha256=W9zBRr9gdU5qBCQmCJV1x1oAPwidJzmDnexYuWTsOEM='],
    ['in spaces', ` ${signature}`],
    ['with a line end', `${signature}\n`],
    ['twice, as joined headers', `${signature}, ${signature}`],
  ])('refuses a signature that is %s', (_what, header) => {
    expect(signatureMatches(body, header, [key])).toBe(false);
  });

  test('refuses another key, no key, and the empty key', () => {
    expect(signatureMatches(body, signature, ['jefe'])).toBe(false);
    expect(signatureMatches(body, signature, [])).toBe(false);
    // printf 'what do ya want for nothing?' | openssl dgst -sha256 -hmac ''
    const signedByAnybody = 'hmac-sha256=76d9e7194e7dbc3aa00bbe8ffb9f6fcb5a932170f971f948bb2ab61607d2b9d6';
    expect(signatureMatches(body, signedByAnybody, [''])).toBe(false);
  });

  test('refuses a body that differs in one bit, and one with a byte more or less', () => {
    fc.assert(
      fc.property(fc.uint8Array({ minLength: 1 }), fc.nat(), fc.nat(7), (bytes, at, bit) => {
        const header = signBody(bytes, key);
        expect(signatureMatches(bytes, header, [key])).toBe(true);
        const altered = Uint8Array.from(bytes);
        const index = at % bytes.length;
        altered[index] = (altered[index] ?? 0) ^ (1 << bit);
        expect(signatureMatches(altered, header, [key])).toBe(false);
        expect(signatureMatches(bytes.subarray(1), header, [key])).toBe(false);
        expect(signatureMatches(Uint8Array.from([...bytes, 0]), header, [key])).toBe(false);
      }),
    );
  });

  test('accepts only its own key, and throws for no text as a header', () => {
    const keys = fc.string({ minLength: 1 });
    fc.assert(
      fc.property(fc.uint8Array(), keys, keys, fc.string(), (bytes, one, other, header) => {
        expect(signatureMatches(bytes, signBody(bytes, one), [other])).toBe(one === other);
        expect(signatureMatches(bytes, header, [one])).toBe(false);
      }),
    );
  });
});
