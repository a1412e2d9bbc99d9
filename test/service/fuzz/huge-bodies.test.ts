/** Bodies that are as large as they may be, in one place of them: refused in good time, and without the memory for many times as much. */
import * as fc from 'fast-check';
import { afterAll, expect, test } from 'vitest';
import { type FuzzCase, fuzzEndpoint, runsOf } from './fuzz-endpoint.ts';
import { createFuzzFixture } from './fuzz-fixture.ts';
import { bodyWith, withEachStringReplaced } from './json-fuzz.ts';
import { seedsOf, testedEndpoints } from './seeds.ts';
import { closeConnections, requestOfSeed } from './send-request.ts';

const fixture = await createFuzzFixture();
afterAll(closeConnections);

/** With the rest of the body below the limit of 10 MB. */
const bytes = 10_000_000;
/** Those whose body has members: the others take `{}`, and all do it alike. */
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
              // Taken, it must be valid, as ten million spaces before a number are. Asked only then: it takes long.
              if (![400, 413].includes(status))
                expect([status, endpoint.body?.safeParse(jsonOf(text)).success]).toEqual([status, true]);
              expect(JSON.stringify(body).length).toBeLessThan(50_000);
            },
          }),
        );
      }),
  );
  await fuzzEndpoint(fixture, cases, runsOf(2));
});

/** What patterns repeat: a pattern whose group repeats as often as these would need a stack for it. */
const pieces = ['x', '1', ' a', ';a=b', 'a@', 'a.', '1.', '-', 'aaaa', 'é', '%41', '/..', 'A '];

test.each(withBody)('no text can be so long that %s cannot refuse it', (_name, endpoint) => {
  for (const seed of seedsOf(endpoint, fixture)) {
    for (const piece of pieces) {
      const text = `a/b${piece.repeat(Math.floor(4_000_000 / piece.length))}`;
      for (const mutated of withEachStringReplaced(seed.body, '@')) {
        const value: unknown = JSON.parse(mutated.text);
        put(value, mutated.place, text);
        // The text of a file may be long; most others may not. Neither throws.
        expect(endpoint.body?.safeParse(value).success).toBeTypeOf('boolean');
      }
    }
  }
});

function put(value: unknown, place: readonly (string | number)[], text: string): void {
  const last = place.at(-1) ?? '';
  const parent = place.slice(0, -1).reduce((at, part) => (at as Record<string | number, unknown>)[part], value);
  (parent as Record<string | number, unknown>)[last] = text;
}
