/** `bridge actions`: the audit log, latest first: who did what, on which object, from where, when, and whether it was allowed. */
import type { Timestamp } from '#contract/timestamp.ts';
import { type ActionOutcome, type RecordedAction, readActions } from '#platform/audit-log.ts';
import { type BridgeCommandOptions, withBridge } from '../bridge-command.ts';
import { print, shortTime, tableOf } from '../output.ts';

export interface ActionsOptions extends BridgeCommandOptions {
  name?: string;
  what?: string;
  object?: string;
  outcome?: ActionOutcome;
  from?: Timestamp;
  to?: Timestamp;
  before?: string;
  limit: number;
}

/** A page for people; the last line says how to read on. */
export function actionsText(actions: readonly RecordedAction[], next: string | undefined): string {
  const table = tableOf(
    ['when', 'who', 'from', 'what', 'object', 'outcome', 'details'],
    actions.map((action) => [
      shortTime(action.when),
      action.who.kind === 'user' ? action.who.name : `${action.who.name} (${action.who.kind})`,
      action.from,
      action.what,
      action.object,
      action.outcome,
      Object.keys(action.details).length === 0 ? null : JSON.stringify(action.details),
    ]),
    'No actions.',
  );
  return next === undefined ? table : `${table}\nEarlier ones: --before ${next}`;
}

/** With more actions than `--limit`, the last line says how to read on. */
export function runActions(options: ActionsOptions): Promise<number> {
  const { name, what, object, outcome, from, to, before, limit } = options;
  return withBridge(
    options,
    async ({ database }) => {
      const filter = { name, what, object, outcome, from, to, before };
      const found = await readActions(database, 'bridge', { ...filter, limit: limit + 1 });
      const actions = found.slice(0, limit);
      const next = found.length > limit ? actions.at(-1)?.id : undefined;
      print(options, { actions, next: next ?? null }, () => actionsText(actions, next));
      return 0;
    },
    { withoutSecrets: true },
  );
}
