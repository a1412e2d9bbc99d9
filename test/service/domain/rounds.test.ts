import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { RoundStatus } from '#contract/sourcing-event.ts';
import { isOver, pendingRound, roundFault, roundsAt } from '#service/domain/rounds.ts';
import type { Round } from '#service/domain/sourcing-event.ts';

/** Minute 5 is five minutes past noon. */
const at = (minute: number | null) =>
  minute === null ? null : `2030-01-01T12:${String(minute).padStart(2, '0')}:00.000000Z`;

type Short = [starts: number | null, ends: number | null, status: RoundStatus];

const roundsOf = (given: readonly Short[]): Round[] =>
  given.map(([starts, ends, status], index) => ({
    ...pendingRound(index + 1, { starts: at(starts), ends: at(ends) }),
    status,
  }));

const moved = (given: readonly Short[], minute: number, status: 'OPEN' | 'PAUSED' | 'DRAFT' = 'OPEN') => {
  const { rounds, lastEnded } = roundsAt({ status, rounds: roundsOf(given) }, at(minute) ?? '');
  const minuteOf = (time: string | null) => (time === null ? null : Number(time.slice(14, 16)));
  return {
    rounds: rounds.map((round) => [minuteOf(round.starts), minuteOf(round.ends), round.status]),
    ended: lastEnded === undefined ? undefined : minuteOf(lastEnded),
  };
};

describe('a round', () => {
  test.each<[string, Short[], number, Short[], number | undefined]>([
    ['waits for its start', [[5, 9, 'PENDING']], 4, [[5, 9, 'PENDING']], undefined],
    ['begins at its start', [[5, 9, 'PENDING']], 5, [[5, 9, 'ACTIVE']], undefined],
    ['without a start begins now', [[null, 9, 'PENDING']], 3, [[3, 9, 'ACTIVE']], undefined],
    ['runs until its end', [[5, 9, 'ACTIVE']], 8, [[5, 9, 'ACTIVE']], undefined],
    ['closes at its end', [[5, 9, 'ACTIVE']], 9, [[5, 9, 'CLOSED']], 9],
    ['closed long ago shows its end', [[5, 9, 'ACTIVE']], 30, [[5, 9, 'CLOSED']], 9],
    ['without an end runs on', [[5, null, 'ACTIVE']], 59, [[5, null, 'ACTIVE']], undefined],
    ['whose whole time has passed is closed', [[5, 9, 'PENDING']], 30, [[5, 9, 'CLOSED']], 9],
    [
      'without an end closes when the next begins',
      [
        [5, null, 'ACTIVE'],
        [10, 20, 'PENDING'],
      ],
      10,
      [
        [5, 10, 'CLOSED'],
        [10, 20, 'ACTIVE'],
      ],
      10,
    ],
    [
      'without a start begins when the one before it has closed',
      [
        [5, 9, 'ACTIVE'],
        [null, 20, 'PENDING'],
      ],
      12,
      [
        [5, 9, 'CLOSED'],
        [9, 20, 'ACTIVE'],
      ],
      9,
    ],
    [
      'without a start waits while the one before it runs',
      [
        [5, null, 'ACTIVE'],
        [null, 20, 'PENDING'],
      ],
      12,
      [
        [5, null, 'ACTIVE'],
        [null, 20, 'PENDING'],
      ],
      undefined,
    ],
    [
      'that was over stays so',
      [
        [1, 2, 'CLOSED'],
        [3, 4, 'COMPLETE'],
        [5, 9, 'ACTIVE'],
      ],
      9,
      [
        [1, 2, 'CLOSED'],
        [3, 4, 'COMPLETE'],
        [5, 9, 'CLOSED'],
      ],
      9,
    ],
    [
      'that was reopened closes when a later one begins, past one that is over',
      [
        [1, null, 'ACTIVE'],
        [3, 4, 'CLOSED'],
        [8, 20, 'PENDING'],
      ],
      9,
      [
        [1, 8, 'CLOSED'],
        [3, 4, 'CLOSED'],
        [8, 20, 'ACTIVE'],
      ],
      8,
    ],
    [
      'catches up with all that happened meanwhile',
      [
        [1, 2, 'PENDING'],
        [3, null, 'PENDING'],
        [7, 8, 'PENDING'],
        [null, 9, 'PENDING'],
      ],
      30,
      [
        [1, 2, 'CLOSED'],
        [3, 7, 'CLOSED'],
        [7, 8, 'CLOSED'],
        [8, 9, 'CLOSED'],
      ],
      9,
    ],
  ])('%s', (_what, given, minute, rounds, ended) => {
    expect(moved(given, minute)).toEqual({ rounds, ended });
  });

  test.each(['PAUSED', 'DRAFT'] as const)('of an event that is %s stands still', (status) => {
    expect(moved([[5, 9, 'ACTIVE']], 30, status)).toEqual({ rounds: [[5, 9, 'ACTIVE']], ended: undefined });
  });
});

/** Rounds that do not overlap and have not begun; some times are left out. */
const plans = fc
  .tuple(
    fc.uniqueArray(fc.integer({ min: 1, max: 50 }), { minLength: 2, maxLength: 10 }),
    fc.array(fc.tuple(fc.boolean(), fc.boolean()), { minLength: 5, maxLength: 5 }),
  )
  .map(([minutes, known]) => {
    const times = minutes.sort((a, b) => a - b);
    const plan: Short[] = [];
    for (let index = 0; index + 1 < times.length; index += 2) {
      const [hasStart, hasEnd] = known[index / 2] ?? [];
      plan.push([hasStart ? (times[index] ?? 0) : null, hasEnd ? (times[index + 1] ?? 0) : null, 'PENDING']);
    }
    return plan;
  });

describe('for any plan and any time', () => {
  test('at most one round is active, earlier rounds are over, and later rounds have not begun', () => {
    fc.assert(
      fc.property(plans, fc.integer({ min: 0, max: 59 }), (plan, minute) => {
        const { rounds } = roundsAt({ status: 'OPEN', rounds: roundsOf(plan) }, at(minute) ?? '');
        const order = rounds.map(({ status }) => (isOver({ status }) ? 0 : status === 'ACTIVE' ? 1 : 2));
        expect(order).toEqual([...order].sort((a, b) => a - b));
        expect(order.filter((one) => one === 1).length).toBeLessThanOrEqual(1);
        const odd = rounds.filter(
          ({ starts, ends, status }) =>
            (status !== 'PENDING' && starts === null) ||
            (starts !== null && ends !== null && starts > ends) ||
            (isOver({ status }) && (ends === null || ends > (at(minute) ?? ''))),
        );
        expect(odd).toEqual([]);
      }),
    );
  });

  test('the result of many steps is the result of one: no time is missed, and none counts twice', () => {
    fc.assert(
      fc.property(plans, fc.array(fc.integer({ min: 0, max: 59 }), { maxLength: 8 }), (plan, looks) => {
        // A round without a start begins at the first step, so the first step of both is at the same time.
        const first = roundsAt({ status: 'OPEN', rounds: roundsOf(plan) }, at(0) ?? '').rounds;
        let rounds = first;
        for (const minute of looks.sort((a, b) => a - b))
          rounds = roundsAt({ status: 'OPEN', rounds }, at(minute) ?? '').rounds;
        rounds = roundsAt({ status: 'OPEN', rounds }, at(59) ?? '').rounds;
        expect(rounds).toEqual(roundsAt({ status: 'OPEN', rounds: first }, at(59) ?? '').rounds);
        expect(roundsAt({ status: 'OPEN', rounds }, at(59) ?? '').rounds).toBe(rounds);
      }),
    );
  });
});

test.each<[string, [number | null, number | null][], [number | null, number | null], string | undefined]>([
  ['alone', [], [1, 2], undefined],
  ['that ends when it starts', [], [2, 2], 'ends'],
  ['right after the one before', [[1, 2]], [2, 3], undefined],
  ['that starts before the end of the one before', [[1, 5]], [4, 9], 'starts'],
  ['without a start that ends with the one before', [[1, 5]], [null, 5], 'ends'],
  ['without a start that ends after it', [[1, 5]], [null, 6], undefined],
  ['that starts with one that has no end', [[4, null]], [4, 9], undefined],
  ['that starts before one that has no end', [[4, null]], [3, 9], 'starts'],
  [
    'before the first of several',
    [
      [5, 9],
      [null, null],
    ],
    [1, 2],
    'starts',
  ],
])('a round %s: the fault is at %j', (_what, earlier, [starts, ends], path) => {
  const times = ([from, to]: [number | null, number | null]) => ({ starts: at(from), ends: at(to) });
  expect(roundFault(earlier.map(times), times([starts, ends]))?.path).toBe(path);
});
