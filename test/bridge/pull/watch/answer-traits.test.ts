import { describe, expect, test } from 'vitest';
import { type AnswerTraits, noticeAnswer, type WatchedAnswer } from '#bridge/pull/watch/answer-traits.ts';

const full: WatchedAnswer = {
  records: 100,
  requested: 100,
  next: 'cursor=abc',
  clockDifference: { leastMs: 0, mostMs: 0 },
};
const fresh = (): AnswerTraits => ({ smaller: 0, otherClock: 0 });

function noticed(answers: readonly Partial<WatchedAnswer>[]): string[] {
  const traits = fresh();
  return answers.flatMap((answer) => noticeAnswer(traits, { ...full, ...answer }).map(({ detail }) => detail));
}

describe('the answers of a feed', () => {
  test('that stay as they are show no change', () => {
    expect(
      noticed([
        {},
        {},
        { clockDifference: { leastMs: 3_000, mostMs: 3_000 } },
        { records: 7, next: undefined },
        { clockDifference: { leastMs: -4_000, mostMs: -4_000 } },
        {},
      ]),
    ).toEqual([]);
  });

  test('show another paging at once', () => {
    expect(noticed([{}, { next: 'page=2' }, { next: 'page=3' }])).toEqual([
      'its pages are named by page number; they were by cursor before',
    ]);
  });

  test('show a page size that is no longer kept after three such pages, and only once', () => {
    expect(noticed([{}, { records: 50 }, { records: 50 }, {}, { records: 50 }, { records: 50 }])).toEqual([]);
    expect(noticed([{}, ...Array.from({ length: 6 }, () => ({ records: 50 }))])).toEqual([
      'a page holds 50 records; it held 100 before',
    ]);
    expect(
      noticed([{}, { records: 50, requested: 50 }, { records: 50, requested: 50 }, { records: 50, requested: 50 }]),
    ).toEqual([]);
  });

  test('show a clock that jumped after three answers; a slow answer is none', () => {
    expect(
      noticed([
        {},
        { clockDifference: { leastMs: 60_000, mostMs: 60_000 } },
        {},
        { clockDifference: { leastMs: 60_000, mostMs: 60_000 } },
        { clockDifference: { leastMs: 60_000, mostMs: 60_000 } },
      ]),
    ).toEqual([]);
    const slow = { clockDifference: { leastMs: -90_000, mostMs: 0 } };
    expect(noticed([{}, slow, slow, slow, slow])).toEqual([]);
    expect(
      noticed([{}, ...Array.from({ length: 6 }, () => ({ clockDifference: { leastMs: -90_000, mostMs: -90_000 } }))]),
    ).toEqual(['its clock has moved by 90 s against ours: one of them was set, or is wrong']);
  });
});
