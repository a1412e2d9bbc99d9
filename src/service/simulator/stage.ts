/**
 * The actions of buyers and suppliers in the simulator's stories, as calls of `/api` and `/desk` over HTTP. Every call
 * may be sent again when there was no answer: POSTs carry an `Idempotency-Key`, and the other methods have no further
 * effect when they are repeated.
 */
import { randomUUID } from 'node:crypto';
import { z } from 'zod';
import { queryOf, type ReadList } from '#client/list-page.ts';
import type { SourceClient } from '#client/source-client.ts';
import { createWebhookCalls, type WebhookCalls } from '#client/webhook-calls.ts';
import { type FeedName, feedPage } from '#contract/feed.ts';
import { type JobType, job, jobTypes } from '#contract/job.ts';
import { managedSourcingRequest } from '#contract/sourcing-request.ts';
import { supplierSubmission } from '#contract/supplier.ts';
import type { Clock } from '#platform/clock.ts';
import { AppError } from '#platform/errors.ts';

/** What a story needs of a client. */
export type StoryClient = Pick<SourceClient, 'call' | 'submit'>;

export interface StageOptions {
  client: StoryClient;
  clock: Clock;
  /** The pause between two steps of an event, in milliseconds. */
  pauseMs: number;
  signal?: AbortSignal | undefined;
}

export type SimulatedJob = z.infer<typeof job>;
export type SimulatedRequest = z.infer<typeof managedSourcingRequest>;

export interface SimulatorStage {
  /** Waits between two steps. Rejects when the story was stopped. */
  pause(): Promise<void>;
  /** Resolves when `holds` does. Throws AppError `unavailable` when that takes a minute. */
  waitUntil(holds: () => Promise<boolean>): Promise<void>;
  /** Creates or updates suppliers, and waits until the service has done it. */
  changeSuppliers(suppliers: readonly object[]): Promise<void>;
  /** Submits a job and waits for its end. Throws AppError when it failed. */
  runJob(type: JobType, payload: object): Promise<SimulatedJob>;
  /** Returns the sourcing requests with this reference, newest first. */
  findRequests(referenceId: string): Promise<SimulatedRequest[]>;
  /** Returns a sourcing request with its files and the events that serve it. */
  readRequest(uuid: string): Promise<SimulatedRequest>;
  /** Whether the feed of sourcing events shows the event among the test events, or among the others. */
  isShownAmong(events: 'test events' | 'other events', event: string): Promise<boolean>;
  /** The calls for webhooks. */
  readonly webhooks: WebhookCalls;
  /** Uploads a file of the buyer or a supplier, and returns its id. */
  upload(name: string, content: string): Promise<string>;
  /** Sends a command on an event, and returns its answer. */
  desk(event: string, method: 'POST' | 'PUT' | 'PATCH' | 'DELETE', path: string, body?: unknown): Promise<unknown>;
}

const requestsPath = '/api/manage/sourcing_requests';
const eventsFeedPath = `/api/feeds/${'sourcing-events' satisfies FeedName}`;

const firstPollMs = 25;
const patienceMs = 60_000;

/** Creates the stage. Its calls wait as long as the service's rate limits ask. */
export function createSimulatorStage(options: StageOptions): SimulatorStage {
  const { clock, pauseMs, signal } = options;
  const client = patientClient(options);
  const post = (path: string, body: unknown) => ({ method: 'POST', path, body, idempotencyKey: randomUUID() });

  /** A story looks at no more than a page of any list. */
  const readFirstPage: ReadList = async ({ path, query, item }) => {
    const form = z.looseObject({ result: z.array(item) });
    const { result } = await client.call({ method: 'GET', path: `${path}?${query}` }, form);
    return { items: result, count: undefined, next: undefined };
  };

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

    async waitUntil(holds) {
      await until(async () => (await holds()) || undefined);
    },

    async changeSuppliers(suppliers) {
      const path = await client.submit(post('/api/manage/supplier_changes', { change_data: { suppliers } }));
      await until(async () => {
        const read = await client.call({ method: 'GET', path }, z.looseObject({ result: supplierSubmission }));
        return read.result.current_state === 'PROCESSED' ? read : undefined;
      });
    },

    async runJob(type, payload) {
      const path = await client.submit(post(`/api/jobs/${jobTypes[type].path}`, payload));
      const ended = await until(async () => {
        const read = await client.call({ method: 'GET', path }, job);
        return read.status === 'PENDING' || read.status === 'RUNNING' ? undefined : read;
      });
      if (ended.status === 'COMPLETED') return ended;
      throw new AppError('internal', `The job ${type} failed: ${JSON.stringify(ended.errors)}`);
    },

    async findRequests(referenceId) {
      const at = { path: requestsPath, query: queryOf({ reference_id: referenceId }), item: managedSourcingRequest };
      return (await readFirstPage(at)).items;
    },

    async readRequest(uuid) {
      const call = { method: 'GET', path: `${requestsPath}/${uuid}` };
      return (await client.call(call, z.looseObject({ result: managedSourcingRequest }))).result;
    },

    async isShownAmong(events, event) {
      const query = queryOf({ id: event, is_test: events === 'test events' });
      const { data } = await client.call({ method: 'GET', path: `${eventsFeedPath}?${query}` }, feedPage);
      return data.length > 0;
    },

    webhooks: createWebhookCalls({ call: client.call, readList: readFirstPage }),

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
  async function patiently<T>(call: () => Promise<T>): Promise<T> {
    for (;;) {
      try {
        return await call();
      } catch (error) {
        if (!(error instanceof AppError) || error.code !== 'too-many' || error.recovery.do !== 'retry') throw error;
        await clock.sleep(error.recovery.afterMs ?? 1_000, signal);
      }
    }
  }
  return {
    call: (call, schema) => patiently(() => client.call(call, schema)),
    submit: (call) => patiently(() => client.submit(call)),
  };
}
