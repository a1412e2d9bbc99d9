import { expect, test } from 'vitest';
import { waitForEffect } from '#bridge/push/batch/wait-for-effect.ts';
import type { ProcessIdentity } from '#bridge/settings/process-identity.ts';
import { msFromTimestamp, type Timestamp } from '#contract/timestamp.ts';

const at = (time: string): Timestamp => `2026-11-22T${time}.000000Z`;
const http = { timeoutMs: 160_000, lateEffectMs: 35_000, visibleAfterMs: 5_000 };
const none = {
  intentAt: null,
  intentBy: null,
  intentLimitMs: 0,
  callEnded: null,
  callAnswered: false,
  delivered: null,
  uncertainSince: null,
};
/** The call of the example: process 310, a limit of 160 s and 5 s to stop. */
const call = { ...none, intentAt: at('12:00:00'), intentBy: '310', intentLimitMs: 165_000 };

const process310: ProcessIdentity = { own: '310', isOver: () => false };
const seesItDead: ProcessIdentity = { own: '311', isOver: (identity) => identity === '310' };
const elsewhere: ProcessIdentity = { own: '311', isOver: () => false };

test.each<[string, Partial<Parameters<typeof waitForEffect>[2]>, ProcessIdentity, seenAt: string, askedAt: string]>([
  ['the ERP answers 500', { callEnded: at('12:00:03'), callAnswered: true }, process310, '12:00:03', '12:00:08'],
  ['the connection is reset', { callEnded: at('12:00:03') }, process310, '12:00:03', '12:00:38'],
  ['no answer in time', { callEnded: at('12:00:31') }, process310, '12:00:31', '12:01:06'],
  ['killed, seen dead', {}, seesItDead, '12:00:05', '12:00:42'],
  ['killed, on another machine', {}, elsewhere, '12:00:05', '12:03:22'],
  ['frozen', {}, elsewhere, '12:00:59', '12:03:22'],
  ['frozen, and runs again', { callEnded: at('12:01:00') }, elsewhere, '12:01:00', '12:01:37'],
])('the example at the head of wait-for-effect.ts is true: %s', (_case, known, identity, seenAt, askedAt) => {
  const { waitMs } = waitForEffect(http, identity, { ...call, ...known }, msFromTimestamp(at(seenAt)));
  expect(waitMs).toBe(msFromTimestamp(at(askedAt)) - msFromTimestamp(at(seenAt)));
});

test('the end of a dead process is handed back once, so that later waits count from it', () => {
  const nowMs = msFromTimestamp(at('12:00:05'));
  const { callEnd } = waitForEffect(http, seesItDead, call, nowMs);
  expect(callEnd).toEqual({ at: at('12:00:05'), answered: false });
  const later = waitForEffect(http, seesItDead, { ...call, callEnded: at('12:00:05') }, nowMs + 30_000);
  expect(later).toEqual({ waitMs: 7_000, callEnd: undefined });
  // A process on another machine believes it, too.
  expect(waitForEffect(http, elsewhere, { ...call, callEnded: at('12:00:05') }, nowMs + 30_000).waitMs).toBe(7_000);
});

test('a process that died long ago is waited for no longer than its time limit and the late effect', () => {
  expect(waitForEffect(http, seesItDead, call, msFromTimestamp(at('12:03:20'))).waitMs).toBe(2_000);
  expect(waitForEffect(http, seesItDead, call, msFromTimestamp(at('13:00:00'))).waitMs).toBe(0);
});

test('the limit of the process that made the call counts, not that of the process that waits', () => {
  const quick = { ...http, timeoutMs: 2_000 };
  expect(waitForEffect(quick, elsewhere, call, msFromTimestamp(at('12:00:10'))).waitMs).toBe(192_000);
});

test('where nothing takes effect after a call, only a call whose end nobody saw is waited for', () => {
  const files = { timeoutMs: 160_000, lateEffectMs: 0 };
  const nowMs = msFromTimestamp(at('12:00:05'));
  expect(waitForEffect(files, elsewhere, { ...call, callEnded: at('12:00:05') }, nowMs).waitMs).toBe(0);
  expect(waitForEffect(files, seesItDead, call, nowMs).waitMs).toBe(0);
  // 160 s, 5 s to stop, 2 s between the clocks.
  expect(waitForEffect(files, elsewhere, call, nowMs).waitMs).toBe(162_000);
});

test('a delivered document is asked for when the ERP shows it, an uncertain one when its call has no effect any more', () => {
  const nowMs = msFromTimestamp(at('12:00:05'));
  expect(waitForEffect(http, elsewhere, { ...none, delivered: at('12:00:04') }, nowMs).waitMs).toBe(6_000);
  expect(waitForEffect(http, elsewhere, { ...none, uncertainSince: at('12:00:04') }, nowMs).waitMs).toBe(36_000);
  const unstated = { timeoutMs: 160_000, lateEffectMs: 35_000 };
  expect(waitForEffect(unstated, elsewhere, { ...none, delivered: at('12:00:04') }, nowMs).waitMs).toBe(36_000);
});

test('a time in the future, written under a clock that ran ahead, delays by no more than the whole wait', () => {
  const nowMs = msFromTimestamp(at('12:00:05'));
  const ahead = '2029-11-22T12:00:00.000000Z';
  expect(waitForEffect(http, elsewhere, { ...call, intentAt: ahead }, nowMs).waitMs).toBe(202_000);
  expect(waitForEffect(http, process310, { ...call, callEnded: ahead }, nowMs).waitMs).toBe(35_000);
});
