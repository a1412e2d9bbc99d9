/**
 * Every endpoint that takes a body, with something wrong in one place of a right one: refused with the place, and nothing
 * changed; or it was right after all, and is worked to an end without a fault of ours.
 */

import * as fc from 'fast-check';
import { afterAll, expect, test } from 'vitest';
import type { HttpAnswer } from '../../harness/request.ts';
import { fire, type Round, runsOf } from './fire.ts';
import {
  areRelated,
  isWrongAnywhere,
  leadsInto,
  pathParts,
  type SpoiledBody,
  spoiled,
  withEachUnknown,
} from './json-fuzz.ts';
import { seedsOf, targets } from './seeds.ts';
import { checkAnswer, closeConnections, send, shotOf } from './send.ts';
import { createWorld } from './world.ts';

const world = await createWorld();
afterAll(closeConnections);

test.each(targets.map((target) => [target.name, target] as const))('%s takes its seeds', async (_name, target) => {
  const fresh = seedsOf(target, world);
  expect(fresh.length).toBeGreaterThan(0);
  for (const seed of fresh) {
    const shot = shotOf(world, target, seed);
    const answer = await send(world, shot);
    expect([shot.path, answer.body]).toEqual([
      shot.path,
      expect.not.objectContaining({ detail: expect.anything(), errors: expect.anything() }),
    ]);
    expect(answer.status).toBeLessThan(300);
    checkAnswer(world, shot, answer);
    await world.settled();
    const failed = await world.service.db.database.query("select errors from service.jobs where status = 'FAILED'");
    expect(failed).toEqual([]);
    await world.restore();
  }
});

/** What is there, of any kind, and what is not: the last two ids are a question of another event, and nothing at all. */
const lures = [
  ...Object.values(world.events),
  ...Object.values(world.questions),
  ...Object.values(world.files),
  ...Object.values(world.jobs),
  world.request,
  world.webhook,
  world.submission,
  world.organisation.id,
  world.operated.id,
  world.operated.webhook,
  '11111111-1111-4111-8111-111111111112',
  '99999999-9999-4999-8999-999999999999',
  ...'S1 S2 S3 S9 A B Z best worst yes no USD GBP 1 1.1 0 -1 1.005 2029-01-01 2030-06-01T00:00:00Z 2999-01-01'.split(
    ' ',
  ),
  ...'Item Volume Before Price Freight Days Each [Each]/0 TEST DUTCH FILE GATING FORMULA'.split(' '),
];

const withBody = targets.filter(({ body }) => body !== undefined);

test.each(targets.map((target) => [target.name, target] as const))(
  '%s refuses a member or a parameter that it does not know, wherever it stands, by its path',
  async (_name, target) => {
    await world.restore();
    for (const seed of seedsOf(target, world)) {
      const valid = shotOf(world, target, seed);
      const separator = valid.path.includes('?') ? '&' : '?';
      const asked = await send(world, { ...valid, path: `${valid.path}${separator}unknown=1` });
      expect([asked.status, asked.body.errors]).toEqual([400, [{ path: 'unknown', message: expect.any(String) }]]);
      for (const { text, place } of target.body ? withEachUnknown(seed.body) : []) {
        const answer = await send(world, { ...valid, body: text });
        const paths = answer.body.errors?.map(({ path }: { path: string }) => pathParts(path));
        expect([text, answer.status, paths]).toEqual([text, 400, [place]]);
      }
    }
  },
);

test.each(withBody.map((target) => [target.name, target] as const))('%s with a spoiled body', async (_name, target) => {
  const rounds = fc.oneof(
    ...seedsOf(target, world)
      .filter(({ body }) => body !== undefined)
      .map((seed) => {
        const valid = shotOf(world, target, seed);
        return spoiled(seed.body, lures).map(
          (body): Round => ({
            shot: { ...valid, body: body.text },
            check: (answer) => checkRefusal(target.body, body, answer),
          }),
        );
      }),
  );
  await fire(world, rounds, runsOf(50));
});

test('what is refused late, when something was written already, is taken back', async () => {
  await world.restore();
  const before = await world.digest();
  const question = { identifier: '7', question_text: 'Why?', input_type: 'TEXT' };
  const late: readonly [event: string, questions: object[], status: number][] = [
    [world.events.draft, [question, { ...question, identifier: '8', uuid: world.questions.text }], 400],
    [world.events.draft, [{ ...question, attachment_file_uuids: [world.request] }], 400],
    // These have answers.
    [world.events.open, [question], 409],
  ];
  for (const [event, questions, status] of late) {
    const answer = await world.organisation.call('PUT', `/desk/events/${event}/questions`, questions);
    expect(answer.status).toBe(status);
    expect(await world.digest()).toEqual(before);
  }
});

/** By the endpoint's own schema it is wrong: then 400, and a path that leads to what was spoiled. */
function checkRefusal(schema: (typeof targets)[number]['body'], body: SpoiledBody, answer: HttpAnswer): void {
  const { text, place } = body;
  const value: unknown = JSON.parse(text);
  const parsed = isStorable(text, value) ? schema?.safeParse(value) : undefined;
  const isValid = parsed?.success === true;
  // Two entries that are too much alike, or members of another type: the fault may be shown beside it.
  const isBetween =
    String(place.at(-1)).endsWith('type') ||
    (parsed?.success === false && parsed.error.issues.every(({ code }) => code === 'custom'));
  if (answer.status < 400) {
    if (!isValid || isWrongAnywhere(body, value)) throw new Error('it was taken, and is not valid');
    return;
  }
  if (answer.status === 409 && isValid) return;
  if (answer.status !== 400) throw new Error(`refused with ${answer.status}`);
  const paths = (answer.body.errors as { path: string }[] | undefined)?.map(({ path }) => path);
  if (!paths?.length) throw new Error('refused without saying where');
  const places = paths.map((path) => {
    const parts = pathParts(path);
    if (!parts) throw new Error(`the path ${path} cannot be read`);
    if (!leadsInto(value, parts)) throw new Error(`the path ${path} does not lead into the body`);
    return parts;
  });
  if (!isValid && !isBetween && !places.some((one) => areRelated(one, place)))
    throw new Error(`none of the paths ${paths.slice(0, 5).join(' ')} leads to ${place.join('/')}`);
}

/** What no endpoint takes, whatever its schema. */
function isStorable(text: string, value: unknown): boolean {
  const wholePairs = text.replaceAll(/\\ud[89ab]..\\ud[c-f]../gi, '');
  return !/\\u0000|\\ud[89a-f]/i.test(wholePairs) && depthOf(value) <= 64;
}

function depthOf(value: unknown): number {
  let depth = 0;
  for (let level = [value]; level.length > 0; depth += 1)
    level = level.flatMap((one) => (typeof one === 'object' && one !== null ? Object.values(one) : []));
  return depth - 1;
}
