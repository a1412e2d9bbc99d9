/**
 * Bodies of the maximum size, with one huge value: refused in good time, and without a multiple of their size in
 * memory.
 */
import * as fc from 'fast-check';
import { afterAll, expect, test } from 'vitest';
import { type FuzzCase, fuzzEndpoint, runsOf } from './fuzz-endpoint.ts';
import { createFuzzFixture } from './fuzz-fixture.ts';
import { bodyWith, withEachStringReplaced } from './json-fuzz.ts';
import { seedsOf, testedEndpoints } from './seeds.ts';
import { closeConnections, requestOfSeed } from './send-request.ts';

const fixture = await createFuzzFixture();
afterAll(closeConnections);

/** With the rest of the body, this is just below the limit of 10 MB. */
const bytes = 10_000_000;
/** The endpoints whose body has members. The others accept only `{}`. */
const withBody = testedEndpoints
  .filter((endpoint) =>
    seedsOf(endpoint, fixture).some(({ body }) => body !== undefined && JSON.stringify(body) !== '{}'),
  )
  .map((endpoint) => [endpoint.name, endpoint] as const);

const repeated = (opening: string, piece: string, closing: string) =>
  `${opening}${piece.repeat(Math.floor(bytes / Buffer.byteLength(piece)))}${closing}`;
const members = Array.from({ length: 600_000 }, (_, index) => `"k${index}":1`).join(',');

const huge = [
  repeated('"', 'x', '"'),
  repeated('"', '\\\\u0001', '"'),
  repeated('"', '🪑', '"'),
  repeated('', '9', ''),
  repeated('0.', '1', ''),
  repeated('[', '1,', '1]'),
  repeated('[', '{},', '{}]'),
  repeated('[', '"a",', '"a"]'),
  repeated('[', '[],', '[]]'),
  repeated('', '[', ''),
  repeated('', ' ', '1'),
  `{${members}}`,
  repeated('{', '"a":1,', '"a":1}'),
];

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

test.each(withBody)('%s with a body of 10 MB', async (_name, endpoint) => {
  const cases = fc.oneof(
    ...seedsOf(endpoint, fixture)
      .filter(({ body }) => body !== undefined)
      .map((seed) => {
        const valid = requestOfSeed(fixture, endpoint, seed);
        return bodyWith(seed.body, huge).map(
          ({ text }): FuzzCase => ({
            request: { ...valid, body: text },
            check: ({ status, body }) => {
              // An accepted body must be valid, like a number after ten million spaces. The check is slow, so only
              // then.
              if (![400, 413].includes(status))
                expect([status, endpoint.body?.safeParse(jsonOf(text)).success]).toEqual([status, true]);
              expect(JSON.stringify(body).length).toBeLessThan(50_000);
            },
          }),
        );
      }),
  );
  await fuzzEndpoint(fixture, cases, runsOf(1));
});

/** Texts that regular expressions may repeat: a bad expression needs stack or time for each repetition. */
const pieces = ['x', '1', ' a', ';a=b', 'a@', 'a.', '1.', '-', 'aaaa', 'é', '%41', '/..', 'A '];

test.each(withBody)('%s can refuse a text of any length', (_name, endpoint) => {
  for (const seed of seedsOf(endpoint, fixture)) {
    for (const piece of pieces) {
      const text = `a/b${piece.repeat(Math.floor(4_000_000 / piece.length))}`;
      for (const mutated of withEachStringReplaced(seed.body, '@')) {
        const value: unknown = JSON.parse(mutated.text);
        setAt(value, mutated.place, text);
        // A file's content may be this long, most other texts may not. In no case does the check throw.
        expect(endpoint.body?.safeParse(value).success).toBeTypeOf('boolean');
      }
    }
  }
});

function setAt(value: unknown, place: readonly (string | number)[], text: string): void {
  const last = place.at(-1) ?? '';
  const parent = place.slice(0, -1).reduce((at, part) => (at as Record<string | number, unknown>)[part], value);
  (parent as Record<string | number, unknown>)[last] = text;
}
