/**
 * The audit log: who did what when, from where, and whether it was allowed. Where the service's log is in the same database
 * and its role may read it, both are shown as one.
 */
import { z } from 'zod';
import { uuid } from '#contract/scalars.ts';
import { findAuditLogs, readAuditLogs } from '#platform/audit-log.ts';
import { type ConsoleApiDeps, pageRows, readCall, requireAllFlows } from './console-call.ts';

const query = z.strictObject({
  name: z.string().max(200).optional(),
  what: z.string().max(100).optional(),
  program: z.enum(['service', 'bridge']).optional(),
  outcome: z.enum(['allowed', 'failed', 'refused']).optional(),
  before: uuid.optional(),
});

export type ActionsAnswer = Awaited<ReturnType<typeof read>>;

async function read({ database }: ConsoleApiDeps, filter: z.output<typeof query>) {
  const { program, ...rest } = filter;
  const programs = (await findAuditLogs(database)).filter((name) => program === undefined || program === name);
  const found = await readAuditLogs(database, programs, { ...rest, limit: pageRows + 1 });
  const actions = found.slice(0, pageRows);
  return { actions, next: found.length > pageRows ? (actions.at(-1)?.id ?? null) : null };
}

export const actionsCall = (deps: ConsoleApiDeps) =>
  readCall('/api/actions', query, ({ viewer, query: filter }) => {
    requireAllFlows(viewer);
    return read(deps, filter);
  });
