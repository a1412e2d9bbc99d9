/**
 * The interface of a job type's work. The worker calls `prepare` outside of any transaction, then `apply` in the
 * transaction that also ends the job. So a job ends exactly once, and a crash leaves it pending with nothing of `apply`
 * done.
 */
import type { z } from 'zod';
import type { JobPayload, JobType, job } from '#contract/job.ts';
import type { Timestamp } from '#contract/timestamp.ts';
import type { UnitOfWork } from '../unit-of-work.ts';

export interface JobContext {
  readonly organisationId: string;
  /** The API key that submitted it. */
  readonly createdBy: string;
  /** The base of absolute links in the job's result. */
  readonly baseUrl: string;
}

/** What answers show of a completed job. */
export interface JobResult {
  readonly createdEntity?: string;
  readonly detail?: NonNullable<z.infer<typeof job>['detail']>;
}

export interface JobWork<Type extends JobType, Prepared = undefined> {
  /**
   * Work that takes long or calls other servers. It may run more than once for a job, also in two processes at once, so
   * it must change nothing that a client can see. If it throws AppError `invalid`, the job fails with its issues.
   */
  prepare?(payload: JobPayload<Type>, job: JobContext, signal: AbortSignal): Promise<Prepared>;
  /**
   * Does the work. If it throws AppError `invalid`, `conflict` or `not-found`, the job fails with its issues or
   * message.
   */
  apply(
    unit: UnitOfWork,
    call: { payload: JobPayload<Type>; job: JobContext; now: Timestamp; prepared: Prepared },
  ): Promise<JobResult>;
}
