/** How the console says what an ERP said, and writes its numbers. */
import { expect, test } from 'vitest';
import { sentenceOf, shortReference } from '#console/web/parts/words.ts';

test.each([
  ['Tax code A0 is not valid', 'Tax code A0 is not valid.'],
  [
    'HTTP 400: {"error":{"code":"M8/413","message":{"lang":"en","value":"Vendor 4711 is blocked"}}}',
    'Vendor 4711 is blocked.',
  ],
  ['HTTP 503 Service Unavailable', 'The ERP answered with the error 503, service unavailable.'],
  ['order 0190f7a2-6d1c-7000-8000-0000000000aa is closed', 'order … is closed.'],
  ['{"broken', '{"broken.'],
  ['{"error":{}}', '{"error":{}}.'],
])('%s is said in one sentence', (words, sentence) => {
  expect(sentenceOf(words)).toBe(sentence);
});

test('a long text is cut, and says so', () => {
  expect(sentenceOf('a'.repeat(500))).toBe(`${'a'.repeat(240)}…`);
});

test.each([
  ['4500017302', '4500017302'],
  ['0190f7a2-6d1c-7000-8000-0000000000aa', '0190f7a2…'],
  ['purchase-order-of-a-very-long-name-000123', 'purchase-order…e-000123'],
])('the number %s is shown as %s', (reference, short) => {
  expect(shortReference(reference)).toBe(short);
});
