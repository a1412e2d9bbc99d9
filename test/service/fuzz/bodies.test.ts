/**
 * Fuzzes every endpoint that takes a body with bodies that are mutated in one place. A mutated body is refused with the
 * path of the mutation, and nothing changes; or it is still valid, and is processed without an internal error.
 */
import * as fc from 'fast-check';
import { afterAll, expect, test } from 'vitest';
import { withoutNulls } from '#platform/http/check-body.ts';
import type { HttpAnswer } from '../../harness/request.ts';
import { type FuzzCase, fuzzEndpoint, runsOf } from './fuzz-endpoint.ts';
import { createFuzzFixture } from './fuzz-fixture.ts';
import {
  isInvalidInAnySchema,
  type MutatedBody,
  mutated,
  pathExists,
  pathParts,
  pathsOverlap,
  withEachUnknownMember,
} from './json-fuzz.ts';
import { seedsOf, testedEndpoints } from './seeds.ts';
import { checkAnswer, closeConnections, requestOfSeed, send } from './send-request.ts';

const fixture = await createFuzzFixture();
afterAll(closeConnections);

test.each(testedEndpoints.map((endpoint) => [endpoint.name, endpoint] as const))(
  '%s accepts its seeds',
  async (_name, endpoint) => {
    const fresh = seedsOf(endpoint, fixture);
    expect(fresh.length).toBeGreaterThan(0);
    for (const seed of fresh) {
      const request = requestOfSeed(fixture, endpoint, seed);
      const answer = await send(fixture, request);
      expect([request.path, answer.body]).toEqual([
        request.path,
        expect.not.objectContaining({ detail: expect.anything(), errors: expect.anything() }),
      ]);
      expect(answer.status).toBeLessThan(300);
      checkAnswer(fixture, request, answer);
      await fixture.waitUntilIdle();
      const failed = await fixture.service.db.database.query("select errors from service.jobs where status = 'FAILED'");
      expect(failed).toEqual([]);
      await fixture.restore();
    }
  },
);

/**
 * Ids and names of existing things of every kind, and some that do not exist. Of the last two ids, one is a question of
 * another event, and one is unknown.
 */
const confusableValues = [
  ...Object.values(fixture.events),
  ...Object.values(fixture.questions),
  ...Object.values(fixture.files),
  ...Object.values(fixture.jobs),
  fixture.request,
  fixture.webhook,
  fixture.submission,
  fixture.organisation.id,
  fixture.operated.id,
  fixture.operated.webhook,
  '11111111-1111-4111-8111-111111111112',
  '99999999-9999-4999-8999-999999999999',
  ...'S1 S2 S3 S9 A B Z best worst yes no USD GBP 1 1.1 0 -1 1.005 2029-01-01 2030-06-01T00:00:00Z 2999-01-01'.split(
    ' ',
  ),
  ...'Item Volume Before Price Freight Days Each [Each]/0 TEST DUTCH FILE GATING FORMULA'.split(' '),
];

const withBody = testedEndpoints.filter(({ body }) => body !== undefined);

test.each(testedEndpoints.map((endpoint) => [endpoint.name, endpoint] as const))(
  '%s refuses an unknown member or parameter at any place, with its path',
  async (_name, endpoint) => {
    await fixture.restore();
    for (const seed of seedsOf(endpoint, fixture)) {
      const valid = requestOfSeed(fixture, endpoint, seed);
      const separator = valid.path.includes('?') ? '&' : '?';
      const withParameter = await send(fixture, { ...valid, path: `${valid.path}${separator}unknown=1` });
      expect([withParameter.status, withParameter.body.errors]).toEqual([
        400,
        [{ path: 'unknown', message: expect.any(String) }],
      ]);
      for (const { text, place } of endpoint.body ? withEachUnknownMember(seed.body) : []) {
        const answer = await send(fixture, { ...valid, body: text });
        const paths = answer.body.errors?.map(({ path }: { path: string }) => pathParts(path));
        expect([text, answer.status, paths]).toEqual([text, 400, [place]]);
      }
    }
  },
);

test.each(withBody.map((endpoint) => [endpoint.name, endpoint] as const))(
  '%s with a mutated body',
  async (_name, endpoint) => {
    const cases = fc.oneof(
      ...seedsOf(endpoint, fixture)
        .filter(({ body }) => body !== undefined)
        .map((seed) => {
          const valid = requestOfSeed(fixture, endpoint, seed);
          return mutated(seed.body, confusableValues).map(
            (body): FuzzCase => ({
              request: { ...valid, body: body.text },
              check: (answer) => checkRefusal(endpoint, body, answer),
            }),
          );
        }),
    );
    await fuzzEndpoint(fixture, cases, runsOf(8));
  },
);

test('a refusal after the first write rolls everything back', async () => {
  await fixture.restore();
  const before = await fixture.digest();
  const question = { identifier: '7', question_text: 'Why?', input_type: 'TEXT' };
  const refusedLate: readonly [event: string, questions: object[], status: number][] = [
    [fixture.events.draft, [question, { ...question, identifier: '8', uuid: fixture.questions.text }], 400],
    [fixture.events.draft, [{ ...question, attachment_file_uuids: [fixture.request] }], 400],
    // These questions have answers.
    [fixture.events.open, [question], 409],
  ];
  for (const [event, questions, status] of refusedLate) {
    const answer = await fixture.organisation.call('PUT', `/desk/events/${event}/questions`, questions);
    expect(answer.status).toBe(status);
    expect(await fixture.digest()).toEqual(before);
  }
});

/** Checks that a body which the endpoint's schema refuses is answered 400, with a path that leads to the mutation. */
function checkRefusal(
  { body: schema, nullsAreLeftOut }: (typeof testedEndpoints)[number],
  body: MutatedBody,
  answer: HttpAnswer,
): void {
  const { text, place } = body;
  const value: unknown = JSON.parse(text);
  const checked = nullsAreLeftOut ? withoutNulls(value) : value;
  const parsed = isStorable(text, value) ? schema?.safeParse(checked) : undefined;
  const isValid = parsed?.success === true;
  // For repeated entries and members of another type the fault may be reported at a neighbour of the mutation.
  const mayBeBeside =
    String(place.at(-1)).endsWith('type') ||
    (parsed?.success === false && parsed.error.issues.every(({ code }) => code === 'custom'));
  if (answer.status < 400) {
    if (!isValid || isInvalidInAnySchema(body, checked)) throw new Error('an invalid body was accepted');
    return;
  }
  if (answer.status === 409 && isValid) return;
  if (answer.status !== 400) throw new Error(`refused with ${answer.status}`);
  const paths = (answer.body.errors as { path: string }[] | undefined)?.map(({ path }) => path);
  if (!paths?.length) throw new Error('refused without a path');
  const places = paths.map((path) => {
    const parts = pathParts(path);
    if (!parts) throw new Error(`the path ${path} cannot be read`);
    if (!pathExists(value, parts)) throw new Error(`the path ${path} does not lead into the body`);
    return parts;
  });
  if (!isValid && !mayBeBeside && !places.some((reported) => pathsOverlap(reported, place)))
    throw new Error(`none of the paths ${paths.slice(0, 5).join(' ')} leads to ${place.join('/')}`);
}

/** False for a body that every endpoint refuses: with texts that cannot be stored, or nested too deeply. */
function isStorable(text: string, value: unknown): boolean {
  const wholePairs = text.replaceAll(/\\ud[89ab]..\\ud[c-f]../gi, '');
  return !/\\u0000|\\ud[89a-f]/i.test(wholePairs) && depthOf(value) <= 64;
}

function depthOf(value: unknown): number {
  let depth = 0;
  for (let level = [value]; level.length > 0; depth += 1)
    level = level.flatMap((each) => (typeof each === 'object' && each !== null ? Object.values(each) : []));
  return depth - 1;
}
