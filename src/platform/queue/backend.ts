/**
 * What the queue needs of BullMQ, so that Redis and PostgreSQL stand behind the same few calls; and the settings that
 * decide how both behave.
 */
import { randomUUID } from 'node:crypto';
import { type BulkJobOptions, type IQueueBackend, Worker, type WorkerOptions } from 'bullmq';

/** A wake-up in the queue. Its payload is the key alone: what is to be done stands in SQL. */
export interface WakeUp {
  id?: string | undefined;
  data: string;
  moveToWait(token?: string): Promise<unknown>;
}

export interface LaneQueue {
  addBulk(jobs: { name: string; data: string; opts: BulkJobOptions }[]): Promise<unknown>;
  close(): Promise<void>;
}

export interface LaneWorker {
  waitUntilReady(): Promise<void>;
  /** Takes wake-ups until it is closed. */
  run(): Promise<void>;
  /** With true: takes no more, without waiting for what runs. */
  pause(doNotWaitActive: boolean): Promise<void>;
  /** Waits for what runs and for the backend to take note of it: without end, when the backend does not answer. */
  close(): Promise<void>;
  /** Closes without waiting for anything, also when `close` was called before. */
  abandon(): Promise<void>;
  on(event: 'lockRenewalFailed', listener: (ids: string[]) => void): unknown;
}

/** BullMQ's worker; once it waits in `close`, its own forced close would only join it there. */
export class AbandonableWorker<B extends IQueueBackend, Connection>
  extends Worker<string, void, string, B, number, Connection>
  implements LaneWorker
{
  async abandon(): Promise<void> {
    await this.pause(true);
    await this.lockManager.close();
    await this.backend.close(true);
  }
}

export type HandleWakeUp = (wakeUp: WakeUp, token?: string) => Promise<void>;

export interface Backend {
  /** False while it is known that nothing can be sent, so that nobody waits for it. */
  isConnected(): boolean;
  openQueue(lane: string): LaneQueue;
  openWorker(lane: string, concurrency: number, handle: HandleWakeUp): LaneWorker;
  /** Rejects when the server does not answer. */
  ping(): Promise<void>;
  /** Closes the connections that queues and workers share; they must be closed before. */
  close(): Promise<void>;
}

/** Where errors of connections go: they come from many of them at once, and at any time. */
export type ReportError = (error: unknown) => void;

/**
 * How often a worker with nothing to do asks anyway, in case a notification was lost.
 * It bounds how long a Redis socket is silent: see `socketTimeoutMs`.
 */
const idlePollSeconds = 5;

/** A socket on which an answer is due and nothing came for this long is dead. */
export const socketTimeoutMs = 10_000;

/** `lockMs`: how long a process may be silent before its keys go to others. Found out after 1.5 times that at most. */
export function workerSettings(lockMs: number) {
  return {
    autorun: false,
    lockDuration: lockMs,
    // A dead worker's wake-up is seen by one check and taken by a later one.
    stalledInterval: lockMs / 4,
    // Past this many stalls BullMQ would drop the wake-up unworked.
    maxStalledCount: 1_000_000,
    drainDelay: idlePollSeconds,
    // Between two tries after a lost connection; BullMQ's own 15 s is long for a server that restarted.
    runRetryDelay: 1_000,
  } satisfies Partial<WorkerOptions>;
}

/** Nobody reads BullMQ's stream of events. Zero would mean without limit on PostgreSQL. */
export const eventStream = { events: { maxLen: 1 } };

/** A wake-up for `key`: coalesced with one that waits, kept for one more run when one is being worked. */
export function wakeUpOf(key: string): { name: string; data: string; opts: BulkJobOptions } {
  return {
    name: 'wake-up',
    data: key,
    opts: {
      // BullMQ's own ids start at 1 again after Redis was flushed, and would meet those of wake-ups still being worked.
      jobId: randomUUID(),
      deduplication: { id: key, keepLastIfActive: true },
      removeOnComplete: true,
      removeOnFail: true,
    },
  };
}
