import { describe, expect, test } from 'vitest';
import type { FeedReader, PulledPage } from '#bridge/pull/feed/feed-reader.ts';
import { createPageCap } from '#bridge/pull/feed/page-cap.ts';
import { type ForwardOptions, readForward } from '#bridge/pull/read-forward.ts';
import { idOf, lotAwardRecord, testClock } from '../parts.ts';

const lotAwards = [0, 1, 2, 3].map((n) => lotAwardRecord(idOf(n), idOf(90), []));
const pageOf = (n: number, next: string | undefined, more: Partial<PulledPage> = {}): PulledPage => ({
  records: lotAwards.slice(n, n + 1),
  includes: {},
  next,
  commitOrdered: true,
  sourceMs: undefined,
  observed: '2030-01-01T00:00:00.000000Z',
  ...more,
});

const options: ForwardOptions = {
  feed: 'awards',
  emptyPages: { count: 3, ms: 60_000 },
  clock: testClock(),
  hasFailedBefore: false,
};

/** Answers with pages 1 to `count`; `answer` may replace an answer, or wait. */
function readerOf(count: number, answer?: (n: number) => Promise<PulledPage> | undefined) {
  const asked: number[] = [];
  const reader: FeedReader = {
    pageSize: () => 1,
    cap: createPageCap(),
    read: async (at) => {
      const n = 'next' in at ? Number(at.next) : 1;
      asked.push(n);
      return (await answer?.(n)) ?? pageOf(n, n < count ? String(n + 1) : undefined);
    },
  };
  return { reader, asked };
}

describe('reading ahead', () => {
  test('requests the next page before this one is handled, and no page twice', async () => {
    const { reader, asked } = readerOf(3);
    const seen: string[] = [];
    for await (const page of readForward(reader, {}, options))
      seen.push(`${String(page.records[0]?.['id']).at(-1)}: ${asked.join()}`);
    expect([asked, seen]).toEqual([
      [1, 2, 3],
      ['1: 1,2', '2: 1,2,3', '3: 1,2,3'],
    ]);
  });

  test('throws the error of a page when that page is awaited, not before', async () => {
    const { reader, asked } = readerOf(3, (n) => (n === 2 ? Promise.reject(new Error('Page 2 is away.')) : undefined));
    const requests: number[] = [];
    const follow = async () => {
      for await (const _page of readForward(reader, {}, options)) requests.push(asked.length);
    };
    await expect(follow()).rejects.toThrow('Page 2 is away.');
    expect([requests, asked]).toEqual([[2], [1, 2]]);
  });

  test('a caller that leaves the loop waits for the request that is under way, even if that fails', async () => {
    const { promise, reject } = Promise.withResolvers<PulledPage>();
    const { reader } = readerOf(3, (n) => (n === 2 ? promise : undefined));
    let left = false;
    const following = (async () => {
      for await (const _page of readForward(reader, {}, options)) throw new Error('It could not be stored.');
    })().finally(() => {
      left = true;
    });
    const outcome = following.catch((error: unknown) => error);
    for (let turns = 0; turns < 20; turns += 1) await Promise.resolve();
    expect(left).toBe(false);
    reject(new Error('cut off'));
    expect(await outcome).toMatchObject({ message: 'It could not be stored.' });
  });

  test('follows no link that was followed before', async () => {
    const { reader, asked } = readerOf(2, async (n) => pageOf(n, n === 1 ? '2' : '2'));
    const follow = async () => {
      for await (const _page of readForward(reader, {}, options));
    };
    await expect(follow()).rejects.toThrow('"next" returns to what was shown already');
    expect(asked).toEqual([1, 2]);
  });
});
