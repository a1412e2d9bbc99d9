/**
 * A pull as a span. It continues the trace of the notification that it answers; where it answers several, it begins a
 * trace of its own that links to each. The documents that it makes due are delivered in its trace, also by another
 * process: its place is stored.
 */
import type { Database } from '#platform/database/database.ts';
import { telemetryBackend, traced } from '#platform/telemetry.ts';
import { firstIdAt } from '#platform/time-ordered-id.ts';
import type { DuePull } from './feed/checkpoint-store.ts';
import type { Pull } from './pull.ts';

/** More notifications of one pull are not linked. */
const linksMax = 100;
const keptDays = 7;

/** Runs the pull; while telemetry is off, it does nothing else. */
export async function inPullTrace<T>(
  pull: Pick<Pull, 'id' | 'feed' | 'clock'> & { database: Database; due: DuePull },
  work: () => Promise<T>,
): Promise<T> {
  if (!telemetryBackend()) return work();
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
    if (span) await savePullTrace(database, id, span.traceparent, pull.clock.nowMs());
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

/** Also deletes those of a week ago: ids sort by their time. */
async function savePullTrace(database: Database, id: string, trace: string, nowMs: number): Promise<void> {
  await database.query('insert into bridge.pull_traces (pull, trace) values ($1, $2) on conflict do nothing', [
    id,
    trace,
  ]);
  await database.query('delete from bridge.pull_traces where pull < $1', [firstIdAt(nowMs - keptDays * 86_400_000)]);
}

/** Returns the places of these pulls in their traces, by the pull's id. */
export async function readPullTraces(database: Database, pulls: readonly string[]): Promise<Map<string, string>> {
  const rows = await database.query<{ pull: string; trace: string }>(
    'select pull, trace from bridge.pull_traces where pull = any($1::uuid[])',
    [pulls],
  );
  return new Map(rows.map(({ pull, trace }) => [pull, trace]));
}
