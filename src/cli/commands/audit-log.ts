/**
 * `audit-log`: who did what in the service and the bridge, latest first, of all logs that the database has and its role may
 * read. With `--jsonl` all that fits, one JSON object a line, for a program that keeps it elsewhere.
 */
import { once } from 'node:events';
import { type ActionFilter, type AuditedProgram, findAuditLogs, readAuditLogs } from '#platform/audit-log.ts';
import type { Sql } from '#platform/database/sql.ts';
import { AppError } from '#platform/errors.ts';
import { openInstallation } from '../installation.ts';
import { readCommandConfiguration } from '../local-settings.ts';
import { print } from '../output.ts';
import { type ActionsOptions, actionsText } from './bridge-actions.ts';

export interface AuditLogOptions extends ActionsOptions {
  program?: AuditedProgram;
  jsonl?: boolean;
}

const pageMax = 1_000;

/** Throws an AppError `invalid` when there is no log to be read. */
export async function runAuditLog(options: AuditLogOptions): Promise<number> {
  const configuration = await readCommandConfiguration(options, { withoutSecrets: true });
  await using opened = new AsyncDisposableStack();
  const installation = await openInstallation(configuration, { name: 'audit-log', logLevel: 'error', existing: true });
  opened.defer(() => installation.close());
  const { database } = installation.open;
  const programs = await logsOf(database, options.program);
  const { name, what, object, outcome, from, to, before, limit } = options;
  const filter = { name, what, object, outcome, from, to, before };
  if (options.jsonl) {
    await writeLines(database, programs, filter);
    return 0;
  }
  const found = await readAuditLogs(database, programs, { ...filter, limit: limit + 1 });
  const actions = found.slice(0, limit);
  const next = found.length > limit ? actions.at(-1)?.id : undefined;
  print(options, { actions, next: next ?? null }, () => actionsText(actions, next));
  return 0;
}

async function logsOf(sql: Sql, wanted: AuditedProgram | undefined): Promise<AuditedProgram[]> {
  const found = (await findAuditLogs(sql)).filter((program) => wanted === undefined || program === wanted);
  if (found.length > 0) return found;
  throw new AppError(
    'invalid',
    `This database has no audit log${wanted === undefined ? '' : ` of the ${wanted}`} that its role may read. Start the ` +
      'program first, which makes it, or name its database.',
  );
}

/** Writes page by page, as fast as the reader takes them. */
async function writeLines(
  sql: Sql,
  programs: readonly AuditedProgram[],
  filter: Omit<ActionFilter, 'limit'>,
): Promise<void> {
  let { before } = filter;
  for (;;) {
    const page = await readAuditLogs(sql, programs, { ...filter, before, limit: pageMax });
    const lines = page.map((action) => `${JSON.stringify(action)}\n`).join('');
    if (lines !== '' && !process.stdout.write(lines)) await once(process.stdout, 'drain');
    before = page.at(-1)?.id;
    if (page.length < pageMax) return;
  }
}
