/**
 * Slots that groups share fairly: a group never has more than its own number of them, and a slot that becomes free goes
 * to the group that has the fewest, and among equals to the one that got its last one longest ago. So a group with a
 * thousand waiting callers delays the caller of another group by one turn.
 *
 * Example with 3 slots, 2 for each group: A asks five times and gets two slots, B asks and gets the third. When A frees
 * one, C, which came last and has none, gets it before A does.
 */
import { AppError } from './errors.ts';

export interface FairSlots {
  /**
   * Resolves when the group has a slot, with the function that frees it. A `doubtful` caller uses only the first half of
   * the slots: those that will probably hold a slot for long leave the other half to the rest. Rejects with the signal's
   * reason, or with `too-many` when the group has too many callers that wait.
   */
  enter(group: string, options?: { signal?: AbortSignal; doubtful?: boolean }): Promise<() => void>;
}

interface Waiting {
  readonly doubtful: boolean;
  readonly begin: (free: () => void) => void;
}

interface Group {
  taken: number;
  takenByDoubtful: number;
  readonly waiting: Waiting[];
}

/** Creates `slots` slots, of which one group has at most `slotsEach`, with at most `waitingEach` callers waiting. */
export function createFairSlots({
  slots,
  slotsEach,
  waitingEach = Number.POSITIVE_INFINITY,
}: {
  slots: number;
  slotsEach: number;
  waitingEach?: number;
}): FairSlots {
  /** Those that have or want a slot; the one that got its last slot longest ago comes first. */
  const groups = new Map<string, Group>();
  const all = { taken: 0, takenByDoubtful: 0 };

  function mayBegin(group: Group, doubtful: boolean): boolean {
    if (all.taken >= slots || group.taken >= slotsEach) return false;
    return !doubtful || (all.takenByDoubtful < half(slots) && group.takenByDoubtful < half(slotsEach));
  }

  function begin(name: string, group: Group, { doubtful, begin: resolve }: Waiting): void {
    const counted = [all, group];
    for (const count of counted) {
      count.taken += 1;
      if (doubtful) count.takenByDoubtful += 1;
    }
    groups.delete(name);
    groups.set(name, group);
    let isFree = false;
    resolve(() => {
      if (isFree) return;
      isFree = true;
      for (const count of counted) {
        count.taken -= 1;
        if (doubtful) count.takenByDoubtful -= 1;
      }
      if (group.taken === 0 && group.waiting.length === 0) groups.delete(name);
      passOn();
    });
  }

  function passOn(): void {
    while (all.taken < slots) {
      const [first] = [...groups]
        .filter(([, group]) => group.waiting.some(({ doubtful }) => mayBegin(group, doubtful)))
        .sort(([, one], [, other]) => one.taken - other.taken);
      if (!first) return;
      const [name, group] = first;
      const next = group.waiting.findIndex(({ doubtful }) => mayBegin(group, doubtful));
      for (const waiting of group.waiting.splice(next, 1)) begin(name, group, waiting);
    }
  }

  return {
    enter: (name, { signal, doubtful = false } = {}) =>
      new Promise((resolve, reject) => {
        if (signal?.aborted) throw signal.reason;
        const group = groups.get(name) ?? { taken: 0, takenByDoubtful: 0, waiting: [] };
        const isAhead = group.waiting.some((other) => other.doubtful === doubtful);
        const leave = () => {
          group.waiting.splice(group.waiting.indexOf(waiting), 1);
          if (group.taken === 0 && group.waiting.length === 0) groups.delete(name);
          reject(signal?.reason);
        };
        const waiting: Waiting = {
          doubtful,
          begin: (free) => {
            signal?.removeEventListener('abort', leave);
            resolve(free);
          },
        };
        if (!isAhead && mayBegin(group, doubtful)) {
          begin(name, group, waiting);
          return;
        }
        if (group.waiting.length >= waitingEach)
          throw new AppError(
            'too-many',
            `${waitingEach} requests of this kind wait already. Send one after the other.`,
            {
              recovery: { do: 'retry', afterMs: 1_000 },
            },
          );
        groups.set(name, group);
        group.waiting.push(waiting);
        signal?.addEventListener('abort', leave, { once: true });
      }),
  };
}

/** At least one, so that a doubtful caller also has its turn. */
function half(count: number): number {
  return Math.max(1, Math.floor(count / 2));
}
