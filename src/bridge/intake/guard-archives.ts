import { guardHours } from '#bridge/ledger/flows/agreements.ts';
import type { IntakeSettings } from '#bridge/settings/intake-settings.ts';
import { msFromTimestamp, type Timestamp, timestampFromMs } from '#contract/timestamp.ts';
import type { Sql } from '#platform/database/sql.ts';

/** SQL: the record `r` waits to be archived, and no person has agreed to it in `bridge.intakes i`. */
const isWaiting = `r.action = 'archive' and r.submission is null and r.dead_since is null
          and (r.waiting_since <= i.archives_agreed) is not true`;

/**
 * Returns why no supplier may be archived now; undefined when they may. Those that wait and those that were archived
 * within the last `guardHours`, may have been, or are in a submission that has not ended, are counted together, each
 * once. Those to which a person has agreed are not counted.
 */
export async function guardArchives(tx: Sql, intake: IntakeSettings, now: Timestamp): Promise<string | undefined> {
  const { most, share } = intake.archive;
  const since = timestampFromMs(msFromTimestamp(now) - guardHours * 3_600_000);
  const [counted] = await tx.query<{ waiting: number; archived: number; all: number }>(
    `select
       (select count(*)::int from bridge.intake_records r
        where r.intake = i.name and ${isWaiting}) as waiting,
       (select count(*)::int from bridge.intake_records r
        where r.intake = i.name
          and (r.archived_at > $2 and (${isWaiting}) is not true
            or r.submission is not null and r.change::json ->> 'archived' = 'true'
              and (r.waiting_since <= i.archives_agreed) is not true)) as archived,
       (select count(*)::int from bridge.intake_records r where r.intake = i.name and r.key is not null) as all
     from bridge.intakes i where i.name = $1`,
    [intake.name, since],
  );
  const { waiting = 0, archived = 0, all = 0 } = counted ?? {};
  const number = waiting + archived;
  if (waiting === 0 || number <= most || number <= share * all) return undefined;
  const before = archived === 0 ? '' : ` (${archived} were archived within the last ${guardHours} h)`;
  return (
    `${waiting} of ${all} suppliers are to be archived at once${before}. ` +
    `If that is right, agree to it: bridge resume ${intake.name} --agree`
  );
}
