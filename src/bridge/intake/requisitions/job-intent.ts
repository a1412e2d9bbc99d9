/** The intent of a job: whether one may be submitted now, and the row that is committed before its POST. */
import { randomUUID } from 'node:crypto';
import { isTimelineNoted } from '#bridge/ledger/flows/flow-state.ts';
import type { JobType } from '#contract/job.ts';
import { timestampNow } from '#platform/clock.ts';
import type { Sql } from '#platform/database/sql.ts';
import type { IntakeDeps } from '../intake-deps.ts';
import { openMost, pauseIntakeFor, readIntake, storeBegun } from '../intake-store.ts';
import { endsOf } from '../send-stage.ts';
import { countOpen } from '../submission-store.ts';
import type { IntakeEvent } from './event-store.ts';
import { insertJob, type JobKind, type MadeOf } from './job-store.ts';

/** A job whose intent is committed. */
export interface Pending {
  readonly id: string;
  readonly kind: JobKind;
  readonly make: string;
  readonly event: string;
  /** JSON: the same text at each POST. */
  readonly payload: string;
  /** An earlier POST of it may have taken effect, or still may. */
  readonly mayBeDone: boolean;
}

/** Which type of job makes, updates and completes what the settings make. */
export function jobTypeOf({ kind, make }: { kind: JobKind; make: string }): JobType {
  const isRequest = make === 'request';
  if (kind === 'update') return 'UPDATE_SOURCING_EVENT';
  if (kind === 'attach') return isRequest ? 'ATTACH_FILES_TO_SOURCING_REQUEST' : 'ATTACH_FILES_TO_SOURCING_EVENT';
  if (isRequest) return 'CREATE_SOURCING_REQUEST';
  return make === 'event' ? 'CREATE_SOURCING_EVENT' : 'CREATE_SOURCING_EVENT_FROM_TEMPLATE';
}

/** Whether a job may be submitted now. The first one needs a person's agreement: an ERP may have years of open ones. */
export async function maySendJobs(tx: Sql, { intake, clock }: IntakeDeps): Promise<boolean> {
  const now = timestampNow(clock);
  const state = await readIntake(tx, intake);
  // What a lost commit says that was made must not be made again.
  const [noted] = await tx.query<{ noted: boolean }>(`select ${isTimelineNoted} as noted`);
  if (noted?.noted !== true) return false;
  if (!state?.lastRead || state.pausedKind !== null || (state.nextSend !== null && state.nextSend > now)) return false;
  if ((await countOpen(tx, intake.name)) >= openMost) return false;
  if (state.begun !== null) return true;
  const [waiting] = await tx.query<{ requisitions: number; events: number }>(
    `select count(*)::int as requisitions, count(distinct e.id)::int as events
     from bridge.intake_events e join bridge.intake_members m on m.event = e.id and m.live
     where e.intake = $1 and e.state = 'gathering'`,
    [intake.name],
  );
  const { requisitions = 0, events = 0 } = waiting ?? {};
  // Without open requisitions there is nothing to agree to: the ones that come later are new.
  if (requisitions === 0) {
    await storeBegun(tx, intake.name, now);
    return true;
  }
  const reason =
    `it is the first run: ${requisitions} requisitions would become ${events} ` +
    `${intake.make === 'request' ? 'requests' : 'events'}. Look at them with: bridge plan ${intake.name}. ` +
    `If that is right: bridge resume ${intake.name}`;
  await pauseIntakeFor(tx, intake.name, { kind: 'first-run', reason }, now);
  return false;
}

/** Commits the intent of a job, with the requisitions that are in it. */
export async function commitIntent(
  tx: Sql,
  { intake, source, clock }: IntakeDeps,
  given: { event: IntakeEvent; kind: JobKind; payload: string; madeOf: MadeOf },
): Promise<Pending> {
  const { event, kind, payload, madeOf } = given;
  const { lots, members, name } = madeOf;
  const id = randomUUID();
  await insertJob(tx, {
    id,
    intake: intake.name,
    source: source.name,
    event: event.id,
    kind,
    payload,
    madeOf: { lots, members, name },
    now: timestampNow(clock),
    ...endsOf(clock.nowMs(), source.timeout_seconds),
  });
  return { id, kind, make: event.make, event: event.id, payload, mayBeDone: false };
}
