import { describe, expect, test } from 'vitest';
import { type FeedProgress, type Lag, lagOfFeed } from '#bridge/mirror/feed-lag.ts';
import { type FlowProgress, lagOfFlow } from '#bridge/operate/status/flow-lag.ts';

const now = '2030-01-01T12:00:00.000000Z';

/** A feed that does not declare its order, read a minute ago, with nothing newer known than its watermark. */
const feed: FeedProgress = {
  watermark: '2030-01-01T11:00:00.000000Z',
  lastPull: '2030-01-01T11:59:00.000000Z',
  nextPull: '2030-01-01T12:00:00.000000Z',
  newest: '2030-01-01T11:00:00.000000Z',
  ordered: false,
  latenessSeconds: 30,
  waiting: 0,
  failures: 0,
  lastError: null,
  pollSeconds: 60,
  stalledWhy: null,
  unprovedSince: null,
  created: '2029-12-31T12:00:00.000000Z',
  oldest: '2029-12-01T00:00:00.000000Z',
};

describe('a feed’s lag', () => {
  test.each<[string, Partial<FeedProgress>, number | null, boolean]>([
    ['counts from the last pull less the lateness bound when nothing changes', {}, 90, true],
    ['counts from the last pull when the feed declares its order', { ordered: true }, 60, true],
    [
      'counts from the watermark while newer records are not past the lateness bound',
      { newest: '2030-01-01T11:58:30.000000Z', watermark: '2030-01-01T11:58:00.000000Z' },
      120,
      true,
    ],
    [
      'counts from the watermark when that is later than the last pull: the bridge is catching up',
      { lastPull: '2030-01-01T10:00:00.000000Z', ordered: true },
      3600,
      false,
    ],
    ['is never negative, whatever the source’s clock says', { watermark: '2030-01-01T12:00:05.000000Z' }, 0, true],
    ['is unknown before the first page', { watermark: null, newest: null, lastPull: null }, null, false],
    [
      'counts from the watermark during the first sync of an ordered feed',
      { lastPull: null, newest: '2030-01-01T11:00:00.000000Z', ordered: true },
      3600,
      false,
    ],
    [
      'is unknown during the first sync of a feed that does not declare its order',
      { watermark: null, lastPull: null },
      null,
      false,
    ],
    ['grows while pulls fail', { failures: 3, lastError: 'the source is away' }, 90, false],
    // Three times the lateness bound and a poll may pass: 150 s.
    [
      'is in step while a record waits no longer than that for the watermark to pass it',
      { newest: '2030-01-01T11:58:30.000000Z', unprovedSince: '2030-01-01T11:57:31.000000Z' },
      3600,
      true,
    ],
    [
      'is not in step while a record waits for longer to be passed, whatever the pull says',
      { newest: '2030-01-01T11:58:30.000000Z', unprovedSince: '2030-01-01T11:57:29.000000Z' },
      3600,
      false,
    ],
    [
      'is in step while a record in the future waits for its time',
      { newest: '2030-01-03T12:00:00.000000Z', unprovedSince: '2030-01-03T12:00:00.000000Z' },
      3600,
      true,
    ],
    ['of an empty feed counts from its last pull', { watermark: null, newest: null }, 90, true],
  ])('%s', (_title, change, seconds, inStep) => {
    expect(lagOfFeed({ ...feed, ...change }, now)).toMatchObject({ seconds, inStep });
  });

  test.each<[Partial<FeedProgress>, string]>([
    [{}, 'up to date, read 60 s ago'],
    // The source's clock is not the bridge's.
    [{ lastPull: '2030-01-01T12:00:03.000000Z' }, 'up to date, read 0 s ago'],
    [{ failures: 1, lastError: 'HTTP 503' }, 'the last pull failed, the next is at 2030-01-01T12:00:00Z: HTTP 503'],
    [{ failures: 4, lastError: 'HTTP 503' }, 'the last 4 pulls failed, the next is at 2030-01-01T12:00:00Z: HTTP 503'],
    [
      { lastError: 'answered with 429', nextPull: '2030-01-01T13:59:00.000000Z' },
      'throttled until 2030-01-01T13:59:00Z: answered with 429',
    ],
    // A wait that is no longer than the time between two polls is not worth a look.
    [{ lastError: 'answered with 429', nextPull: '2030-01-01T12:01:00.000000Z' }, 'up to date, read 60 s ago'],
    [{ waiting: 1 }, '1 notification to answer'],
    [
      { unprovedSince: '2030-01-01T11:45:00.000000Z', stalledWhy: 'the request after 11:00 shows 50 empty pages' },
      'new records are read; that none is missing is proved only up to 2030-01-01T11:00:00Z: the request after 11:00 shows 50 empty pages',
    ],
    [{ watermark: null, newest: null, stalledWhy: 'the feed shows 50 empty pages' }, 'the feed shows 50 empty pages'],
    [{ watermark: null }, 'records are read; that none is missing is not proved yet'],
    [
      { unprovedSince: '2030-01-01T11:45:00.000000Z' },
      'new records are read; that none is missing is proved only up to 2030-01-01T11:00:00Z',
    ],
    [{ lastPull: null, watermark: null }, 'it is being read for the first time'],
    // A quarter of the time since the oldest record in the last hour: the rest takes three more.
    [
      {
        lastPull: null,
        watermark: '2030-01-01T06:00:00.000000Z',
        oldest: '2030-01-01T04:00:00.000000Z',
        created: '2030-01-01T11:00:00.000000Z',
      },
      'it is being read for the first time: 25 %, about 3.0 h left',
    ],
    [
      { lastPull: '2030-01-01T11:56:59.000000Z' },
      'it was last read at 2030-01-01T11:56:59Z: the bridge is catching up, or no process with the role pull runs',
    ],
    // Up to a minute more than two polls is not late, as a pull takes some time.
    [{ lastPull: '2030-01-01T11:57:01.000000Z' }, 'up to date, read 179 s ago'],
    [{ newest: '2030-01-01T11:59:00.000000Z' }, 'records become final 30 s after their time: all are read'],
  ])('%j is explained as "%s"', (change, why) => {
    expect(lagOfFeed({ ...feed, ...change }, now).why).toBe(why);
  });
});

const flow: FlowProgress = {
  pausedReason: null,
  circuitUntil: null,
  due: 0,
  retrying: 0,
  cutOff: 0,
  cutOffUntil: null,
  commitsLost: null,
  lastError: null,
  deadLetters: 0,
  oldestWaiting: null,
};
const fine: Lag = { seconds: 5, why: 'in step', inStep: true };
const behind: Lag = { seconds: 50, why: 'the last pull failed', inStep: false };

describe('a flow’s lag', () => {
  test.each<[string, Partial<FlowProgress>, readonly Lag[], number | null]>([
    ['is that of its oldest undelivered document', { oldestWaiting: '2030-01-01T11:59:00.000000Z' }, [fine], 60],
    ['is that of the feed furthest behind when that is greater', {}, [fine, behind], 50],
    ['is unknown when that of a feed is unknown', {}, [fine, { ...behind, seconds: null }], null],
    ['is 0 without feeds and documents', {}, [], 0],
  ])('%s', (_title, change, lags, seconds) => {
    const feeds = lags.map((lag, index) => ({ feed: `feed-${index}`, lag }));
    expect(lagOfFlow({ ...flow, ...change }, feeds, now).seconds).toBe(seconds);
  });

  test.each<[Partial<FlowProgress>, string, boolean]>([
    [{}, 'in step', true],
    [{ due: 2 }, '2 documents to deliver', false],
    [{ due: 2, retrying: 1, lastError: 'vendor locked' }, '1 document to try again: vendor locked', false],
    [
      { due: 44, cutOff: 44, cutOffUntil: '2030-01-01T12:00:35.000000Z' },
      '44 documents wait until 2030-01-01T12:00:35Z: the call was cut off and may still take effect; then the ERP is asked what it holds',
      false,
    ],
    [
      { due: 4, cutOff: 1, cutOffUntil: '2030-01-01T12:00:35.000000Z' },
      '1 document waits until 2030-01-01T12:00:35Z: the call was cut off and may still take effect; then the ERP is asked what it holds; 3 documents to deliver',
      false,
    ],
    [{ circuitUntil: '2030-01-01T12:00:00.000000Z' }, 'in step', true],
    [{ deadLetters: 1 }, '1 refused document, all else is delivered', false],
    [{ pausedReason: 'no right to write', due: 3 }, 'paused: no right to write', false],
    [
      { circuitUntil: '2030-01-01T12:01:00.000000Z', lastError: 'HTTP 500' },
      'too many failures in a row, one document is tried at 2030-01-01T12:01:00Z: HTTP 500',
      false,
    ],
  ])('%j is explained as "%s"', (change, why, inStep) => {
    expect(lagOfFlow({ ...flow, ...change }, [{ feed: 'awards', lag: fine }], now)).toMatchObject({ why, inStep });
  });

  test('names the feed that fails, also when a feed that is well was read longer ago', () => {
    const feeds = [
      { feed: 'awards', lag: { ...fine, seconds: 600 } },
      { feed: 'latest-bids', lag: behind },
    ];
    const seen = lagOfFlow(flow, feeds, now);
    expect(seen).toEqual({ seconds: 600, inStep: false, why: 'the feed latest-bids is late: see there' });
  });

  test('that comes from a feed names the feed', () => {
    expect(lagOfFlow(flow, [{ feed: 'awards', lag: behind }], now).why).toBe('the feed awards is late: see there');
  });
});
