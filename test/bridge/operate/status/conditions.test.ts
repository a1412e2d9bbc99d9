/** What counts as a condition, and what it says. */
import { describe, expect, test } from 'vitest';
import { type FeedStatus } from '#bridge/mirror/feed-statuses.ts';
import { type ComparisonStatus } from '#bridge/operate/reconcile/reconcile-status.ts';
import { findConditions, type Observed } from '#bridge/operate/status/conditions.ts';
import { type IntakeStatus } from '#bridge/operate/status/intake-status.ts';
import { type AuditStatus, type FlowStatus } from '#bridge/operate/status/part-statuses.ts';
import type { SourceFault } from '#bridge/operate/webhooks/webhook-looks.ts';
import { timestampFromMs } from '#contract/timestamp.ts';
import { testCertificates } from '../../../harness/test-certificates.ts';
import { feedInStep, flowInStep, intakeInStep } from './statuses.ts';

/** The certificate of the tests is valid from yesterday on, for a year. */
const nowMs = Date.now();
const daysFromNow = (days: number) => timestampFromMs(nowMs + days * 24 * 3_600_000);
const now = daysFromNow(0);
const minutesAgo = (minutes: number) => daysFromNow(-minutes / (24 * 60));

type Given = Partial<Observed> & {
  flow?: Partial<FlowStatus>;
  feed?: Partial<FeedStatus>;
  intake?: Partial<IntakeStatus>;
};

function of(found: Given, { at = now, behindMinutes = 30 } = {}) {
  const { flow = {}, feed = {}, intake = {}, ...more } = found;
  const whole = {
    feeds: [{ ...feedInStep, ...feed }],
    flows: [{ ...flowInStep, ...flow }],
    intakes: [{ ...intakeInStep, ...intake }],
    audits: [],
    comparisons: [],
    webhookFaults: [],
    unreadJobs: [],
    unsent: [],
    failingLogins: [],
    refusedConfigurations: [],
    certificatePem: testCertificates().certPem,
    ...more,
  };
  return findConditions(whole, { now: at, behindMinutes });
}
const lag = (seconds: number | null) => ({ lag: { seconds, inStep: false, why: 'the ERP says no' } });

test('a bridge in step has none', () => {
  expect(of({})).toEqual([]);
});

describe('a comparison with the ERP', () => {
  const same: ComparisonStatus = {
    flow: 'erp',
    everyHours: 24,
    ended: now,
    run: 7,
    documents: 1_000,
    asDelivered: 1_000,
    differing: 0,
    open: null,
    lastError: null,
    overdue: false,
  };
  const found = (comparison: ComparisonStatus) => of({ comparisons: [comparison] });

  test('that found nothing is no alert', () => {
    expect(found(same)).toEqual([]);
  });

  test('that found differences is one', () => {
    expect(found({ ...same, differing: 3 })).toMatchObject([
      { kind: 'erp-differs', subject: 'flow erp', summary: expect.stringContaining('3 differences') },
    ]);
  });

  test('that does not end is one, with what stops it', () => {
    expect(found({ ...same, overdue: true, lastError: 'the ERP answered 500' })).toMatchObject([
      { kind: 'comparison-late', summary: expect.stringContaining('the ERP answered 500') },
    ]);
  });
});

describe('a flow', () => {
  test('that is paused: why, and how to go on', () => {
    expect(of({ flow: { pausedReason: 'no right', pausedKind: 'auth', pausedAt: minutesAgo(5), due: 3 } })).toEqual([
      {
        kind: 'flow-paused',
        subject: 'flow erp',
        since: minutesAgo(5),
        level: 'fail',
        summary: 'Flow erp is paused; 3 documents wait: no right',
        action: 'Fix the cause, then: bridge resume erp',
      },
    ]);
    expect(of({ flow: { pausedReason: 'many', pausedKind: 'withdrawals' } })[0]?.action).toContain(
      'bridge resume erp --agree',
    );
  });

  test('whose oldest document has waited for longer than the limit, and not before', () => {
    expect(of({ flow: { ...lag(1_860), oldestWaiting: minutesAgo(29) } })).toEqual([]);
    expect(of({ flow: { ...lag(1_860), oldestWaiting: minutesAgo(31) } })).toMatchObject([
      { kind: 'erp-behind', subject: 'flow erp', summary: expect.stringContaining('the ERP says no') },
    ]);
    expect(of({ flow: { ...lag(1_860), oldestWaiting: minutesAgo(31) } }, { behindMinutes: 60 })).toEqual([]);
  });

  test('is one condition, not two, when it is paused and behind', () => {
    expect(of({ flow: { pausedReason: 'no right', oldestWaiting: minutesAgo(99) } })).toHaveLength(1);
  });
});

describe('an intake', () => {
  test('that is paused: why, and how to go on', () => {
    const backlog = { suppliers: 12, submissions: 1, end: null };
    expect(of({ intake: { pausedReason: 'too many', pausedKind: 'archives', backlog } })).toEqual([
      {
        kind: 'intake-paused',
        subject: 'intake vendors',
        since: null,
        level: 'fail',
        summary: 'Intake vendors is paused; 12 suppliers wait: too many',
        action: 'Look at it: bridge plan vendors. Then: bridge resume vendors --agree, if they are intended',
      },
    ]);
  });

  test('whose suppliers wait for longer than the limit, whose ERP cannot be read, or whose submission hangs', () => {
    const behind = [{ kind: 'intake-behind', subject: 'intake vendors' }];
    expect(of({ intake: { oldestWaiting: minutesAgo(29) } })).toEqual([]);
    expect(of({ intake: { oldestWaiting: minutesAgo(31) } })).toMatchObject(behind);
    expect(of({ intake: { readFailures: 1, lastRead: minutesAgo(2) } })).toMatchObject([
      { ...behind[0], since: minutesAgo(2) },
    ]);
    expect(of({ intake: { lastRead: minutesAgo(31) } })).toEqual([]);
    expect(of({ intake: { stuck: true } })).toMatchObject(behind);
  });

  test('with refused suppliers: how many, and what the service said of the latest', () => {
    expect(of({ intake: { deadLetters: 2, deadSince: minutesAgo(3), deadWhy: 'no such attribute' } })).toMatchObject([
      {
        kind: 'dead-letters',
        subject: 'intake vendors',
        since: minutesAgo(3),
        summary: 'Intake vendors: 2 suppliers refused, the latest: no such attribute',
      },
    ]);
  });

  test('of requisitions names them so, and one of them as one', () => {
    const stream = 'requisition' as const;
    const backlog = { suppliers: 1, submissions: 1, end: null };
    expect(of({ intake: { stream, pausedReason: 'the first run', pausedKind: 'first-run', backlog } })).toMatchObject([
      { summary: 'Intake vendors is paused; 1 requisition waits: the first run' },
    ]);
    expect(of({ intake: { stream, deadLetters: 1, deadWhy: 'it was withdrawn' } })).toMatchObject([
      { summary: 'Intake vendors: 1 requisition to be looked at, the latest: it was withdrawn' },
    ]);
  });
});

const untimedRead: AuditStatus = {
  kind: 'untimed',
  source: 'main',
  feed: 'awards',
  from: '1970-01-01T00:00:00.000000Z',
  to: '1970-01-01T00:00:00.000000Z',
  position: null,
  asked: now,
  oldest: null,
  progress: '',
  records: 0,
  lateArrivals: 0,
  finished: null,
  cancelled: null,
  failures: 0,
  nextTry: now,
  lastError: null,
};

describe('a feed', () => {
  test('that is further behind than the limit, and not before', () => {
    // By its poll of a minute more.
    expect(of({ feed: lag(1_859) })).toEqual([]);
    expect(of({ feed: lag(1_861) })).toMatchObject([{ kind: 'feed-behind', subject: 'feed main/awards' }]);
  });

  test('that is in step is not late, although its last record was hours before the one that is new', () => {
    expect(of({ feed: { lag: { ...lag(9_999).lag, inStep: true } } })).toEqual([]);
  });

  test('that was never read to its end: when its pulls fail, not while it is read for the first time', () => {
    expect(of({ feed: { ...lag(null), lastPull: null } })).toEqual([]);
    expect(of({ feed: { ...lag(null), failures: 1 } })).toMatchObject([{ kind: 'feed-behind', since: null }]);
  });

  test('whose watermark stands still: that, and not also that it is behind', () => {
    const still = { stalled: true, unprovedSince: minutesAgo(20), stalledWhy: 'page 2 repeats page 1' };
    expect(of({ feed: { ...lag(9_999), ...still } })).toMatchObject([
      {
        kind: 'feed-stalled',
        summary: expect.stringMatching(
          /^The feed main\/awards is read, but not proved to be complete since .* UTC: page 2 repeats page 1$/,
        ),
      },
    ]);
  });

  test('whose records without a time cannot be read', () => {
    const failed: AuditStatus = { ...untimedRead, failures: 1, lastError: 'the cursor has expired' };
    expect(of({ audits: [failed] })).toEqual([
      {
        kind: 'feed-unfiltered',
        subject: 'feed main/awards',
        since: null,
        level: 'warn',
        summary: 'Records of main/awards without a time may be missing: the cursor has expired',
        action: expect.stringContaining('read again'),
      },
    ]);
    const quiet: Partial<AuditStatus>[] = [{ failures: 0 }, { finished: now }, { cancelled: now }];
    for (const change of quiet) expect(of({ audits: [{ ...failed, ...change }] })).toEqual([]);
  });

  test('whose audit fails five times in a row: with how far it has read, not with its records without a time', () => {
    const audit: AuditStatus = { ...untimedRead, kind: 'full', to: now, failures: 4, lastError: 'it is away' };
    expect(of({ audits: [audit] })).toEqual([]);
    expect(of({ audits: [{ ...audit, failures: 5 }] })).toMatchObject([
      {
        kind: 'audit-failing',
        subject: 'feed main/awards',
        level: 'fail',
        summary: expect.stringMatching(
          /^The audit of main\/awards has proved nothing yet, .* failed 5 times: it is away$/,
        ),
      },
    ]);
  });
});

test.each([
  ['that may be read later is a failure', { jobs: 2, unknown: 1 }, 'fail', '2 jobs of main'],
  ['that the service does not know is a warning', { jobs: 1, unknown: 1 }, 'warn', '1 job of main'],
] as const)('a job %s', (_what, counts, level, words) => {
  const unread = { source: 'main', since: minutesAgo(5), why: 'give it the scope "jobs"', ...counts };
  expect(of({ unreadJobs: [unread] })).toMatchObject([
    { kind: 'jobs-unread', subject: 'source main', level, summary: expect.stringContaining(words) },
  ]);
});

describe('a webhook by the word of its service', () => {
  const uuid = '31d0b9dd-6b9a-40c4-9ee9-14a9f92eb857';
  const fault = { source: 'main', uuid, url: 'https://b.example/webhooks/main', since: minutesAgo(5) };
  const found = (more: Pick<SourceFault, 'kind' | 'why' | 'status'>) => of({ webhookFaults: [{ ...fault, ...more }] });

  test('that is refused with 401: the key is to be replaced', () => {
    expect(found({ kind: 'failing', why: 'answered 401', status: 401 })).toMatchObject([
      { kind: 'webhook-failing', subject: 'source main', action: expect.stringContaining('rotate --source main') },
    ]);
  });

  test('that fails otherwise: nothing is said of keys', () => {
    const [failing] = found({ kind: 'failing', why: 'the certificate of b.example has expired', status: null });
    expect(failing?.summary).toMatch(/UTC: the certificate of b.example has expired$/);
    expect(failing?.action).not.toContain('rotate');
  });

  test('that is switched off, with the words of its last delivery', () => {
    expect(found({ kind: 'off', why: 'answered 410', status: 410 })).toMatchObject([
      {
        kind: 'webhook-off',
        summary: expect.stringMatching(/switched off by the service; its last delivery: answered 410$/),
      },
    ]);
  });
});

describe('the certificate', () => {
  test('that ends within two weeks, has ended, or cannot be read', () => {
    expect(of({}, { at: daysFromNow(300) }).filter(({ kind }) => kind === 'certificate')).toEqual([]);
    expect(of({}, { at: daysFromNow(355) })).toMatchObject([{ kind: 'certificate', level: 'warn' }]);
    expect(of({}, { at: daysFromNow(400) })).toMatchObject([{ kind: 'certificate', level: 'fail' }]);
    expect(of({ certificatePem: 'no PEM' })).toMatchObject([{ summary: expect.stringContaining('cannot be read') }]);
    expect(of({ certificateRefused: 'The key does not fit.' })).toMatchObject([
      { subject: 'certificate file', summary: expect.stringContaining('The key does not fit.') },
    ]);
  });
});

test('words of an ERP stand in one line, cut, without characters that control a terminal', () => {
  const [found] = of({ flow: { pausedReason: `a\r\nb\u001b[2Jc${'x'.repeat(5_000)}` } });
  expect(found?.summary).toMatch(/: a b \[2Jcx+…$/);
  expect(found?.summary.length).toBeLessThan(400);
});

test('logins that fail again and again are one condition, whoever they are of', () => {
  expect(of({ failingLogins: ['account anna', 'address 192.0.2.7'] })).toMatchObject([
    {
      kind: 'logins-failing',
      subject: 'console logins',
      level: 'warn',
      summary: expect.stringContaining('account anna'),
    },
  ]);
});
