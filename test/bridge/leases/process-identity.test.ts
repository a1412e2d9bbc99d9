import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { expect, test } from 'vitest';
import { createProcessIdentity } from '#bridge/leases/process-identity.ts';

async function startProcess() {
  const child = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)'], { stdio: 'ignore' });
  await once(child, 'spawn');
  return {
    mark: createProcessIdentity(child.pid),
    kill: async () => {
      const ended = once(child, 'exit');
      child.kill('SIGKILL');
      await ended;
    },
  };
}

test('a process is over when it was killed, and not before', async () => {
  const here = createProcessIdentity();
  const { mark, kill } = await startProcess();
  expect(here.isOver(mark.own)).toBe(false);
  await kill();
  expect(here.isOver(mark.own)).toBe(true);
});

test('the process itself is not over', () => {
  const here = createProcessIdentity();
  expect(here.isOver(here.own)).toBe(false);
});

test.skipIf(process.platform !== 'linux')(
  'a number that another process has by now is not taken for the one before',
  () => {
    const here = createProcessIdentity();
    const [pid, start, ...place] = here.own.split(' ');
    expect(here.isOver([pid, Number(start) - 1, ...place].join(' '))).toBe(true);
  },
);

test('of a process of another machine, container or start of the machine nothing is known', async () => {
  const here = createProcessIdentity();
  const { mark, kill } = await startProcess();
  await kill();
  expect(here.isOver(`${mark.own}0`)).toBe(false);
  expect(here.isOver('anything else')).toBe(false);
});
