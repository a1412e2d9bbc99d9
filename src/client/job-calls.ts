/** Asynchronous jobs. Source: API document, "Jobs". */
import { z } from 'zod';
import { job as documentedJob, type JobType, type jobTypes } from '#contract/job.ts';
import type { Clock } from '#platform/clock.ts';
import { AppError } from '#platform/errors.ts';
import { type Dialect, sayJob } from './dialect.ts';
import { AnswerError } from './read-answer.ts';
import type { CallApi } from './send-call.ts';

const jobsPath = '/api/jobs';
const firstPollMs = 250;
const longestPollMs = 5_000;

/**
 * No document states the form of a job's errors. Another service may leave out the results and errors of files when
 * there are none.
 */
const job = documentedJob.pick({ id: true, type: true, status: true, created_entity: true }).extend({
  errors: z.unknown().optional(),
  detail: z
    .looseObject({
      data: z
        .array(
          z.looseObject({
            file_uuid: z.string().optional(),
            file_name: z.string().optional(),
            download_url: z.string().optional(),
          }),
        )
        .default([]),
      errors: z.array(z.looseObject({ file_uuid: z.string().optional(), error: z.unknown() })).default([]),
    })
    .nullish(),
});

export type SubmittedJob = z.output<typeof job>;

export type JobInput<Type extends JobType> = z.input<(typeof jobTypes)[Type]['payload']>;

export interface JobCalls {
  /** Submits a job. A second call with the same key and payload submits no second job. */
  submitJob<Type extends JobType>(
    type: Type,
    payload: JobInput<Type>,
    idempotencyKey: string,
    signal?: AbortSignal,
  ): Promise<SubmittedJob>;
  /**
   * Submits a job whose payload has been made, at most once: the caller decides after a failure. Returns the job's id.
   */
  submitJobOnce(
    type: JobType,
    payload: Readonly<Record<string, unknown>>,
    idempotencyKey: string,
    signal?: AbortSignal,
  ): Promise<string>;
  readJob(id: string, signal?: AbortSignal): Promise<SubmittedJob>;
  /**
   * Polls the job, at growing intervals, until it has ended: `COMPLETED` or `FAILED`. Throws AppError `unavailable`,
   * with the recovery `retry`, when that takes longer than `withinMs`.
   */
  waitForJob(id: string, withinMs: number, signal?: AbortSignal): Promise<SubmittedJob>;
}

const receipt = z.looseObject({ id: z.string().min(1).max(200) });

/** Creates the calls for jobs. */
export function createJobCalls({
  call,
  clock,
  dialect = { name: 'contract' },
}: {
  call: CallApi;
  clock: Clock;
  dialect?: Dialect | undefined;
}): JobCalls {
  /** The types whose jobs the service takes under their other path. */
  const moved = new Set<JobType>();

  /** Sends the job. A path that the service does not have (404, 405) has done nothing: the other one is tried. */
  async function submit<Schema extends z.ZodType>(
    type: JobType,
    payload: object,
    request: { idempotencyKey: string; once?: boolean },
    schema: Schema,
    signal?: AbortSignal,
  ): Promise<z.output<Schema>> {
    const { paths, body } = sayJob(dialect, type, payload as Readonly<Record<string, unknown>>);
    const post = (path: string) =>
      call({ method: 'POST', path: `${jobsPath}/${path}`, body, ...request }, schema, signal);
    const [first = '', other] = moved.has(type) ? paths.toReversed() : paths;
    try {
      return await post(first);
    } catch (error) {
      const isMissing = error instanceof AnswerError && (error.status === 404 || error.status === 405);
      if (other === undefined || !isMissing) throw error;
    }
    const answer = await post(other);
    if (!moved.delete(type)) moved.add(type);
    return answer;
  }

  const readJob = (id: string, signal?: AbortSignal) =>
    call({ method: 'GET', path: `${jobsPath}/${encodeURIComponent(id)}` }, job, signal);
  return {
    submitJob: (type, payload, idempotencyKey, signal) => submit(type, payload, { idempotencyKey }, job, signal),
    submitJobOnce: async (type, payload, idempotencyKey, signal) =>
      (await submit(type, payload, { idempotencyKey, once: true }, receipt, signal)).id,
    readJob,
    async waitForJob(id, withinMs, signal) {
      const untilMs = clock.nowMs() + withinMs;
      for (let waitMs = firstPollMs; ; waitMs = Math.min(longestPollMs, waitMs * 2)) {
        await clock.sleep(waitMs, signal);
        const read = await readJob(id, signal);
        if (read.status === 'COMPLETED' || read.status === 'FAILED') return read;
        if (clock.nowMs() + waitMs > untilMs)
          throw new AppError(
            'unavailable',
            `The job ${id} has not ended within ${withinMs / 1000} s: it is ${read.status}.`,
          );
      }
    },
  };
}
