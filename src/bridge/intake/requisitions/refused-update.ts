/**
 * An update that is refused when it was sent again: its first POST may have taken effect, as its answer was lost. So the
 * jobs since the intent are read before the refusal counts.
 *
 *     12:00:00  POST     the answer is lost; the service makes job 7c.. of it, which takes out the lots of PR-7
 *     12:00:40  POST     again, as the event is a draft; refused: it was published meanwhile
 *     12:00:41  jobs     7c.. is the only update since 12:00 that is not known here, and COMPLETED: the update is done
 *
 *     none, or only such that FAILED    the refusal counts
 *     several that may be it            a person has to look
 */
import type { JobFault } from '#bridge/documents/job-faults.ts';
import { msFromTimestamp, timestampFromMs } from '#contract/timestamp.ts';
import { timestampNow } from '#platform/clock.ts';
import type { IntakeWork } from '../intake-deps.ts';
import { lateEffectMs } from '../send-stage.ts';
import { clockSkewMs, readJobs, type Trace } from './find-created.ts';
import { hasOtherUncertainUpdate, type OpenJob, readOpenJobs } from './job-store.ts';
import { holdJob, jobCompleted, jobFailed } from './settle-job.ts';

/** Writes down that the service has refused a job. Returns why that is not known yet; rejects where it cannot be asked. */
export async function settleRefusal(
  work: IntakeWork,
  job: { readonly id: string; readonly mayBeDone: boolean },
  refusal: { readonly why: string; readonly faults: readonly JobFault[] },
): Promise<string | undefined> {
  const { lease, intake, signal } = work;
  const open = job.mayBeDone ? await lease.transaction((tx) => readOpenJobs(tx, intake.name)) : [];
  const repeated = open.find(({ id }) => id === job.id);
  const trace: Trace = repeated
    ? await lease.during((lost) => traceOfFirst({ ...work, signal: AbortSignal.any([signal, lost]) }, repeated))
    : { is: 'none' };
  if (trace.is === 'perhaps') return trace.why;
  await lease.transaction((tx) => {
    if (trace.is === 'done') return jobCompleted(tx, work, job.id, {});
    if (trace.is === 'none') return jobFailed(tx, work, job.id, refusal.why, refusal.faults);
    const why = 'why' in trace ? trace.why : '';
    return holdJob(tx, work, job.id, `${why}; sent again, it was refused: ${refusal.why}`);
  });
  return undefined;
}

/** What became of the first POST of an update. No list of jobs says which event a job is of. */
async function traceOfFirst(work: IntakeWork, job: OpenJob): Promise<Trace> {
  const { database, source, clock } = work;
  const list = await readJobs(work, job);
  if (list === undefined) return { is: 'unclear', why: 'the service does not list its jobs' };
  const lastMs = msFromTimestamp(job.created) + source.timeout_seconds * 1_000 + lateEffectMs + clockSkewMs;
  const since = list.jobs.filter(({ createdMs }) => createdMs === undefined || createdMs <= lastMs);
  if (since.some(({ status }) => status !== 'COMPLETED' && status !== 'FAILED'))
    return { is: 'perhaps', why: 'a job that may be this update has not ended' };
  const completed = since.filter(({ status }) => status === 'COMPLETED');
  if (completed.length === 0)
    return list.complete ? { is: 'none' } : { is: 'unclear', why: 'the service has too many jobs to search' };
  const until = timestampFromMs(Math.min(lastMs, msFromTimestamp(timestampNow(clock))));
  if (completed.length > 1 || (await hasOtherUncertainUpdate(database, source.name, job, until)))
    return { is: 'unclear', why: 'the service has done several updates that may be this one' };
  return { is: 'done' };
}
