/**
 * `audit-log`: who did what in the service and the bridge, latest first, of all logs that the database has and its role may
 * read. With `--jsonl` all that fits, one JSON object a line, for a program that keeps it elsewhere. With `--verify` it says
 * whether the chain of each log is whole; exit code 1 when one is broken.
 */
import { once } from 'node:events';
import type { Timestamp } from '#contract/timestamp.ts';
import {
  type ActionFilter,
  type ActionOutcome,
  type AuditedProgram,
  findAuditLogs,
  type RecordedAction,
  readAuditLogs,
  type VerifiedChain,
  verifyChain,
} from '#platform/audit-log.ts';
import type { Sql } from '#platform/database/sql.ts';
import { AppError } from '#platform/errors.ts';
import type { BridgeCommandOptions } from '../bridge-command.ts';
import { openInstallation } from '../installation.ts';
import { readCommandConfiguration } from '../local-settings.ts';
import { moreText, print, shortTime, tableOf } from '../output.ts';

export interface AuditLogOptions extends BridgeCommandOptions {
  name?: string;
  what?: string;
  object?: string;
  outcome?: ActionOutcome;
  from?: Timestamp;
  to?: Timestamp;
  limit: number;
  program?: AuditedProgram;
  jsonl?: boolean;
  verify?: boolean;
}

const pageMax = 1_000;

function actionsText(actions: readonly RecordedAction[], hasMore: boolean): string {
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
  return hasMore ? `${table}\n${moreText}` : table;
}

/** Throws an AppError `invalid` when there is no log to be read. */
export async function runAuditLog(options: AuditLogOptions): Promise<number> {
  const configuration = await readCommandConfiguration(options, { withoutSecrets: true });
  await using opened = new AsyncDisposableStack();
  const installation = await openInstallation(configuration, { name: 'audit-log', logLevel: 'error', existing: true });
  opened.defer(() => installation.close());
  const { database } = installation.open;
  const programs = await logsOf(database, options.program);
  if (options.verify) return await verify(options, database, programs);
  const { name, what, object, outcome, from, to, limit } = options;
  const filter = { name, what, object, outcome, from, to };
  if (options.jsonl) {
    await writeLines(database, programs, filter);
    return 0;
  }
  const found = await readAuditLogs(database, programs, { ...filter, limit: limit + 1 });
  const actions = found.slice(0, limit);
  const hasMore = found.length > limit;
  print(options, { actions, hasMore }, () => actionsText(actions, hasMore));
  return 0;
}

async function verify(options: AuditLogOptions, sql: Sql, programs: readonly AuditedProgram[]): Promise<number> {
  const chains: ({ program: AuditedProgram } & VerifiedChain)[] = [];
  for (const program of programs) chains.push({ program, ...(await verifyChain(sql, program)) });
  print(options, { chains }, () => chains.map(chainText).join('\n'));
  return chains.some(({ broken }) => broken !== null) ? 1 : 0;
}

function chainText({ program, entries, erased, last, broken }: { program: AuditedProgram } & VerifiedChain): string {
  if (broken)
    return `${program}: the chain breaks at entry ${broken.number} (${broken.id}): ${broken.why}. Compare it with an export (--jsonl) of before.`;
  const marks = erased === 0 ? '' : `; ${erased} of them have the mark of an erased person`;
  return last === null
    ? `${program}: no entry is linked yet; a running program does it within seconds.`
    : `${program}: ${entries} entries are whole${marks}. The last is number ${last.number} with the hash ${last.hash}: keep that elsewhere.`;
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
  filter: Omit<ActionFilter, 'limit' | 'before'>,
): Promise<void> {
  let before: string | undefined;
  for (;;) {
    const page = await readAuditLogs(sql, programs, { ...filter, before, limit: pageMax });
    const lines = page.map((action) => `${JSON.stringify(action)}\n`).join('');
    if (lines !== '' && !process.stdout.write(lines)) await once(process.stdout, 'drain');
    before = page.at(-1)?.id;
    if (page.length < pageMax) return;
  }
}
