/** The doctor's findings about feeds and flows: they name the part that is behind. */
import { expect, test } from 'vitest';
import type { FeedStatus } from '#bridge/mirror/feed-statuses.ts';
import { findConditions } from '#bridge/operate/status/conditions.ts';
import type { FlowStatus } from '#bridge/operate/status/part-statuses.ts';
import { findWork } from '#cli/doctor/work-findings.ts';
import { feedInStep, flowInStep, noStatus } from '../bridge/operate/status/statuses.ts';

function of(change: Partial<FlowStatus>) {
  const status = { ...noStatus, feeds: [feedInStep], flows: [{ ...flowInStep, ...change }] };
  const conditions = findConditions(
    { ...status, webhookFaults: [], unreadJobs: [], unsent: [], failingLogins: [], refusedConfigurations: [] },
    { now: '2030-01-01T00:00:00.000000Z', behindMinutes: 30 },
  );
  return findWork({ ...status, conditions }).filter(({ name }) => name.startsWith('flow'));
}

const late = { seconds: 900, inStep: false, why: 'late' };

test.each<[string, Partial<FlowStatus>, string, RegExp]>([
  ['in step', {}, 'ok', /^$/],
  ['with dead letters', { deadLetters: 1, lag: late }, 'fail', /bridge dead-letters --flow erp/],
  ['whose connector returns unusable answers', { due: 1, retrying: 1, stuck: 1, lag: late }, 'fail', /connector/],
  [
    'whose ERP has not taken a document for long',
    { due: 1, retrying: 1, oldestWaiting: '2029-12-31T23:00:00.000000Z', lag: late },
    'fail',
    /fix what the message names/,
  ],
  [
    'whose circuit is open',
    { circuitUntil: '2030-01-01T00:05:00.000000Z', lag: late },
    'fail',
    /Fix what the message names/,
  ],
  ['that is paused', { pausedReason: 'no right', pausedKind: 'auth', lag: late }, 'fail', /bridge resume erp$/],
  [
    'that is paused for withdrawals',
    { pausedReason: 'many', pausedKind: 'withdrawals', lag: late },
    'fail',
    /bridge resume erp --agree/,
  ],
])('a flow %s: the finding says what to do about the part that is late', (_what, change, level, todo) => {
  const [found] = of(change);
  expect(found?.level).toBe(level);
  expect(found?.todo ?? '').toMatch(todo);
});

test('a feed in step says how it is read, and only one that is late by how much', () => {
  const messageOf = (lag: FeedStatus['lag']) =>
    findWork({ ...noStatus, feeds: [{ ...feedInStep, lag }] }).map(({ level, message }) => [level, message]);
  expect(messageOf(feedInStep.lag)).toEqual([['ok', 'up to date, read 4 s ago']]);
  expect(messageOf(late)).toEqual([['ok', 'behind by 15 min: late']]);
});
