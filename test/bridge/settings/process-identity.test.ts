import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { expect, test } from 'vitest';
import { createProcessIdentity } from '#bridge/settings/process-identity.ts';

async function startProcess() {
  const child = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)'], { stdio: 'ignore' });
  await once(child, 'spawn');
  return {
    identity: createProcessIdentity(child.pid),
    kill: async () => {
      const ended = once(child, 'exit');
      child.kill('SIGKILL');
      await ended;
    },
  };
}

test('a process is over when it was killed, and not before', async () => {
  const here = createProcessIdentity();
  const { identity, kill } = await startProcess();
  expect(here.isOver(identity.own)).toBe(false);
  await kill();
  expect(here.isOver(identity.own)).toBe(true);
});

test('the process itself is not over', () => {
  const here = createProcessIdentity();
  expect(here.isOver(here.own)).toBe(false);
});

test.skipIf(process.platform !== 'linux')('a process whose number another process has by now is over', () => {
  const here = createProcessIdentity();
  const [pid, start, ...place] = here.own.split(' ');
  expect(here.isOver([pid, Number(start) - 1, ...place].join(' '))).toBe(true);
});

test('a process of another machine, container or boot is never seen to be over', async () => {
  const here = createProcessIdentity();
  const { identity, kill } = await startProcess();
  await kill();
  expect(here.isOver(`${identity.own}0`)).toBe(false);
  expect(here.isOver('anything else')).toBe(false);
});
