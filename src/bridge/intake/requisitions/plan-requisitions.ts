/** Which events an intake would make or update now, for a person; changes nothing. */
import type { Timestamp } from '#contract/timestamp.ts';
import type { Sql } from '#platform/database/sql.ts';
import type { IntakeDeps } from '../intake-deps.ts';
import { wishOfBody } from './compare-requisitions.ts';
import { bodyOf } from './event-payload.ts';
import { readMembers } from './event-store.ts';

export interface PlannedEvent {
  readonly action: 'create' | 'update';
  readonly name: string;
  readonly lots: number;
  readonly requisitions: readonly string[];
  /** From when on it is made. */
  readonly ready: Timestamp;
}

/** Returns the events, the next one first. An update shows what its requisitions want of the event. */
export async function planRequisitions(
  sql: Sql,
  deps: Pick<IntakeDeps, 'intake' | 'wishOf'>,
  limit: number,
): Promise<PlannedEvent[]> {
  const events = await sql.query<{ id: string; action: 'create' | 'update'; ready: Timestamp }>(
    `select e.id, case when e.state = 'gathering' then 'create' else 'update' end as action,
       case when e.state = 'gathering' then e.ready else e.update_due end as ready
     from bridge.intake_events e
     where e.intake = $1 and (e.state = 'gathering' or e.state = 'made' and e.update_due is not null)
     order by 3, e.created, e.id limit $2`,
    [deps.intake.name, limit],
  );
  const planned: PlannedEvent[] = [];
  for (const { id, action, ready } of events) {
    const wanted = (await readMembers(sql, id)).flatMap((member) => {
      const wish = wishOfBody(deps.wishOf, member.body);
      return wish.is === 'wanted' ? [{ ...member, ...wish }] : [];
    });
    const { content } = bodyOf(deps, wanted);
    const requisitions = wanted.map(({ erpKey }) => erpKey);
    planned.push({ action, name: content.name, lots: content.lots.length, requisitions, ready });
  }
  return planned;
}
