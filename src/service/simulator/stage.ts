/**
 * The actions of buyers and suppliers in the simulator's stories, as calls of `/api` and `/desk` over HTTP. Every call
 * may be sent again when there was no answer: POSTs carry an `Idempotency-Key`, and the other methods have no further
 * effect when they are repeated.
 */
import { randomUUID } from 'node:crypto';
import { z } from 'zod';
import type { SourceClient } from '#client/source-client.ts';
import { createSupplierCalls } from '#client/supplier-calls.ts';
import { type JobType, job, jobTypes } from '#contract/job.ts';
import type { SupplierChange } from '#contract/supplier.ts';
import type { Clock } from '#platform/clock.ts';
import { AppError } from '#platform/errors.ts';

/** What a story needs of a client. */
export type StoryClient = Pick<SourceClient, 'call' | 'readList'>;

export interface StageOptions {
  client: StoryClient;
  clock: Clock;
  /** The pause between two steps of an event, in milliseconds. */
  pauseMs: number;
  signal?: AbortSignal | undefined;
}

export type SimulatedJob = z.infer<typeof job>;

export interface SimulatorStage {
  /** Waits between two steps. Rejects when the story was stopped. */
  pause(): Promise<void>;
  /** Creates or updates suppliers, and waits until the service has done it. */
  changeSuppliers(suppliers: readonly SupplierChange[]): Promise<void>;
  /** Submits a job and waits for its end. Throws AppError when it failed. */
  runJob(type: JobType, payload: object): Promise<SimulatedJob>;
  /** Uploads a file of the buyer or a supplier, and returns its id. */
  upload(name: string, content: string): Promise<string>;
  /** Sends a command on an event, and returns its answer. */
  desk(event: string, method: 'POST' | 'PUT' | 'PATCH' | 'DELETE', path: string, body?: unknown): Promise<unknown>;
}

const firstPollMs = 25;
const patienceMs = 60_000;

/** Creates the stage. Its calls wait as long as the service's rate limits ask. */
export function createSimulatorStage(options: StageOptions): SimulatorStage {
  const { clock, pauseMs, signal } = options;
  const client = patientClient(options);
  const supplierCalls = createSupplierCalls(client);
  const post = (path: string, body: unknown) => ({ method: 'POST', path, body, idempotencyKey: randomUUID() });

  async function until<T>(look: () => Promise<T | undefined>): Promise<T> {
    const giveUpMs = clock.nowMs() + patienceMs;
    for (let waitMs = firstPollMs; ; waitMs *= 1.5) {
      const found = await look();
      if (found !== undefined) return found;
      if (clock.nowMs() > giveUpMs)
        throw new AppError('unavailable', `The service did not finish within ${patienceMs / 1000} s.`);
      await clock.sleep(waitMs, signal);
    }
  }

  return {
    async pause() {
      signal?.throwIfAborted();
      if (pauseMs > 0) await clock.sleep(pauseMs, signal);
    },

    async changeSuppliers(suppliers) {
      const { uuid } = await supplierCalls.submitSupplierChange(suppliers, randomUUID());
      await until(async () => {
        const { current_state: state } = await supplierCalls.readSupplierChange(uuid);
        return state === 'PROCESSED' || undefined;
      });
    },

    async runJob(type, payload) {
      const { id } = await client.call(post(`/api/jobs/${jobTypes[type].path}`, payload), job);
      const ended = await until(async () => {
        const read = await client.call({ method: 'GET', path: `/api/jobs/${id}` }, job);
        return read.status === 'PENDING' || read.status === 'RUNNING' ? undefined : read;
      });
      if (ended.status === 'COMPLETED') return ended;
      throw new AppError('internal', `The job ${type} failed: ${JSON.stringify(ended.errors)}`);
    },

    async upload(name, content) {
      const { uuid } = await client.call(
        {
          method: 'POST',
          path: '/desk/files',
          file: { name, contentType: 'text/plain', bytes: Buffer.from(content) },
          idempotencyKey: randomUUID(),
        },
        z.looseObject({ uuid: z.string() }),
      );
      return uuid;
    },

    async desk(event, method, path, body) {
      const call = { method, path: `/desk/events/${event}${path}` };
      if (method === 'POST') return client.call(post(call.path, body ?? {}), z.unknown());
      if (method !== 'DELETE') return client.call({ ...call, body }, z.unknown());
      return client.call(call, z.unknown()).catch((error: unknown) => {
        // The call was repeated, and had taken effect the first time.
        if (error instanceof AppError && error.code === 'not-found') return undefined;
        throw error;
      });
    },
  };
}

/**
 * A client that waits for the service's rate limits, however long: the story is then slower, but it is played to its
 * end.
 */
function patientClient({ client, clock, signal }: StageOptions): StoryClient {
  return {
    ...client,
    call: async (call, schema) => {
      for (;;) {
        try {
          return await client.call(call, schema);
        } catch (error) {
          if (!(error instanceof AppError) || error.code !== 'too-many' || error.recovery.do !== 'retry') throw error;
          await clock.sleep(error.recovery.afterMs ?? 1_000, signal);
        }
      }
    },
  };
}
