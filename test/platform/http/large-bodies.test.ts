import { expect, test } from 'vitest';
import { createLargeBodies } from '#platform/http/large-bodies.ts';
import { createManualClock } from '../../harness/manual-clock.ts';

const noThread = { check: () => Promise.reject(new Error('not called')), close: async () => undefined };
const settled = () => new Promise<void>((resolve) => setImmediate(resolve));

function bodiesOf(bytesPerMinute: number) {
  const clock = createManualClock();
  return { clock, bodies: createLargeBodies({ thread: noThread, bytesPerMinute, clock }) };
}

const limited = (name: string) => ({ name, isLimited: true });

test('one sender has one body in work; another sender has its own turn meanwhile', async () => {
  const { bodies } = bodiesOf(1_000);
  const first = await bodies.enter(limited('A'), 10);
  let second = false;
  const waiting = bodies.enter(limited('A'), 10).then((turn) => {
    second = true;
    return turn;
  });
  (await bodies.enter(limited('B'), 10)).end();
  await settled();
  expect(second).toBe(false);
  first.end();
  (await waiting).end();
});

test('of one sender 16 bodies wait at most', async () => {
  const { bodies } = bodiesOf(1_000);
  const turns = Array.from({ length: 17 }, () => bodies.enter(limited('A'), 1));
  await expect(bodies.enter(limited('A'), 1)).rejects.toMatchObject({ code: 'too-many' });
  for (const turn of turns) (await turn).end();
});

test('bytes beyond those of a minute are refused with the time until they are free, others are not affected', async () => {
  const { bodies, clock } = bodiesOf(600);
  (await bodies.enter(limited('A'), 400)).end();
  // 300 more would be 100 too many, and 10 bytes become free each second.
  await expect(bodies.enter(limited('A'), 300)).rejects.toMatchObject({
    code: 'too-many',
    recovery: { do: 'retry', afterMs: 10_000 },
    publicMessage: expect.stringContaining('600 bytes a minute'),
  });
  (await bodies.enter(limited('B'), 600)).end();
  (await bodies.enter({ name: 'A', isLimited: false }, 600)).end();
  clock.advance(9_000);
  await expect(bodies.enter(limited('A'), 300)).rejects.toMatchObject({ code: 'too-many' });
  clock.advance(1_000);
  (await bodies.enter(limited('A'), 300)).end();
});

test('a body of unknown length counts with what has come of it', async () => {
  const { bodies } = bodiesOf(600);
  const turn = await bodies.enter(limited('A'), 500);
  turn.received(100);
  turn.end();
  await expect(bodies.enter(limited('A'), 500)).resolves.toBeDefined();
});

test('a body is taken although it is larger than the bytes of a minute, if it is the first', async () => {
  const { bodies } = bodiesOf(100);
  (await bodies.enter(limited('A'), 500)).end();
  await expect(bodies.enter(limited('A'), 1)).rejects.toMatchObject({ code: 'too-many' });
});
