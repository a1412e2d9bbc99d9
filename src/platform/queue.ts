/**
 * Wakes work. What is due stands in SQL; every process finds it there for its own lanes, by its sweep, and works it under
 * leases and row claims. A wake-up only makes that sooner, in this process or in another: over Redis (BullMQ) where there
 * is one, else over the database (NOTIFY). So Redis may be away, flushed, read-only or of the wrong kind: that costs the
 * seconds until the next sweep.
 */
import type { Database } from './database/database.ts';
import type { Logger } from './log.ts';
import type { Carrier } from './queue/carrier.ts';
import { createLane, type Lane, type Work } from './queue/lane.ts';
import { createNotifyCarrier } from './queue/notify-carrier.ts';
import { createOutageLog } from './queue/outage-log.ts';
import { openRedisCarrier } from './queue/redis-carrier.ts';
import { within } from './within.ts';

export type { Work } from './queue/lane.ts';

export interface Signals {
  /**
   * Wakes the lane's work for each key. Call it after the change that made the key due was committed. In a process that
   * works the lane, the work begins here, after the run of the key that may be going on; only what this process has no room
   * for goes to others, too. Signals for a key that waits already are coalesced. Keys are printable text. Resolves within
   * 2 s, and never rejects: what is lost here is found by a sweep.
   */
  signal(lane: string, keys: readonly string[]): Promise<void>;
  /** The same, in this process alone: what others are to work, their own sweeps find. */
  wakeHere(lane: string, keys: readonly string[]): void;
  /**
   * Works a lane in this process, up to `concurrency` keys at a time and never one key twice at once. Two processes may
   * work one key at once: the work guards what it writes in SQL. Call it once for a lane.
   */
  work(lane: string, options: { concurrency: number }, work: Work): void;
  /**
   * Begins no more work, aborts the signal of the work that runs and waits for it up to `graceMs` (default 10 s). What was
   * cut short is found by the sweeps of other processes. Never rejects.
   */
  close(graceMs?: number): Promise<void>;
}

export interface SignalsOptions {
  /** Set: wake-ups travel over this Redis or Valkey. Not set: over the database. */
  redisUrl?: string | undefined;
  database: Database;
  databaseUrl: string;
  /** Prefix of every Redis key, or name of the database's channel: letters, digits and underscores. */
  namespace: string;
  log: Logger;
}

/** Waits 2 s at most for Redis, and goes on without it. */
export async function createSignals(options: SignalsOptions): Promise<Signals> {
  const { log, redisUrl, namespace } = options;
  const outages = createOutageLog(log, redisUrl === undefined ? 'the connection for wake-ups' : 'Redis');
  const reportError = outages.report;
  const carrier: Carrier =
    redisUrl === undefined
      ? createNotifyCarrier({ ...options, applicationName: namespace, reportError })
      : await openRedisCarrier({ redisUrl, namespace, reportError });
  const lanes = new Map<string, Lane>();
  let closing: Promise<void> | undefined;

  async function close(graceMs: number): Promise<void> {
    for (const lane of lanes.values()) lane.stop();
    await within(graceMs, Promise.all([...lanes.values()].map((lane) => lane.idle()))).catch(() => undefined);
    await carrier.close();
    outages.close();
  }

  return {
    async signal(name, keys) {
      const lane = closing ? undefined : lanes.get(name);
      const others: string[] = [];
      for (const key of keys) {
        if (!lane?.hasRoom()) others.push(key);
        lane?.wake(key);
      }
      if (others.length > 0) await carrier.send(name, others);
    },
    wakeHere(name, keys) {
      for (const key of keys) lanes.get(name)?.wake(key);
    },
    work(name, { concurrency }, work) {
      const lane = createLane(name, { concurrency, work, log });
      lanes.set(name, lane);
      carrier.receive(name, (key) => lane.wake(key));
    },
    close(graceMs = 10_000) {
      closing ??= close(graceMs);
      return closing;
    },
  };
}
