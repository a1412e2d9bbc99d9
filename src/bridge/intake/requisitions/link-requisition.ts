/** A person says what became of a requisition whose job ended uncertain, or takes it out of its event. */
import type { Timestamp } from '#contract/timestamp.ts';
import type { Database } from '#platform/database/database.ts';
import { AppError } from '#platform/errors.ts';
import { readLots, storeLots } from './event-store.ts';
import type { MadeOf } from './job-store.ts';
import { markAwards } from './mark-awards.ts';

/**
 * `entity`: the event of the service that the requisition is in; all requisitions that were sent together are. Without
 * it the requisition leaves its event, and is made anew; the event of the service stays as it is. Throws AppError
 * `not-found` for a requisition that is in no event, `conflict` for one that is in a job, or an event that is another's.
 */
export async function linkRequisition(
  database: Database,
  { intake, erpKey, entity }: { intake: string; erpKey: string; entity: string | undefined },
  now: Timestamp,
): Promise<void> {
  await database.transaction(async (tx) => {
    const [member] = await tx.query<{ event: string; state: string; source: string; submission: string | null }>(
      `select e.id as event, e.state, e.source, r.submission from bridge.intake_members m
       join bridge.intake_events e on e.id = m.event
       join bridge.intake_records r on r.intake = m.intake and r.erp_key = m.erp_key
       where m.intake = $1 and m.erp_key = $2 and m.live for update of m, e, r`,
      [intake, erpKey],
    );
    if (!member) throw new AppError('not-found', `The intake "${intake}" has no requisition ${erpKey} in an event.`);
    const { event, state, source, submission } = member;
    if (submission !== null || state === 'gathering' || state === 'making')
      throw new AppError('conflict', `The requisition ${erpKey} is being sent: wait for its end.`);
    const concerned = entity === undefined && state !== 'held' ? [erpKey] : await readLive();
    if (entity === undefined) {
      await tx.query('update bridge.intake_members set live = false where event = $1 and erp_key = any($2)', [
        event,
        concerned,
      ]);
      if (state === 'held') await tx.query(`update bridge.intake_events set state = 'failed' where id = $1`, [event]);
    } else {
      const [owner] = await tx.query(
        'select from bridge.intake_events where source = $1 and entity = $2 and id <> $3',
        [source, entity, event],
      );
      if (owner) throw new AppError('conflict', `The event ${entity} is made of other requisitions.`);
      await tx.query(
        `update bridge.intake_events set state = 'made', entity = $2, made = coalesce(made, $3), last_error = null
         where id = $1`,
        [event, entity, now],
      );
      // What it was made of stands with the job that ended uncertain.
      const [job] = await tx.query<{ madeOf: string }>(
        `select made_of as "madeOf" from bridge.intake_submissions
         where event = $1 and kind = 'create' order by created desc limit 1`,
        [event],
      );
      if (job && (await readLots(tx, event)).length === 0)
        await storeLots(tx, event, (JSON.parse(job.madeOf) as MadeOf).lots);
      await markAwards(tx, event, now);
    }
    await tx.query(
      `update bridge.intake_records
       set due = $3, waiting_since = coalesce(waiting_since, $3), action = null, dead_since = null, error_type = null,
         last_error = null, linked = case when $4 then 'new' else 'person' end
       where intake = $1 and erp_key = any($2)`,
      [intake, concerned, now, entity === undefined],
    );

    async function readLive(): Promise<string[]> {
      const rows = await tx.query<{ key: string }>(
        'select erp_key as key from bridge.intake_members where event = $1 and live',
        [event],
      );
      return rows.map(({ key }) => key);
    }
  });
}
