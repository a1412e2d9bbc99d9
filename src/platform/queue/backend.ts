/** The few calls of BullMQ that the queue needs, the same for Redis and PostgreSQL, and the settings of both. */
import { randomUUID } from 'node:crypto';
import { type BulkJobOptions, type IQueueBackend, Worker, type WorkerOptions } from 'bullmq';

/** A wake-up in the queue. Its payload is only the key: SQL says what is to be done for it. */
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
  /** Takes no more wake-ups; with true it does not wait for the ones that run. */
  pause(doNotWaitActive: boolean): Promise<void>;
  /** Waits for running wake-ups and until the backend has recorded their end: for ever, when it does not answer. */
  close(): Promise<void>;
  /** Closes without any wait, also when `close` was called before. */
  abandon(): Promise<void>;
  on(event: 'lockRenewalFailed', listener: (ids: string[]) => void): unknown;
}

/**
 * BullMQ's worker with a way out of `close`: while `close` waits, BullMQ's own forced close would only wait with it.
 */
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
  /** False while the connection is known to be down, so that no caller waits for it. */
  isConnected(): boolean;
  openQueue(lane: string): LaneQueue;
  openWorker(lane: string, concurrency: number, handle: HandleWakeUp): LaneWorker;
  /** Rejects when the server does not answer. */
  ping(): Promise<void>;
  /** Closes the connections that queues and workers share; they must be closed before. */
  close(): Promise<void>;
}

/** Gets the errors of connections, which come from many connections at once and at any time. */
export type ReportError = (error: unknown) => void;

/**
 * How often an idle worker asks for work, in case a notification was lost. This bounds how long a Redis socket is
 * silent: see `socketTimeoutMs`.
 */
const idlePollSeconds = 5;

/** A socket that waits for an answer and gets nothing for this long is dead. */
export const socketTimeoutMs = 10_000;

/**
 * `lockMs`: how long a process may be silent before its keys go to other processes. They are taken over after 1.5 times
 * that at most.
 */
export function workerSettings(lockMs: number) {
  return {
    autorun: false,
    lockDuration: lockMs,
    // One check notices a dead worker's wake-up, and a later check takes it.
    stalledInterval: lockMs / 4,
    // After this many stalls BullMQ would drop the wake-up without working it.
    maxStalledCount: 1_000_000,
    drainDelay: idlePollSeconds,
    // The wait between two tries after a lost connection. BullMQ's default of 15 s is long for a server that restarted.
    runRetryDelay: 1_000,
  } satisfies Partial<WorkerOptions>;
}

/** Keeps BullMQ's stream of events, which is not used here, at one entry: on PostgreSQL zero would mean no limit. */
export const eventStream = { events: { maxLen: 1 } };

/** A wake-up for `key`: coalesced with one that waits, and kept for one more run while the key is being worked. */
export function wakeUpOf(key: string): { name: string; data: string; opts: BulkJobOptions } {
  return {
    name: 'wake-up',
    data: key,
    opts: {
      // After Redis was flushed, BullMQ's own ids start at 1 again: they would collide with wake-ups still being
      // worked.
      jobId: randomUUID(),
      deduplication: { id: key, keepLastIfActive: true },
      removeOnComplete: true,
      removeOnFail: true,
    },
  };
}
