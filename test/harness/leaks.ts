/**
 * At the end of a test: closes the resources that it has registered. At the end of a test file: closes the others, then fails the file if it leaves timers, sockets,
 * servers, child processes or file watchers behind, each of which would keep a real process from ending. Resources that
 * exist when the file starts belong to vitest or to an earlier file of the same process, and do not count.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeEach } from 'vitest';
import { closeWhatIsOpen, countOpen } from './close-at-end.ts';

const watched = new Set([
  'Timeout',
  'TCPSocketWrap',
  'TCPServerWrap',
  'TCPConnectWrap',
  'TLSWrap',
  'PipeWrap',
  'PipeServerWrap',
  'PipeConnectWrap',
  'UDPWrap',
  'ProcessWrap',
  'FSEventWrap',
  'StatWatcher',
  'Worker',
  'MessagePort',
]);

/** Sockets close asynchronously, and closing a pool takes a round trip: several seconds on a busy machine. */
const patienceMs = 5_000;
const pollMs = 10;

// Reading this property opens standard input. A library that imports node:process would do so during the tests.
void process.stdin;
const atStart = countResources();

// Registered before all hooks of the test file, and therefore run after those at the end of a test or of the file.
beforeEach(({ onTestFinished }) => {
  const openBefore = countOpen();
  onTestFinished(() => closeWhatIsOpen(openBefore));
});
afterAll(async () => {
  await closeWhatIsOpen(0);
  const until = performance.now() + patienceMs;
  let leaks = findLeaks();
  while (leaks.length > 0 && performance.now() < until) {
    await sleep(pollMs);
    leaks = findLeaks();
  }
  if (leaks.length > 0)
    throw new Error(
      `This test file leaves behind: ${leaks.join(', ')}. Close what its tests open, in afterEach or afterAll.`,
    );
});

function findLeaks(): string[] {
  return [...countResources()]
    .filter(([type, count]) => watched.has(type) && count > (atStart.get(type) ?? 0))
    .map(([type, count]) => `${count - (atStart.get(type) ?? 0)} ${type}`);
}

function countResources(): Map<string, number> {
  const counts = new Map<string, number>();
  for (const type of process.getActiveResourcesInfo()) counts.set(type, (counts.get(type) ?? 0) + 1);
  return counts;
}
