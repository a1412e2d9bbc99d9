/**
 * Tells the log what other processes have done to the flows: an operator pauses or resumes from a command. What this
 * process does itself, it logs at once.
 */
import type { FlowSettings } from '#bridge/settings/settings.ts';
import type { Timestamp } from '#contract/timestamp.ts';
import type { Sql } from '#platform/database/sql.ts';
import type { Logger } from '#platform/log.ts';

interface SeenFlow {
  readonly flow: string;
  readonly kind: string | null;
  readonly reason: string | null;
  readonly since: Timestamp | null;
}

/**
 * Returns a function that compares the pauses of these flows with those that it saw last, and logs what differs. Its
 * first call logs the pauses that it finds.
 */
export function createFlowWatch(deps: { database: Sql; log: Logger; flows: readonly FlowSettings[] }) {
  const { database, log } = deps;
  const names = deps.flows.map(({ name }) => name);
  let before = new Map<string, SeenFlow>();
  let isFirst = true;
  return async (): Promise<void> => {
    const rows = await database.query<SeenFlow>(
      `select name as flow, paused_kind as kind, paused_reason as reason, paused_at as since
       from bridge.flows where name = any($1)`,
      [names],
    );
    for (const { flow, kind, reason, since } of rows) {
      const was = before.get(flow)?.reason ?? null;
      const facts = { flow, state: reason === null ? 'running' : 'paused', pause: kind, since };
      if (reason === null && was !== null) log.info(facts, 'flow resumed');
      // The pauses that this process makes are logged when it makes them.
      else if (reason !== null && was === null && (isFirst || kind === 'operator'))
        log.warn(facts, `flow paused: ${reason}`);
    }
    before = new Map(rows.map((row) => [row.flow, row]));
    isFirst = false;
  };
}
