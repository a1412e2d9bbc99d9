/**
 * How a feed answers beside its records: how it pages, how many records a page holds, and how far its clock is from
 * ours. Learned from the answers of live reads; a change that lasts is noticed. Pure.
 */
import type { ClockDifference } from '#client/read-feed.ts';
import { pagingOf } from '../feed/paging.ts';

/** An answer of a live read. */
export interface WatchedAnswer {
  readonly records: number;
  readonly requested: number;
  readonly next: string | undefined;
  /** By how much our clock was ahead of the source's; undefined without `Date`. */
  readonly clockDifference: ClockDifference | undefined;
}

/** What was learned, as it is kept in SQL. */
export interface AnswerTraits {
  paging?: string;
  /** The most records that a page with a next page held. */
  pageSize?: number;
  /** Between which differences the source's clock was ahead of ours. */
  aheadMs?: [number, number];
  /** How many answers in a row had a smaller page, or another clock. */
  smaller: number;
  otherClock: number;
}

export interface TraitChange {
  readonly kind: 'page size' | 'paging' | 'clock';
  readonly subject: string;
  readonly detail: string;
}

/** One slow or odd answer is no change. */
const answersInRow = 3;
/** A smaller move is no change: clocks drift, and several servers of a source may differ a little. */
const clockToleranceMs = 10_000;

/** Learns from the answer and returns what has changed; changes `traits`. */
export function noticeAnswer(traits: AnswerTraits, answer: WatchedAnswer): TraitChange[] {
  return [...noticePaging(traits, answer), ...noticePageSize(traits, answer), ...noticeClock(traits, answer)];
}

function noticePaging(traits: AnswerTraits, { next }: WatchedAnswer): TraitChange[] {
  if (next === undefined) return [];
  const before = traits.paging;
  const now = pagingOf(next);
  traits.paging = now;
  if (before === undefined || before === now) return [];
  return [{ kind: 'paging', subject: 'next', detail: `its pages are named by ${now}; they were by ${before} before` }];
}

function noticePageSize(traits: AnswerTraits, { records, requested, next }: WatchedAnswer): TraitChange[] {
  if (next === undefined || records === 0) return [];
  const before = traits.pageSize ?? 0;
  traits.smaller = records < Math.min(before, requested) ? traits.smaller + 1 : 0;
  if (records > before) traits.pageSize = records;
  if (traits.smaller < answersInRow) return [];
  traits.pageSize = records;
  traits.smaller = 0;
  return [
    { kind: 'page size', subject: 'page_size', detail: `a page holds ${records} records; it held ${before} before` },
  ];
}

function noticeClock(traits: AnswerTraits, { clockDifference }: WatchedAnswer): TraitChange[] {
  if (clockDifference === undefined) return [];
  const { leastMs, mostMs } = clockDifference;
  // A slow answer does not say what its clock shows.
  if (mostMs - leastMs > clockToleranceMs) return [];
  const aheadMs = -(leastMs + mostMs) / 2;
  const [least, most] = traits.aheadMs ?? [aheadMs, aheadMs];
  const isOther = aheadMs < least - clockToleranceMs || aheadMs > most + clockToleranceMs;
  if (!isOther) {
    traits.otherClock = 0;
    // The range does not grow without bound: a clock that drifts away slowly is noticed, too.
    if (Math.max(most, aheadMs) - Math.min(least, aheadMs) <= clockToleranceMs)
      traits.aheadMs = [Math.min(least, aheadMs), Math.max(most, aheadMs)];
    return [];
  }
  traits.otherClock += 1;
  if (traits.otherClock < answersInRow) return [];
  traits.otherClock = 0;
  traits.aheadMs = [aheadMs, aheadMs];
  const moved = Math.round((aheadMs - (least + most) / 2) / 1_000);
  return [
    {
      kind: 'clock',
      subject: 'Date',
      detail: `its clock has moved by ${moved} s against ours: one of them was set, or is wrong`,
    },
  ];
}
