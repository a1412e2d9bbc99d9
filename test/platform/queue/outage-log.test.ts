import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { createLogger } from '#platform/log.ts';
import { createOutageLog } from '#platform/queue/outage-log.ts';

let lines: object[] = [];
const log = createLogger({
  level: 'info',
  name: 'test',
  destination: { write: (text) => lines.push(JSON.parse(text) as object) },
});

beforeEach(() => {
  lines = [];
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

test('an outage is one warning, and one line after 30 s without an error; the next outage warns again', () => {
  const outages = createOutageLog(log, 'the queue');
  outages.report(new Error('refused'));
  for (let n = 0; n < 9; n++) {
    vi.advanceTimersByTime(29_000);
    outages.report(new Error('reset'));
  }
  vi.advanceTimersByTime(29_999);
  expect(lines).toEqual([expect.objectContaining({ level: 'warn', error: 'refused' })]);
  vi.advanceTimersByTime(1);
  expect(lines.slice(1)).toEqual([expect.objectContaining({ level: 'info', errors: 10 })]);
  outages.report(new Error('again'));
  expect(lines.slice(2)).toEqual([expect.objectContaining({ level: 'warn', error: 'again' })]);
  outages.close();
});

test('once closed it logs nothing', () => {
  const outages = createOutageLog(log, 'the queue');
  outages.close();
  outages.report(new Error('connection is closed'));
  vi.advanceTimersByTime(60_000);
  expect(lines).toEqual([]);
});
