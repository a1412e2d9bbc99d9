import { describe, expect, test } from 'vitest';
import { followPages } from '#bridge/pull/follow-pages.ts';

interface Page {
  readonly records: readonly { readonly id: number }[];
  readonly next: string | undefined;
  readonly tookMs: number;
}

const pageOf = (n: number, next: string | undefined): Page => ({ records: [{ id: n }], next, tookMs: 0 });

/** Answers with pages 1 to `count`; `answer` may replace an answer, or wait. */
function sourceOf(count: number, answer?: (n: number) => Promise<Page> | undefined) {
  const asked: number[] = [];
  const ask = async (at: { readonly next?: string }) => {
    const n = at.next === undefined ? 1 : Number(at.next);
    asked.push(n);
    return (await answer?.(n)) ?? pageOf(n, n < count ? String(n + 1) : undefined);
  };
  return { ask, asked };
}

describe('reading ahead', () => {
  test('requests the next page before this one is handled, and no page twice', async () => {
    const { ask, asked } = sourceOf(3);
    const seen: string[] = [];
    for await (const page of followPages(ask, {})) seen.push(`${page.records[0]?.id}: ${asked.join()}`);
    expect([asked, seen]).toEqual([
      [1, 2, 3],
      ['1: 1,2', '2: 1,2,3', '3: 1,2,3'],
    ]);
  });

  test('throws the error of a page when that page is awaited, not before', async () => {
    const { ask, asked } = sourceOf(3, (n) => (n === 2 ? Promise.reject(new Error('Page 2 is away.')) : undefined));
    const requests: number[] = [];
    const follow = async () => {
      for await (const _page of followPages(ask, {})) requests.push(asked.length);
    };
    await expect(follow()).rejects.toThrow('Page 2 is away.');
    expect([requests, asked]).toEqual([[2], [1, 2]]);
  });

  test('a caller that leaves the loop waits for the request that is under way, even if that fails', async () => {
    const { promise, reject } = Promise.withResolvers<Page>();
    const { ask } = sourceOf(3, (n) => (n === 2 ? promise : undefined));
    let left = false;
    const following = (async () => {
      for await (const _page of followPages(ask, {})) throw new Error('It could not be stored.');
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
    const { ask, asked } = sourceOf(2, async (n) => pageOf(n, n === 1 ? '2' : '2'));
    const follow = async () => {
      for await (const _page of followPages(ask, {}));
    };
    await expect(follow()).rejects.toThrow('"next" returns to what was shown already');
    expect(asked).toEqual([1, 2]);
  });

  test('goes on after 49 pages without a record, not after 50, and asks again for an end that shows none', async () => {
    const emptyAt = (empty: readonly number[]) => async (n: number) =>
      empty.includes(n)
        ? { records: [], next: String(n + 1), tookMs: 0 }
        : pageOf(n, n < 60 ? String(n + 1) : undefined);
    const followed = async (empty: readonly number[]) => {
      const { ask } = sourceOf(60, emptyAt(empty));
      const ids: number[] = [];
      for await (const { records } of followPages(ask, {})) ids.push(...records.map(({ id }) => id));
      return ids;
    };
    const from2 = (count: number) => Array.from({ length: count }, (_, index) => 2 + index);
    expect(await followed(from2(49))).toEqual([1, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60]);
    await expect(followed(from2(50))).rejects.toThrow('50 pages in a row show no record');
    let ends = 0;
    const { ask } = sourceOf(3, async (n) => {
      if (n < 3) return pageOf(n, String(n + 1));
      ends += 1;
      return ends < 3 ? { records: [], next: undefined, tookMs: 0 } : pageOf(3, undefined);
    });
    const ids: number[] = [];
    for await (const { records } of followPages(ask, {})) ids.push(...records.map(({ id }) => id));
    expect(ids).toEqual([1, 2, 3]);
  });
});
