/** Where the pulls of the last days stand in their traces: the documents that they make due are delivered in them. */
import type { Database } from '#platform/database/database.ts';
import { firstIdAt } from '#platform/time-ordered-id.ts';

const keptDays = 7;

/** Also deletes those of a week ago: ids sort by their time. */
export async function savePullTrace(database: Database, id: string, trace: string, nowMs: number): Promise<void> {
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
