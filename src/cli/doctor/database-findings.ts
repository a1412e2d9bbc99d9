/**
 * What the doctor finds in the database: the server, the tables, the sealed keys and the live processes.
 */

import { readProcesses } from '#bridge/ledger/leases/liveness.ts';
import { pendingBridgeMigrations } from '#bridge/migrate-bridge.ts';
import { openKey } from '#bridge/receive/webhook-store.ts';
import type { BridgeSettings } from '#bridge/settings/settings.ts';
import { type Clock, systemClock } from '#platform/clock.ts';
import type { Database } from '#platform/database/database.ts';
import { errorText } from '#platform/errors.ts';
import { commandLine } from '#platform/own-package.ts';
import type { SecretBox } from '#platform/secrets.ts';
import { type DoctorFinding, fail, ok, warn } from './finding.ts';

const clockWarnSeconds = 2;
const connectionsWarnShare = 0.9;

/** The server's version and answer time, the difference of its clock, and how many connections are in use. */
export async function findServer(
  database: Database,
  kind: string,
  clock: Clock = systemClock,
): Promise<DoctorFinding[]> {
  const askedMs = clock.nowMs();
  const [server] = await database.query<{ version: string; clockMs: number; used: number; max: number }>(
    `select current_setting('server_version') as version,
       extract(epoch from clock_timestamp())::float8 * 1000 as "clockMs",
       (select count(*)::int from pg_stat_activity where backend_type = 'client backend') as used,
       current_setting('max_connections')::int as max`,
  );
  if (!server) return [];
  const tookMs = clock.nowMs() - askedMs;
  const { version, used, max } = server;
  const findings = [ok('database', `PostgreSQL ${version} (${kind}) answers in ${tookMs} ms`)];
  // The server has read its clock at some instant between the question and the answer.
  const difference = Math.max(0, Math.abs(server.clockMs - (askedMs + tookMs / 2)) - tookMs / 2) / 1000;
  const text = `${difference.toFixed(1)} s between the database and this machine`;
  findings.push(
    difference > clockWarnSeconds
      ? warn(
          'database: clock',
          text,
          "Set both clocks by the same time servers (NTP). What is due goes by the database's; certificates go by this machine's.",
        )
      : ok('database: clock', text),
  );
  findings.push(
    used > connectionsWarnShare * max
      ? warn('database: connections', `${used} of ${max} are used`, 'Raise max_connections, or run fewer processes.')
      : ok('database: connections', `${used} of ${max} are used`),
  );
  return findings;
}

/** Whether the tables are those of this version; changes nothing. */
export async function findMigrations(database: Database): Promise<DoctorFinding> {
  try {
    const pending = await pendingBridgeMigrations(database);
    if (pending.length === 0) return ok('database: tables', 'as this version needs them');
    return warn(
      'database: tables',
      `older than this version: ${pending.join(', ')} not applied`,
      'The next start of the bridge, or its next other command, applies them.',
    );
  } catch (error) {
    return fail('database: tables', errorText(error), 'The message names the cure.');
  }
}

/** Whether the master key opens the sealed signing keys. */
export async function findSealed(database: Database, secrets: SecretBox): Promise<DoctorFinding> {
  const rows = await database.query<{ id: string; secret: Buffer }>(
    'select id, secret from bridge.webhooks where secret is not null',
  );
  let unreadable = 0;
  for (const row of rows) {
    try {
      openKey(secrets, row);
    } catch {
      unreadable += 1;
    }
  }
  if (unreadable === 0) return ok('master key', `opens all ${rows.length} sealed signing keys`);
  return fail(
    'master key',
    `does not open ${unreadable} of ${rows.length} sealed signing keys`,
    'Set SOURCING_MASTER_KEY (or the file master-key in the data folder) to the master key that sealed them. If it is ' +
      'lost, replace the signing keys: bridge webhooks rotate --source <name>.',
  );
}

/** The live processes of the bridge, and the roles that none of them has. */
export async function findProcesses(
  database: Database,
  { intakes }: Pick<BridgeSettings, 'intakes'>,
): Promise<DoctorFinding[]> {
  const processes = await readProcesses(database);
  if (processes.length === 0)
    return [
      warn(
        'processes',
        'no process of the bridge runs',
        `Start one: ${commandLine} bridge. Until then nothing is read or delivered.`,
      ),
    ];
  const findings = processes.map(({ name, since }) => ok('processes', `${name}, started ${since.slice(0, 19)}Z`));
  const roles = new Set(
    processes.map(({ name }) => /^bridge-(receive|pull|push|intake|console) /.exec(name)?.[1] ?? 'all'),
  );
  const wanted = ['receive', 'pull', 'push', ...(intakes.length > 0 ? ['intake'] : [])];
  const missing = roles.has('all') ? [] : wanted.filter((role) => !roles.has(role));
  for (const role of missing)
    findings.push(warn('processes', `none has the role ${role}`, `Start one: ${commandLine} bridge --role ${role}.`));
  return findings;
}
