import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { checkIssuedToken, issueToken, tokenLifetimeS } from '#bridge/receive/bearer/issued-token.ts';
import { createSecretBox } from '#platform/secrets.ts';

const client = { client_id: 'the service', client_secret: 'a secret of the service' };
const secrets = createSecretBox(Buffer.alloc(32, 7));
const nowMs = Date.UTC(2030, 0, 1);
const token = issueToken(secrets, client, nowMs);

test('a token is valid for its lifetime in every process with the same master key, and no longer', () => {
  const other = createSecretBox(Buffer.alloc(32, 7));
  expect(token).toMatch(/^[\w-]{54}$/);
  expect(checkIssuedToken(other, client, token, nowMs)).toBe(true);
  expect(checkIssuedToken(other, client, token, nowMs + tokenLifetimeS * 1000 - 1)).toBe(true);
  expect(checkIssuedToken(other, client, token, nowMs + tokenLifetimeS * 1000)).toBe(false);
});

test("a token is valid only for its client, and not after the client's secret has changed", () => {
  for (const another of [
    { ...client, client_id: 'another' },
    { ...client, client_secret: 'another secret of it' },
    { client_id: 'service', client_secret: client.client_secret },
  ])
    expect(checkIssuedToken(secrets, another, token, nowMs)).toBe(false);
  expect(checkIssuedToken(createSecretBox(Buffer.alloc(32, 8)), client, token, nowMs)).toBe(false);
  // While the master key is being rotated, tokens under the earlier key are still valid.
  const rotated = createSecretBox(Buffer.alloc(32, 8), [Buffer.alloc(32, 7)]);
  expect(checkIssuedToken(rotated, client, token, nowMs)).toBe(true);
});

test('a token that is altered, shortened, lengthened or spelled differently is not valid', () => {
  fc.assert(
    fc.property(
      fc.nat({ max: token.length - 1 }),
      fc.constantFrom(...'ABCxyz019-_=+/. '.split('')),
      (at, character) => {
        const altered = token.slice(0, at) + character + token.slice(at + 1);
        expect(checkIssuedToken(secrets, client, altered, nowMs)).toBe(altered === token);
        expect(checkIssuedToken(secrets, client, token.slice(0, at), nowMs)).toBe(false);
        expect(checkIssuedToken(secrets, client, token + character, nowMs)).toBe(false);
      },
    ),
  );
  fc.assert(
    fc.property(fc.string(), (text) => {
      expect(checkIssuedToken(secrets, client, text, nowMs)).toBe(false);
    }),
  );
});
