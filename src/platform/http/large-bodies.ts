/**
 * Large bodies take turns. One sender has one of them in work at a time, from its first byte to its answer, so that the
 * bodies of one sender use the memory and the time of one. The others wait at the sender: not a byte of them is read.
 * How many bytes a sender may send in a minute is bounded, too, and a body beyond that is refused before it is read.
 */
import type { Clock } from '../clock.ts';
import { AppError } from '../errors.ts';
import { createFairSlots } from '../fair-slots.ts';
import type { BodyThread } from './body-thread.ts';

/** Who sends: bodies of one name take turns. */
export interface BodySender {
  readonly name: string;
  /** Whether the bytes of a minute are bounded. */
  readonly isLimited: boolean;
}

export interface LargeBodies {
  readonly thread: BodyThread;
  /**
   * Waits for the sender's turn with a body of at most `bytesMax` bytes. Rejects with `too-many` when too many of the
   * sender's bodies wait, or its bytes are used up.
   */
  enter(sender: BodySender, bytesMax: number): Promise<LargeBodyTurn>;
}

export interface LargeBodyTurn {
  /** Counts only the bytes that have come: fewer than expected, if the length was not announced. */
  received(bytes: number): void;
  end(): void;
}

/** Bodies in work at once, of all senders: times their largest size this is the memory that they use. */
const bodiesAtOnce = 16;
const waitingEach = 16;
/** More senders than this are not remembered: the one that has sent nothing for longest is forgotten. */
const sendersMax = 10_000;

/** `bytesPerMinute` is what one sender may send at once, and then in each minute. */
export function createLargeBodies({
  thread,
  bytesPerMinute,
  clock,
}: {
  thread: BodyThread;
  bytesPerMinute: number;
  clock: Pick<Clock, 'nowMs'>;
}): LargeBodies {
  const slots = createFairSlots({ slots: bodiesAtOnce, slotsEach: 1, waitingEach });
  const spent = new Map<string, { bytes: number; atMs: number }>();
  const perMs = bytesPerMinute / 60_000;

  /** Adds to what the sender has spent, of which each millisecond takes something away. */
  function spend({ name, isLimited }: BodySender, bytes: number): void {
    if (!isLimited) return;
    const nowMs = clock.nowMs();
    const before = spent.get(name);
    const left = before ? Math.max(0, before.bytes - Math.max(0, nowMs - before.atMs) * perMs) : 0;
    const tooMuch = left + bytes - bytesPerMinute;
    // The first body is always taken, however small the limit is.
    if (tooMuch > 0 && left > 0) throw usedUp(bytesPerMinute, tooMuch / perMs);
    spent.delete(name);
    spent.set(name, { bytes: left + bytes, atMs: nowMs });
    const [oldest] = spent.keys();
    if (spent.size > sendersMax && oldest !== undefined) spent.delete(oldest);
  }

  return {
    thread,
    enter: async (sender, bytesMax) => {
      spend(sender, bytesMax);
      const end = await slots.enter(sender.name);
      return {
        received: (bytes) => {
          const entry = spent.get(sender.name);
          if (entry) entry.bytes = Math.max(0, entry.bytes - bytesMax + bytes);
        },
        end,
      };
    },
  };
}

function usedUp(bytesPerMinute: number, afterMs: number): AppError {
  const seconds = Math.max(1, Math.ceil(afterMs / 1000));
  return new AppError(
    'too-many',
    `Too many bytes: large bodies may have ${bytesPerMinute} bytes a minute together. Wait ${seconds} s and send it again.`,
    { recovery: { do: 'retry', afterMs } },
  );
}
