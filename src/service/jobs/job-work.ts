/**
 * The interface of a job type's work. The worker calls `prepare` outside of any transaction, then `apply` in the
 * transaction that also ends the job, or lets it wait for uploads. So a job ends exactly once, and a crash leaves it as it
 * was, with nothing of `apply` done.
 */
import type { z } from 'zod';
import type { JobPayload, JobType, job } from '#contract/job.ts';
import type { Timestamp } from '#contract/timestamp.ts';
import type { UnitOfWork } from '../unit-of-work.ts';

/** A file that a job names and a client uploads; all members but the name are missing until it has come. */
export interface NamedUpload {
  readonly file_name: string;
  readonly content_type?: string | undefined;
  /** The upload's, and then the file's. */
  readonly id?: string;
  readonly size?: number;
  /** In hexadecimal. */
  readonly sha256?: string;
}

export interface JobContext {
  readonly id: string;
  readonly organisationId: string;
  /** The API key that submitted it. */
  readonly createdBy: string;
  /** The base of absolute links in the job's result. */
  readonly baseUrl: string;
}

type JobDetail = NonNullable<z.infer<typeof job>['detail']>;

/** What answers show of a completed job. */
export interface JobResult {
  readonly createdEntity?: string;
  readonly detail?: JobDetail;
}

/** The job is RUNNING from now on: it goes on when the files have been uploaded, and at `due` at the latest. */
export interface WaitForUploads {
  readonly uploads: readonly NamedUpload[];
  readonly due: Timestamp;
  readonly detail: JobDetail;
}

export interface JobWork<Type extends JobType, Prepared = undefined> {
  /**
   * Work that takes long or calls other servers. It may run more than once for a job, also in two processes at once, so
   * it must change nothing that a client can see. If it throws AppError `invalid`, the job fails with its issues.
   */
  prepare?(payload: JobPayload<Type>, job: JobContext, signal: AbortSignal): Promise<Prepared>;
  /**
   * Does the work. `uploads` are those of a job that goes on; null before. If it throws AppError `invalid`, `conflict` or `not-found`, the job fails with its issues or
   * message.
   */
  apply(
    unit: UnitOfWork,
    call: {
      payload: JobPayload<Type>;
      job: JobContext;
      now: Timestamp;
      prepared: Prepared;
      uploads: readonly NamedUpload[] | null;
    },
  ): Promise<JobResult | WaitForUploads>;
}
