/** What the doctor says of feeds and flows: who is to be looked at is the one that is late. */
import { expect, test } from 'vitest';
import type { BridgeStatus, FeedStatus, FlowStatus } from '#bridge/status.ts';
import { findWork } from '#cli/doctor/work-findings.ts';

const inStep = { seconds: 5, inStep: true, why: 'in step' };
const feed: FeedStatus = {
  source: 'main',
  feed: 'awards',
  watermark: '2030-01-01T00:00:00.000000Z',
  lastPull: '2030-01-01T00:00:00.000000Z',
  nextPull: '2030-01-01T00:01:00.000000Z',
  newest: null,
  ordered: true,
  latenessSeconds: 30,
  pollSeconds: 60,
  waiting: 0,
  failures: 0,
  lastError: null,
  doubts: 0,
  lateFinds: 0,
  audited: null,
  warning: null,
  lag: inStep,
};
const flow: FlowStatus = {
  flow: 'erp',
  source: 'main',
  pausedReason: null,
  pausedKind: null,
  pausedAt: null,
  failuresInRow: 0,
  circuitUntil: null,
  due: 0,
  retrying: 0,
  stuck: 0,
  lastError: null,
  deadLetters: 0,
  oldestWaiting: null,
  lag: inStep,
};

function of(change: Partial<FlowStatus>) {
  const status: BridgeStatus = {
    feeds: [feed],
    flows: [{ ...flow, ...change }],
    backfills: [],
    quotas: [],
    delivered: [],
    waiting: [],
    deadLetters: [],
  };
  return findWork(status).filter(({ name }) => name.startsWith('flow'));
}

const late = { seconds: 900, inStep: false, why: 'late' };

test.each<[string, Partial<FlowStatus>, string, RegExp]>([
  ['in step', {}, 'ok', /^$/],
  ['with documents that nobody delivers', { due: 3, lag: late }, 'warn', /role push/],
  ['with nothing to deliver, whose feed is late', { lag: late }, 'warn', /line of the feed/],
  ['with dead letters and documents that nobody delivers', { due: 3, deadLetters: 1, lag: late }, 'warn', /role push/],
  ['with dead letters and nothing else to deliver', { deadLetters: 1, lag: late }, 'ok', /^$/],
  ['that never began', { lag: { ...late, seconds: null } }, 'warn', /role push/],
  ['whose connector gives answers of no use', { due: 1, retrying: 1, stuck: 1, lag: late }, 'fail', /connector/],
  ['whose circuit is open', { circuitUntil: '2030-01-01T00:05:00.000000Z', lag: late }, 'fail', /ERP/],
  ['that is paused', { pausedReason: 'no right', pausedKind: 'auth', lag: late }, 'fail', /bridge resume erp\.$/],
  [
    'that is paused for withdrawals',
    { pausedReason: 'many', pausedKind: 'withdrawals', lag: late },
    'fail',
    /bridge resume erp --agree-to-withdrawals/,
  ],
])('a flow %s: what to do points to whoever is late', (_what, change, level, todo) => {
  const [found] = of(change);
  expect(found?.level).toBe(level);
  expect(found?.todo ?? '').toMatch(todo);
});
