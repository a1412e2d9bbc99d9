/**
 * Wakes the pullers of feeds. A feed is woken at once by its first notification. While more come, it is woken again
 * every `everyMs` at most: a wake-up costs the queue as much as a commit costs the inbox. A wake-up that a dying process
 * still owes is made up for by the sweep.
 */
import type { Clock } from '#platform/clock.ts';

export interface PullWakes {
  /** Call it after the commit that stored the feed's notifications. The key is `<source>/<feed>`. */
  wake(key: string): void;
  /** Sends the wake-ups that are owed. */
  flush(): void;
}

const everyMs = 50;

/** `signal` wakes the puller; it must not throw. */
export function createPullWakes({ clock, signal }: { clock: Clock; signal: (key: string) => void }): PullWakes {
  /** The feeds that were woken less than `everyMs` ago; the value: notifications have come since. */
  const resting = new Map<string, boolean>();

  function send(key: string): void {
    resting.set(key, false);
    signal(key);
    void clock.sleep(everyMs).then(() => {
      const isOwed = resting.get(key);
      resting.delete(key);
      if (isOwed) send(key);
    });
  }

  return {
    wake: (key) => {
      if (resting.has(key)) resting.set(key, true);
      else send(key);
    },
    flush: () => {
      for (const [key, isOwed] of resting) {
        resting.set(key, false);
        if (isOwed) signal(key);
      }
    },
  };
}
