/** Sends signals: one queue for each lane that is signalled, opened with its first signal. */
import { type Backend, type LaneQueue, type ReportError, wakeUpOf } from './backend.ts';
import { createSignalBatches } from './signal-batches.ts';
import { answerTimeoutMs, within } from './within.ts';

/** Keys in one round trip: on PostgreSQL each of them holds an advisory lock until the end of the statement. */
const keysPerRoundTrip = 500;

export interface LaneQueues {
  /** Resolves to whether the queue holds a wake-up for each key; never rejects. */
  send(lane: string, keys: readonly string[]): Promise<boolean>;
  /** Closes all queues. */
  close(): Promise<void>;
}

/** Opens nothing yet. Errors go to `reportError`. */
export function createLaneQueues(backend: Backend, reportError: ReportError): LaneQueues {
  const queues = new Map<string, LaneQueue>();
  const batches = new Map<string, ReturnType<typeof createSignalBatches>>();

  function batchesOf(lane: string) {
    let known = batches.get(lane);
    if (!known) {
      const queue = backend.openQueue(lane);
      queues.set(lane, queue);
      known = createSignalBatches((keys) => sendAll(backend, queue, keys, reportError));
      batches.set(lane, known);
    }
    return known;
  }

  return {
    send: (lane, keys) => within(answerTimeoutMs, batchesOf(lane)(keys)).catch(() => false),
    async close() {
      const closing = [...queues.values()].map((queue) => queue.close());
      await within(answerTimeoutMs, Promise.allSettled(closing)).catch(reportError);
    },
  };
}

/** Returns whether the queue holds all the keys. */
async function sendAll(
  backend: Backend,
  queue: LaneQueue,
  keys: readonly string[],
  reportError: ReportError,
): Promise<boolean> {
  for (let start = 0; start < keys.length; start += keysPerRoundTrip) {
    if (!backend.isConnected()) return false;
    try {
      await within(answerTimeoutMs, queue.addBulk(keys.slice(start, start + keysPerRoundTrip).map(wakeUpOf)));
    } catch (error) {
      reportError(error);
      return false;
    }
  }
  return true;
}
