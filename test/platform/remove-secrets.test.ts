import { assert, property, string } from 'fast-check';
import { describe, expect, test } from 'vitest';
import { createSecretRemover } from '#platform/remove-secrets.ts';

const remove = createSecretRemover(['s3c/ret" & 1', 'p/w-7f9e8d7c6b5a']);

describe('a secret is removed', () => {
  test.each([
    ['as it is', 'no: s3c/ret" & 1!', 'no: [secret]!'],
    ['from an address', 'GET /?p=s3c%2Fret%22%20%26%201&x=1', 'GET /?p=[secret]&x=1'],
    ['from an address with small digits', '?p=s3c%2fret%22%20%26%201', '?p=[secret]'],
    ['from a form', 'p=s3c%2Fret%22+%26+1', 'p=[secret]'],
    ['from an address within an address', 'next=%2F%3Fp%3Ds3c%252Fret%2522%2520%2526%25201', 'next=%2F%3Fp%3D[secret]'],
    ['from JSON', '{"p":"s3c/ret\\" & 1"}', '{"p":"[secret]"}'],
    ['from JSON that escapes slashes', '{"p":"s3c\\/ret\\" & 1"}', '{"p":"[secret]"}'],
    ['from JSON within JSON', '"{\\"p\\":\\"s3c/ret\\\\\\" & 1\\"}"', '"{\\"p\\":\\"[secret]\\"}"'],
    ['from a page', '<b>s3c/ret&quot; &amp; 1</b>', '<b>[secret]</b>'],
    ['in Base64 after the name of the user', 'sent Ym90OnAvdy03ZjllOGQ3YzZiNWE=.', 'sent [secret].'],
    [
      'in Base64 of a longer text',
      `(${Buffer.from('xx p/w-7f9e8d7c6b5a, and more').toString('base64')})`,
      '([secret])',
    ],
    ['in hexadecimal', 'key 702f772d37663965386437633662356100', 'key [secret]'],
    ['where the text was cut within it', 'the password p/w-7f9e8d...', 'the password [secret]...'],
  ])('%s', (_where, text, expected) => {
    expect(remove(text)).toBe(expected);
  });

  test('from whatever text it stands in, and whatever it is, also beside Base64 of anything', () => {
    const secret = string({ unit: 'binary', minLength: 6 });
    assert(
      property(secret, string(), string(), (known, before, after) => {
        const wellFormed = known.toWellFormed();
        const shown = createSecretRemover([known])(
          [
            before + known + after,
            encodeURIComponent(wellFormed),
            JSON.stringify({ known }),
            Buffer.from(`${before}${wellFormed}${after}`).toString('base64url'),
          ].join('\n'),
        );
        expect(shown.match(/\[secret\]/g)?.length).toBeGreaterThanOrEqual(4);
      }),
    );
  });

  test('with each line of a key', () => {
    const line = 'MIIEvQIBADANBgkqhkiG9w0BAQEFAASC';
    const ofKey = createSecretRemover([`-----BEGIN PRIVATE KEY-----\n${line}\nabc\n-----END PRIVATE KEY-----\n`]);
    expect(ofKey(`unexpected ${line} near -----BEGIN PRIVATE KEY-----.`)).toBe(
      'unexpected [secret] near -----BEGIN PRIVATE KEY-----.',
    );
  });
});

test('a text without a secret stays as it is, and so does a secret that would stand in plain words', () => {
  const text = 'the ERP answered 422: YWJjZGVmZ2hpamts is no vendor of p/w or abc';
  expect(createSecretRemover(['', 'abc', 'p/w-7f9e8d7c6b5a'])(text)).toBe(text);
});

test('a hostile text costs no more than its length', () => {
  const hostile = createSecretRemover([`${'\\'.repeat(40)}x`, '%2525', '////////']);
  const started = performance.now();
  for (const text of ['\\'.repeat(1e6), '%25'.repeat(3e5), 'A'.repeat(1e6), '/'.repeat(1e6)]) hostile(text);
  expect(performance.now() - started).toBeLessThan(5_000);
});
