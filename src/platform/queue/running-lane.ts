/** A lane's worker in this process: kept running while the backend comes and goes, and closed in order. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { LaneWorker, ReportError } from './backend.ts';
import type { Lane } from './lane.ts';
import { answerTimeoutMs, within } from './within.ts';

/** Between the end of a worker that failed and the start of the next one. */
const restartAfterMs = 1_000;

export interface RunningLane {
  /** Stops the lane and waits up to `graceMs` for its work; never rejects. */
  close(graceMs: number, isConnected: () => boolean): Promise<void>;
}

/**
 * Opens a worker and keeps the lane worked until `close`. BullMQ's worker recovers from most errors, but a worker whose
 * first connection to PostgreSQL failed stays broken for ever. So a new worker replaces one that fails.
 */
export function startLane(lane: Lane, open: () => LaneWorker, reportError: ReportError): RunningLane {
  const closing = new AbortController();
  let worker = open();
  void keepWorking();

  async function keepWorking(): Promise<void> {
    while (!closing.signal.aborted) {
      try {
        await worker.waitUntilReady();
        await worker.run();
      } catch (error) {
        if (closing.signal.aborted) return;
        reportError(error);
        await worker.abandon().catch(reportError);
        await sleep(restartAfterMs, undefined, { signal: closing.signal }).catch(() => {});
        if (!closing.signal.aborted) worker = open();
      }
    }
  }

  return {
    async close(graceMs, isConnected) {
      closing.abort();
      await worker.pause(true);
      lane.stop();
      const isIdle = await succeeds(within(graceMs, lane.idle()));
      // Closing the worker also receives the wake-ups that are being fetched, so that the lane puts them back.
      if (isIdle && isConnected() && (await succeeds(within(answerTimeoutMs, worker.close())))) return;
      await within(answerTimeoutMs, worker.abandon()).catch(reportError);
    },
  };
}

function succeeds(promise: Promise<unknown>): Promise<boolean> {
  return promise.then(
    () => true,
    () => false,
  );
}
