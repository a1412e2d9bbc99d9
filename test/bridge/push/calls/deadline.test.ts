import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, expect, test, vi } from 'vitest';
import { createDeadline } from '#bridge/push/calls/deadline.ts';

afterEach(() => {
  vi.restoreAllMocks();
});

/** As a process that stands still: no timer fires meanwhile. */
function standStill(ms: number): void {
  const until = performance.now() + ms;
  while (performance.now() < until);
}

test('a signal is aborted for whoever asks it after its time, although no timer has fired yet', () => {
  const { signal } = createDeadline(20);
  expect(signal.aborted).toBe(false);
  signal.throwIfAborted();
  standStill(25);
  expect(signal.aborted).toBe(true);
  expect(() => signal.throwIfAborted()).toThrow('no answer within 20 ms');
});

test('the end is kept also by a machine that was suspended, whose clock alone has gone on', () => {
  const { signal } = createDeadline(60_000);
  expect(signal.aborted).toBe(false);
  const now = Date.now();
  vi.spyOn(Date, 'now').mockReturnValue(now + 60_001);
  expect(signal.aborted).toBe(true);
});

test('nor does a clock that is set back put it off', () => {
  const { signal } = createDeadline(20);
  vi.spyOn(Date, 'now').mockReturnValue(0);
  standStill(25);
  expect(signal.aborted).toBe(true);
});

test('throwing is the first to notice it, too', () => {
  const { signal } = createDeadline(20);
  standStill(25);
  expect(() => signal.throwIfAborted()).toThrow('no answer within 20 ms');
});

test('who listens hears of it, and an earlier end keeps its reason', () => {
  const controller = createDeadline(20);
  const reasons: unknown[] = [];
  controller.signal.addEventListener('abort', () => reasons.push(controller.signal.reason));
  controller.abort('stopped');
  standStill(25);
  expect(controller.signal.aborted).toBe(true);
  expect(reasons).toEqual(['stopped']);
});

test('a fetch that is begun after it sends nothing', async () => {
  let requests = 0;
  const server = createServer((_request, response) => {
    requests += 1;
    response.end();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const { signal } = createDeadline(1_000);
  await fetch(url, { signal });
  standStill(1_001);
  await expect(fetch(url, { signal })).rejects.toThrow('no answer within 1000 ms');
  expect(requests).toBe(1);
  server.close();
  server.closeAllConnections();
});
