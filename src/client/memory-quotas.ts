/**
 * A service's limits, counted in this process. All clients of one API key share one of these: a request waits for a
 * place of a few seconds; for a longer wait it is refused with that time, and the caller decides. Another process with
 * the same key is met at the service's 429: it closes the bucket until the time that the service says.
 */
import { type Limit, limits, type Window } from '#contract/limits.ts';
import type { Clock } from '#platform/clock.ts';
import { AppError } from '#platform/errors.ts';
import { type Bucket, limitNameOf, type Quotas, type QuotaUse } from './quotas.ts';
import { longestWaitDefaultMs } from './send-call.ts';

/** The pause after a 429 without a time from the service; it doubles with each refusal in a row. */
const pauseFirstMs = 10_000;
const pauseMostMs = 15 * 60_000;
/** The share of each limit that background work may use: the rest is left to what is urgent. */
const backgroundShare = 0.75;
/** The share of a burst that background work gets in any case: it must come to its end. */
const assuredShare = 0.2;

export interface MemoryQuotas extends Quotas {
  /** Counts together with the others, for work that may take its time, as a backfill. */
  readonly background: Quotas;
  /** How many requests the short window still allows now; undefined for a bucket without a limit. */
  burstLeft(bucket: Bucket): number | undefined;
}

interface BucketState {
  readonly limit: Limit | undefined;
  readonly burst: CountedWindow;
  readonly sustained: CountedWindow;
  /** From when on background work is assured a request, although less than a quarter of the burst is left. */
  assuredFromMs: number;
  /** The last 429, until a later request is answered otherwise. */
  refusal: { sinceMs: number; untilMs: number; inRow: number } | undefined;
}

/**
 * `limitOf` returns undefined for a bucket without a limit. Default: the limits of the documents. A call waits for its turn
 * for `longestWaitMs` at most.
 */
export function createMemoryQuotas(
  clock: Clock,
  limitOf: (bucket: Bucket) => Limit | undefined = (bucket) => limits[limitNameOf(bucket)],
  longestWaitMs = longestWaitDefaultMs,
): MemoryQuotas {
  const states = new Map<Bucket, BucketState>();

  function stateOf(bucket: Bucket): BucketState {
    const known = states.get(bucket);
    if (known) return known;
    const limit = limitOf(bucket);
    const state = {
      limit,
      burst: createCountedWindow(limit?.burst),
      sustained: createCountedWindow(limit?.sustained),
      assuredFromMs: 0,
      refusal: undefined,
    };
    states.set(bucket, state);
    return state;
  }

  const takeAs =
    (background: boolean): Quotas['take'] =>
    async (bucket, signal) => {
      const state = stateOf(bucket);
      for (;;) {
        signal?.throwIfAborted();
        const nowMs = clock.nowMs();
        const closedMs = closedForMs(state, nowMs);
        const waitMs = Math.max(closedMs, windowsWaitMs(state, background, nowMs));
        if (waitMs <= 0) {
          countRequest(state, background, nowMs);
          return useOf(state, nowMs, clock);
        }
        if (waitMs > longestWaitMs) throw spent(bucket, waitMs, closedMs > 0);
        await clock.sleep(waitMs, signal);
      }
    };

  return {
    take: takeAs(false),
    background: { take: takeAs(true) },
    burstLeft(bucket) {
      const { limit, burst } = stateOf(bucket);
      return limit && Math.max(0, limit.burst.requests - burst.used(clock.nowMs()));
    },
  };
}

/** Where the clock was set back, the pause is no longer than it was asked for. */
function closedForMs({ refusal }: BucketState, nowMs: number): number {
  return refusal === undefined ? 0 : Math.min(refusal.untilMs - nowMs, refusal.untilMs - refusal.sinceMs);
}

function windowsWaitMs(state: BucketState, background: boolean, nowMs: number): number {
  const { limit, burst, sustained, assuredFromMs } = state;
  if (limit === undefined) return 0;
  if (!background)
    return Math.max(burst.waitMs(limit.burst.requests, nowMs), sustained.waitMs(limit.sustained.requests, nowMs));
  const assuredMs = Math.max(assuredFromMs - nowMs, burst.waitMs(limit.burst.requests, nowMs));
  return Math.max(
    Math.min(burst.waitMs(shareOf(limit.burst), nowMs), assuredMs),
    sustained.waitMs(shareOf(limit.sustained), nowMs),
  );
}

function shareOf({ requests }: Window): number {
  return Math.max(1, Math.floor(requests * backgroundShare));
}

function countRequest(state: BucketState, background: boolean, nowMs: number): void {
  const { limit } = state;
  if (limit === undefined) return;
  state.burst.count(nowMs);
  state.sustained.count(nowMs);
  if (background)
    state.assuredFromMs = nowMs + (limit.burst.seconds * 1_000) / Math.max(1, limit.burst.requests * assuredShare);
}

function useOf(state: BucketState, sentMs: number, clock: Clock): QuotaUse {
  return {
    answered: async () => {
      if (state.refusal !== undefined && sentMs > state.refusal.sinceMs) state.refusal = undefined;
    },
    refused: async (retryAfterMs) => {
      const nowMs = clock.nowMs();
      const before = state.refusal;
      // Refusals of requests that were under way together count as one.
      const wasUnderWay = before !== undefined && sentMs <= before.sinceMs;
      const inRow = (before?.inRow ?? 0) + (wasUnderWay ? 0 : 1);
      // A wait that does not help when it was kept is not believed again.
      const pauseMs = retryAfterMs === undefined ? pauseAfter(inRow) : Math.max(retryAfterMs, pauseAfter(inRow - 1));
      const untilMs = Math.max(nowMs + pauseMs, wasUnderWay ? before.untilMs : 0);
      state.refusal = { sinceMs: nowMs, untilMs, inRow };
      return untilMs - nowMs;
    },
  };
}

/** 0 before the first refusal. */
function pauseAfter(refusals: number): number {
  return refusals < 1 ? 0 : Math.min(pauseMostMs, pauseFirstMs * 2 ** Math.min(refusals - 1, 30));
}

interface CountedWindow {
  count(nowMs: number): void;
  used(nowMs: number): number;
  /** How long until fewer than `requests` are counted. */
  waitMs(requests: number, nowMs: number): number;
}

/** A window is counted in so many slots of time: a day of requests needs no time of each. */
const slotsMax = 120;

/** A request counts from the end of its slot on, so never for a shorter time than at the service. */
function createCountedWindow(window: Window | undefined): CountedWindow {
  const windowMs = (window?.seconds ?? 0) * 1_000;
  const slotMs = windowMs / slotsMax;
  let slots: { readonly endMs: number; requests: number }[] = [];

  function used(nowMs: number): number {
    // A slot that lies ahead was counted by a clock that was set back since.
    slots = slots.filter(({ endMs }) => endMs > nowMs - windowMs && endMs <= nowMs + slotMs);
    return slots.reduce((sum, { requests }) => sum + requests, 0);
  }

  return {
    used,
    count(nowMs) {
      const endMs = (Math.floor(nowMs / slotMs) + 1) * slotMs;
      const newest = slots.at(-1);
      if (newest?.endMs === endMs) newest.requests += 1;
      else slots.push({ endMs, requests: 1 });
    },
    waitMs(requests, nowMs) {
      let over = used(nowMs) - requests;
      if (over < 0) return 0;
      // The oldest requests leave the window first.
      const last = slots.find((slot) => {
        over -= slot.requests;
        return over < 0;
      });
      return last === undefined ? 0 : last.endMs + windowMs - nowMs;
    },
  };
}

function spent(bucket: Bucket, waitMs: number, isRefused: boolean): AppError {
  const why = isRefused ? 'the service has refused a request (429)' : 'the limit of the service is used up';
  const text = `No request of the kind ${bucket} is sent for the next ${Math.ceil(waitMs / 1_000)} s: ${why}.`;
  return new AppError('too-many', text, { recovery: { do: 'retry', afterMs: waitMs } });
}
