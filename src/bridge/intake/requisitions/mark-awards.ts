/**
 * Marks what was made of an event or request before the bridge knew that it is of requisitions. A buyer may award an event
 * while the bridge still finds out whether its job has made it: the award's document names no requisition then, and is
 * made again once it can.
 */
import { bodyJson } from '#bridge/mirror/body-json.ts';
import { markDocumentsOfEvents } from '#bridge/mirror/due/mark-documents.ts';
import { lockSources } from '#bridge/mirror/due/source-lock.ts';
import type { Timestamp } from '#contract/timestamp.ts';
import type { Sql } from '#platform/database/sql.ts';

/** Call it in the transaction that has stored the lots of the intake's event. */
export async function markAwards(tx: Sql, event: string, now: Timestamp): Promise<void> {
  const [made] = await tx.query<{ source: string; entity: string | null; make: string; created: Timestamp }>(
    'select source, entity, make, created from bridge.intake_events where id = $1',
    [event],
  );
  if (!made || made.entity === null) return;
  const { source, entity, make, created } = made;
  // A document that is being marked now is seen afterwards.
  await lockSources(tx, [source]);
  if (make !== 'request') return markDocumentsOfEvents(tx, { source }, [entity], now);
  const served = await tx.query<{ event: string }>(
    `select distinct sourcing_event as event from bridge.mirror
     where source = $1 and feed = 'awards' and modified >= $3::timestamptz - interval '5 minutes'
       and sourcing_event is not null and ${bodyJson('body')} ->> 'sourcing_request' = $2`,
    [source, entity, created],
  );
  const events = served.map(({ event: id }) => id);
  if (events.length > 0) await markDocumentsOfEvents(tx, { source }, events, now);
}
