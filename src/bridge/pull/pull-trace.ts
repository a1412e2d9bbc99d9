/**
 * A pull as a span. It continues the trace of the notification that it answers; where it answers several, it begins a
 * trace of its own that links to each. The documents that it makes due are delivered in its trace, also by another
 * process: its place is stored.
 */
import { savePullTrace } from '#bridge/mirror/pull-traces.ts';
import type { Database } from '#platform/database/database.ts';
import { isTraced, traced, traceparentOf } from '#platform/telemetry.ts';
import type { DuePull } from './feed/checkpoint-store.ts';
import type { Pull } from './pull.ts';

/** More notifications of one pull are not linked. */
const linksMax = 100;

/** Runs the pull; without an SDK of OpenTelemetry, it does nothing else. */
export async function inPullTrace<T>(
  pull: Pick<Pull, 'id' | 'feed' | 'clock'> & { database: Database; due: DuePull },
  work: () => Promise<T>,
): Promise<T> {
  if (!isTraced()) return work();
  const { id, feed, due, database } = pull;
  const traces = await readNotificationTraces(pull);
  const [only] = traces;
  const attributes = {
    'sourcing.source': feed.source,
    'sourcing.feed': feed.feed,
    'sourcing.pull': id,
    'sourcing.scheduled': due.scheduled,
  };
  const place = traces.length === 1 && only !== undefined ? { parent: only } : { parent: null, links: traces };
  return traced(`pull ${feed.feed}`, { kind: 'consumer', attributes, ...place }, async (span) => {
    const traceparent = traceparentOf(span);
    if (traceparent !== undefined) await savePullTrace(database, id, traceparent, pull.clock.nowMs());
    return work();
  });
}

async function readNotificationTraces({
  feed,
  due,
  database,
}: Parameters<typeof inPullTrace>[0]): Promise<readonly string[]> {
  if (due.lastNotification === null) return [];
  const rows = await database.query<{ trace: string }>(
    `select distinct trace from (
       select trace from bridge.inbox where source = $1 and feed = $2 and id > $3 and id <= $4
       order by id desc limit ${linksMax}) latest where trace is not null`,
    [feed.source, feed.feed, due.answered, due.lastNotification],
  );
  return rows.map(({ trace }) => trace);
}
