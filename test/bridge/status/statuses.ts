/** The statuses with which tests of its display start: an empty one, and a feed and a flow in step. */
import type { BridgeStatus, FeedStatus, FlowStatus } from '#bridge/status/status.ts';

export const noStatus: BridgeStatus = {
  feeds: [],
  flows: [],
  intakes: [],
  backfills: [],
  audits: [],
  changes: [],
  alerts: [],
  alertChannels: [],
  quotas: [],
  delivered: [],
  waiting: [],
  deadLetters: [],
};

const inStep = { seconds: 4, why: 'in step', inStep: true };

export const feedInStep: FeedStatus = {
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
  suspects: 0,
  lateArrivals: 0,
  audited: null,
  warning: null,
  stalledSince: null,
  stalledWhy: null,
  unprovedSince: null,
  stillSeconds: 0,
  stalled: false,
  orderBroken: null,
  orderBrokenWhy: null,
  unfilteredWhy: null,
  unfilteredDue: null,
  lag: inStep,
};

export const flowInStep: FlowStatus = {
  flow: 'erp',
  source: 'main',
  pausedReason: null,
  pausedKind: null,
  pausedAt: null,
  failuresInRow: 0,
  circuitUntil: null,
  due: 0,
  retrying: 0,
  cutOff: 0,
  cutOffUntil: null,
  stuck: 0,
  lastError: null,
  deadLetters: 0,
  oldestWaiting: null,
  lag: inStep,
};
