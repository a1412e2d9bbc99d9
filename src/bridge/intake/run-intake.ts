/**
 * One turn of an intake's work: look after open submissions, read, compare, send. A lease keeps two processes from
 * working one intake at once; every write is guarded by its fencing token. A kill at any point leaves what the next turn
 * goes on from.
 */
import { type AcquireLease, LeaseLost } from '#bridge/ledger/leases/lease.ts';
import type { ReadStream } from '#connector/records.ts';
import { timestampNow } from '#platform/clock.ts';
import { compareStage } from './compare-stage.ts';
import type { IntakeDeps, IntakeWork } from './intake-deps.ts';
import { intakesWithDue } from './intake-store.ts';
import { lookStage } from './look-stage.ts';
import { readStage } from './read-stage.ts';
import { acknowledgeRequisitions } from './requisitions/acknowledge-stage.ts';
import { compareRequisitions } from './requisitions/compare-requisitions.ts';
import { lookJobs } from './requisitions/look-jobs.ts';
import { sendJobs } from './requisitions/send-jobs.ts';
import { sendStage } from './send-stage.ts';

const stagesOf: Readonly<Record<ReadStream, readonly ((work: IntakeWork) => Promise<void>)[]>> = {
  supplier: [lookStage, readStage, compareStage, sendStage],
  requisition: [lookJobs, readStage, compareRequisitions, sendJobs, acknowledgeRequisitions],
};

/** Creates the worker of an intake. It rejects only when the database is away. */
export function createIntakeRun(deps: IntakeDeps & { acquireLease: AcquireLease }) {
  const { intake, database, clock, acquireLease } = deps;
  return async (signal: AbortSignal): Promise<void> => {
    // Checked again after the lease was released: a worker that was woken while it was held did not get it.
    while (!signal.aborted && (await intakesWithDue(database, [intake], timestampNow(clock))).length > 0) {
      const lease = await acquireLease(`intake/${intake.name}`);
      if (!lease) return;
      try {
        const work = { ...deps, lease, signal };
        for (const stage of stagesOf[intake.stream]) await stage(work);
      } catch (error) {
        if (error instanceof LeaseLost || signal.aborted) return;
        throw error;
      } finally {
        await lease.release();
      }
    }
  };
}
