/**
 * What a job type does. The worker calls `prepare` outside any transaction, then `apply` in the one that also ends the
 * job: so a job ends exactly once, and a crash leaves it pending with nothing of `apply` done.
 */
import type { z } from 'zod';
import type { JobPayload, JobType, job } from '#contract/job.ts';
import type { Timestamp } from '#contract/timestamp.ts';
import type { UnitOfWork } from '../unit-of-work.ts';

export interface JobContext {
  readonly organisationId: string;
  /** The API key that submitted it. */
  readonly createdBy: string;
  /** What absolute links in its result start with. */
  readonly baseUrl: string;
}

/** What the job shows when it has completed. */
export interface JobResult {
  readonly createdEntity?: string;
  readonly detail?: NonNullable<z.infer<typeof job>['detail']>;
}

export interface JobWork<Type extends JobType, Prepared = undefined> {
  /**
   * What takes long or asks other servers. It may run more than once for a job, also in two processes at once, and
   * must change nothing that anybody sees. Throws AppError `invalid`: the job fails with its issues.
   */
  prepare?(payload: JobPayload<Type>, job: JobContext, signal: AbortSignal): Promise<Prepared>;
  /** Throws AppError `invalid`, `conflict` or `not-found`: the job fails with its issues, or its message. */
  apply(
    unit: UnitOfWork,
    call: { payload: JobPayload<Type>; job: JobContext; now: Timestamp; prepared: Prepared },
  ): Promise<JobResult>;
}
