/** The audit log: who did what when, from where, and whether it was allowed. */
import { z } from 'zod';
import { uuid } from '#contract/scalars.ts';
import { readActions } from '#platform/audit-log.ts';
import { type ConsoleApiDeps, pageRows, readCall, requireAllFlows } from './console-call.ts';

const query = z.strictObject({
  name: z.string().max(200).optional(),
  what: z.string().max(100).optional(),
  outcome: z.enum(['allowed', 'failed', 'refused']).optional(),
  before: uuid.optional(),
});

export type ActionsAnswer = Awaited<ReturnType<typeof read>>;

async function read({ database }: ConsoleApiDeps, filter: z.output<typeof query>) {
  const found = await readActions(database, 'bridge', { ...filter, limit: pageRows + 1 });
  const actions = found.slice(0, pageRows);
  return { actions, next: found.length > pageRows ? (actions.at(-1)?.id ?? null) : null };
}

export const actionsCall = (deps: ConsoleApiDeps) =>
  readCall('/api/actions', query, ({ viewer, query: filter }) => {
    requireAllFlows(viewer);
    return read(deps, filter);
  });
