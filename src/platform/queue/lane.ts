/**
 * The work of a lane in this process: up to `concurrency` keys at a time, never one key twice at once. A key that is woken
 * while it is being worked is worked once more afterwards, however often it was woken. Example with a concurrency of 1:
 *
 * | wake | running | waiting |                                                 |
 * |------|---------|---------|-------------------------------------------------|
 * | A    | A       |         | begins at once                                  |
 * | B    | A       | B       |                                                 |
 * | A    | A       | B A     | something may have changed since A began        |
 * | A, B | A       | B A     | both will see what these wake-ups are for       |
 * |      | B       | A       | A has ended                                     |
 */
import { errorText } from '#platform/errors.ts';
import type { Logger } from '#platform/log.ts';

/**
 * What a lane does for a key. `signal` aborts when the process is asked to stop. An error is logged; what is still due is
 * found by the next sweep.
 */
export type Work = (key: string, signal: AbortSignal) => Promise<void>;

export interface Lane {
  /** Works the key, after those that wait. */
  wake(key: string): void;
  /** Whether another key would begin at once. */
  hasRoom(): boolean;
  /** Begins no more work and aborts the work that runs. */
  stop(): void;
  /** Resolves when no work runs. */
  idle(): Promise<void>;
}

export function createLane(
  name: string,
  { concurrency, work, log }: { concurrency: number; work: Work; log: Logger },
): Lane {
  /** In the order in which they were woken. */
  const waiting = new Set<string>();
  const running = new Map<string, { readonly controller: AbortController; readonly done: Promise<void> }>();
  let isStopping = false;

  async function run(key: string, signal: AbortSignal): Promise<void> {
    try {
      await work(key, signal);
    } catch (error) {
      // Not named `key`, which the logger would redact as a secret.
      if (!isStopping)
        log.warn({ lane: name, item: key, error: errorText(error) }, 'work failed; the next sweep wakes it again');
    } finally {
      running.delete(key);
      begin();
    }
  }

  function begin(): void {
    for (const key of waiting) {
      if (isStopping || running.size >= concurrency) return;
      if (running.has(key)) continue;
      waiting.delete(key);
      const controller = new AbortController();
      running.set(key, { controller, done: Promise.resolve().then(() => run(key, controller.signal)) });
    }
  }

  return {
    wake(key) {
      if (isStopping) return;
      waiting.add(key);
      begin();
    },
    hasRoom: () => running.size + waiting.size < concurrency,
    stop() {
      isStopping = true;
      for (const { controller } of running.values()) controller.abort(new Error('the process is stopping'));
    },
    async idle() {
      await Promise.all([...running.values()].map(({ done }) => done));
    },
  };
}
