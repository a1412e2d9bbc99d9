/** Whatever address a person is found by in a text is among the candidates that the text has. */
import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { addressesIn } from '#platform/person-data/addresses.ts';
import { createPerson } from '#platform/person-data/person.ts';

const escapedForms = [
  (text: string) => text,
  (text: string) => text.toUpperCase(),
  (text: string) => JSON.stringify(text),
  (text: string) => JSON.stringify({ said: JSON.stringify({ text }) }),
  (text: string) => text.replaceAll('@', '\\u0040').replaceAll('+', '\\u002B'),
  (text: string) => `https://x.example/?to=${encodeURIComponent(text)}&n=1`,
  (text: string) => encodeURIComponent(JSON.stringify([text])),
];
const localPart = fc.stringMatching(/^[a-z0-9][a-z0-9.+'"/&é_-]{0,12}[a-z0-9]$/);
const host = fc.stringMatching(/^[a-z0-9]{1,8}(-[a-z0-9]{1,4})?\.[a-z]{2,4}$/);

test('in any letters, encoding and surroundings', () => {
  fc.assert(
    fc.property(
      localPart,
      host,
      fc.constantFrom('', 'Mail: ', '"', '\n', '(', 'é', '<', 'bob@example.com,', "'"),
      fc.constantFrom('', '.', '"', '\n', ')', '>', ';x@y.example', ', and'),
      fc.constantFrom(...escapedForms),
      (local, domain, before, after, form) => {
        const person = createPerson(`${local}@${domain}`, '0123456789ab');
        const text = form(before + person.address + after);
        fc.pre(person.isIn(text));
        expect([...addressesIn(text)]).toContain(person.address);
      },
    ),
  );
});

test('a text without any sign of an address has none', () => {
  expect([...addressesIn('no address, 100 % sure')]).toEqual([]);
});

test('a text of nothing but such signs is read in time', () => {
  expect([...addressesIn('@'.repeat(100_000))]).toEqual([]);
  expect([...addressesIn("a'".repeat(100_000) + '@' + '.b!'.repeat(100_000))].length).toBeLessThanOrEqual(256);
});
