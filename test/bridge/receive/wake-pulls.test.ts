import { expect, test } from 'vitest';
import { createPullWakes } from '#bridge/receive/wake-pulls.ts';
import { createManualClock } from '../../harness/manual-clock.ts';

const turn = () => new Promise(setImmediate);

function start() {
  const clock = createManualClock();
  const signalled: string[] = [];
  return { clock, signalled, wakes: createPullWakes({ clock, signal: (key) => void signalled.push(key) }) };
}

test('the first notification of a feed wakes it at once, and those that follow it soon wake it once more', async () => {
  const { clock, signalled, wakes } = start();
  for (let count = 0; count < 10; count += 1) wakes.wake('main/awards');
  wakes.wake('main/rfi-responses');
  expect(signalled).toEqual(['main/awards', 'main/rfi-responses']);
  clock.advance(50);
  await turn();
  expect(signalled).toEqual(['main/awards', 'main/rfi-responses', 'main/awards']);
  clock.advance(50);
  await turn();
  expect(signalled, 'nothing came since').toHaveLength(3);
  wakes.wake('main/awards');
  expect(signalled).toHaveLength(4);
});

test('what is owed is sent at the end', () => {
  const { signalled, wakes } = start();
  wakes.wake('main/awards');
  wakes.flush();
  expect(signalled).toHaveLength(1);
  wakes.wake('main/awards');
  wakes.flush();
  expect(signalled).toHaveLength(2);
});
