/**
 * The worker of the lane `jobs`: works an organisation's jobs in the order they came. A job's work and its end are one
 * transaction, so a job ends exactly once: a crash leaves it pending with nothing done.
 */
import { randomUUID } from 'node:crypto';
import type { JobType } from '#contract/job.ts';
import { type CreateSourcingEventPayload, createSourcingEventPayload } from '#contract/sourcing-event.ts';
import { type Clock, timestampNow } from '#platform/clock.ts';
import type { Sql } from '#platform/database/database.ts';
import { AppError, type Issue } from '#platform/errors.ts';
import { toAppError } from '#platform/http/problem.ts';
import type { Logger } from '#platform/log.ts';
import { announce } from '../events/announce.ts';
import { insertEvent } from '../events/event-store.ts';
import type { RunUnitOfWork, UnitOfWork } from '../unit-of-work.ts';
import { enqueueNotifications } from '../webhooks/enqueue-notifications.ts';

interface JobRow {
  id: string;
  organisation_id: string;
  type: JobType;
  payload: unknown;
  created_by: string;
}

/** What a job's work gives: the entity that it made. */
interface Done {
  createdEntity: string;
}

type JobWork = (unit: UnitOfWork, job: JobRow, clock: Clock) => Promise<Done>;

const works: Record<JobType, JobWork> = { CREATE_SOURCING_EVENT: createSourcingEvent };

export function runJobs(deps: { runUnitOfWork: RunUnitOfWork; clock: Clock; log: Logger }) {
  const { runUnitOfWork, clock, log } = deps;
  return async (organisationId: string, signal: AbortSignal): Promise<void> => {
    while (!signal.aborted) {
      let current: string | undefined;
      try {
        const worked = await runUnitOfWork(async (unit) => {
          const job = await takeNext(unit.tx, organisationId);
          current = job?.id;
          if (!job) return false;
          const done = await works[job.type](unit, job, clock);
          await endJob(unit, job, clock, { status: 'COMPLETED', createdEntity: done.createdEntity });
          return true;
        });
        if (!worked) return;
      } catch (error) {
        if (current === undefined || passes(error)) throw error;
        // A fault of ours ends the job, too: left pending, it would hold up every later job of its organisation.
        const isOurs = !(error instanceof AppError && error.code === 'invalid');
        if (isOurs) log.error({ err: error, job: current }, 'job failed');
        await failJob(runUnitOfWork, current, toAppError(error), clock);
      }
    }
  };
}

/** The organisations that have jobs waiting: what the sweep wakes. */
export async function organisationsWithJobs(sql: Sql): Promise<string[]> {
  const rows = await sql.query<{ organisation_id: string }>(
    `select distinct organisation_id from service.jobs where status = 'PENDING'`,
  );
  return rows.map((row) => row.organisation_id);
}

/** The database was away, or undid the work in favour of another's: the sweep wakes the job again. */
function passes(error: unknown): boolean {
  if (error instanceof AppError) return error.code === 'unavailable';
  return error instanceof Error && 'code' in error && String(error.code).startsWith('40');
}

async function takeNext(tx: Sql, organisationId: string): Promise<JobRow | undefined> {
  const [job] = await tx.query<JobRow>(
    `select id, organisation_id, type, payload, created_by from service.jobs
     where organisation_id = $1 and status = 'PENDING' order by number limit 1 for update`,
    [organisationId],
  );
  return job;
}

async function failJob(runUnitOfWork: RunUnitOfWork, id: string, error: AppError, clock: Clock): Promise<void> {
  await runUnitOfWork(async (unit) => {
    const [job] = await unit.tx.query<JobRow>(
      `select id, organisation_id, type, payload, created_by from service.jobs
       where id = $1 and status = 'PENDING' for update`,
      [id],
    );
    const errors = error.issues.length > 0 ? error.issues : [{ message: error.publicMessage }];
    if (job) await endJob(unit, job, clock, { status: 'FAILED', errors });
  });
}

async function endJob(
  unit: UnitOfWork,
  job: JobRow,
  clock: Clock,
  end: { status: 'COMPLETED' | 'FAILED'; createdEntity?: string; errors?: readonly Partial<Issue>[] },
): Promise<void> {
  await unit.tx.query('update service.jobs set status = $2, created_entity = $3, errors = $4 where id = $1', [
    job.id,
    end.status,
    end.createdEntity ?? null,
    end.errors ? JSON.stringify(end.errors) : null,
  ]);
  await enqueueNotifications(unit, {
    organisationId: job.organisation_id,
    trigger: 'JOB_UPDATED',
    coalesces: false,
    now: timestampNow(clock),
    payload: { job: job.id, type: job.type, status: end.status },
  });
}

async function createSourcingEvent(unit: UnitOfWork, job: JobRow, clock: Clock): Promise<Done> {
  const payload = createSourcingEventPayload.parse(job.payload);
  const id = randomUUID();
  const now = timestampNow(clock);
  const organisationId = job.organisation_id;
  await insertEvent(unit.tx, {
    id,
    organisationId,
    createdBy: job.created_by,
    created: now,
    payload,
    lotIds: payload.bid_sheet.lots.map(() => randomUUID()),
    invitations: await resolveSuppliers(unit.tx, organisationId, payload),
  });
  await announce(unit, { happening: 'event-created', event: { id, organisationId, name: payload.name }, now });
  return { createdEntity: id };
}

/** Finds the invited suppliers; throws `invalid` with one issue for each that does not exist or is archived. */
async function resolveSuppliers(tx: Sql, organisationId: string, payload: CreateSourcingEventPayload) {
  const rows = await tx.query<{ id: string; external_id: string; archived: boolean }>(
    'select id, external_id, archived from service.suppliers where organisation_id = $1 and external_id = any($2)',
    [organisationId, payload.suppliers.map((supplier) => supplier.external_id)],
  );
  const byExternalId = new Map(rows.map((row) => [row.external_id, row]));
  const issues: Issue[] = [];
  const invitations = payload.suppliers.flatMap(({ external_id: externalId, contacts }, index) => {
    const found = byExternalId.get(externalId);
    if (found && !found.archived) return [{ supplierId: found.id, contacts }];
    issues.push({
      path: `suppliers[${index}].external_id`,
      message: found ? `supplier "${externalId}" is archived` : `there is no supplier "${externalId}"`,
    });
    return [];
  });
  if (issues[0]) throw new AppError('invalid', issues[0].message, { issues });
  return invitations;
}
