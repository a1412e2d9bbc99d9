/**
 * How a worker handles a wake-up: it runs the lane's work for the key, never twice at once, and tells the work when to
 * stop.
 */
import { WaitingError } from 'bullmq';
import { errorText } from '#platform/errors.ts';
import type { Logger } from '#platform/log.ts';
import type { HandleWakeUp } from './backend.ts';

/**
 * What a lane's worker does for a key. `signal` aborts when the process is asked to stop, and when another process may
 * have taken the key over. An error is logged, and the key is free again.
 */
export type Work = (key: string, signal: AbortSignal) => Promise<void>;

export interface Lane {
  handle: HandleWakeUp;
  /**
   * Works a key that did not come from the queue, after the run of it that may be going on. Several calls before that run
   * has ended cause one more. `giveBack` is called when the lane was stopped before the work had ended. Returns false, and
   * does nothing, while as many other keys are worked this way as the lane works at once.
   */
  workHere(key: string, giveBack: (key: string) => void): boolean;
  /** Aborts the work of these wake-ups: their locks are lost, and another worker may run their keys now. */
  lockLost(ids: readonly string[]): void;
  /** Aborts all work. Keys whose work did not finish go back into the queue for another process. */
  stop(): void;
  /** Resolves when no work runs. */
  idle(): Promise<void>;
}

interface LaneOptions {
  readonly concurrency: number;
  readonly work: Work;
  readonly log: Logger;
}

interface Run {
  readonly controller: AbortController;
  readonly done: Promise<unknown>;
  /** The wake-up has gone to another run, which records its end. */
  lockLost: boolean;
}

export function createLane(lane: string, { concurrency, work, log }: LaneOptions): Lane {
  const running = new Map<string, Run>();
  // The last run of each key in this process. The queue starts two runs of a key at once only when it lost its data
  // (Redis was flushed) or took this process for dead. Then the second run waits here for the first.
  const turns = new Map<string, Promise<boolean>>();
  /** The keys that wait for their turn without the queue. */
  const waitingHere = new Set<string>();
  /** How many runs each key has or will have without the queue: one or two. */
  const keysHere = new Map<string, number>();
  let runsHere = 0;
  let stopping = false;

  /** Returns false when the wake-up must go back into the queue. */
  async function run(key: string, signal: AbortSignal): Promise<boolean> {
    if (stopping) return false;
    try {
      await work(key, signal);
    } catch (error) {
      if (stopping) return false;
      // Not named `key`, which the logger would redact as a secret.
      log.warn({ lane, item: key, error: errorText(error) }, 'work failed; the next sweep wakes it again');
    }
    return true;
  }

  /** Runs the key after its last run; the run stands under `id` until it has ended. */
  async function runInTurn(id: string, key: string, begun?: () => void): Promise<{ done: boolean; own: Run }> {
    const controller = new AbortController();
    const turn = (turns.get(key) ?? Promise.resolve(true)).then(() => {
      begun?.();
      return run(key, controller.signal);
    });
    const own: Run = { controller, done: turn, lockLost: false };
    const earlier = running.get(id);
    if (earlier) earlier.lockLost = true;
    running.set(id, own);
    turns.set(key, turn);
    const done = await turn;
    if (running.get(id) === own) running.delete(id);
    if (turns.get(key) === turn) turns.delete(key);
    return { done, own };
  }

  return {
    workHere(key, giveBack) {
      // The run that waits will see what this call is for.
      if (waitingHere.has(key)) return true;
      const ofKey = keysHere.get(key) ?? 0;
      if (ofKey === 0 && keysHere.size >= concurrency) return false;
      keysHere.set(key, ofKey + 1);
      waitingHere.add(key);
      runsHere += 1;
      // Never rejects: `run` has caught what the work threw.
      void runInTurn(`here-${runsHere}`, key, () => waitingHere.delete(key)).then(({ done }) => {
        const left = (keysHere.get(key) ?? 1) - 1;
        if (left > 0) keysHere.set(key, left);
        else keysHere.delete(key);
        if (!done) giveBack(key);
      });
      return true;
    },
    async handle(wakeUp, token) {
      const { id = '', data: key } = wakeUp;
      const { done, own } = await runInTurn(id, key);
      // To record its end would fail, and on PostgreSQL each failed statement costs a new connection.
      if (own.lockLost) throw new WaitingError();
      if (done) return;
      await wakeUp.moveToWait(token);
      throw new WaitingError();
    },
    lockLost(ids) {
      for (const id of ids) {
        const run = running.get(id);
        if (!run) continue;
        run.lockLost = true;
        run.controller.abort(new Error('the queue gave the key to another worker'));
      }
    },
    stop() {
      stopping = true;
      for (const { controller } of running.values()) controller.abort(new Error('the process is stopping'));
    },
    async idle() {
      await Promise.all([...running.values()].map(({ done }) => done));
    },
  };
}
