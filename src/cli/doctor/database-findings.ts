/** What the doctor finds in the database: the server, the tables, what is sealed in it, and who works. */
import { pendingBridgeMigrations } from '#bridge/create-bridge.ts';
import { type LiveProcess, readProcesses } from '#bridge/leases/liveness-lock.ts';
import { openKey } from '#bridge/webhooks/webhook-store.ts';
import { type Clock, systemClock } from '#platform/clock.ts';
import type { Database } from '#platform/database/database.ts';
import { errorText } from '#platform/errors.ts';
import type { SecretBox } from '#platform/secrets.ts';
import { type DoctorFinding, fail, ok, warn } from './finding.ts';

const clockWarnSeconds = 2;

export async function findServer(
  database: Database,
  kind: string,
  clock: Clock = systemClock,
): Promise<DoctorFinding[]> {
  const askedMs = clock.nowMs();
  const [server] = await database.query<{ version: string; ms: number; used: number; most: number }>(
    `select current_setting('server_version') as version, extract(epoch from clock_timestamp())::float8 * 1000 as ms,
       (select count(*)::int from pg_stat_activity where backend_type = 'client backend') as used,
       current_setting('max_connections')::int as most`,
  );
  if (!server) return [];
  const tookMs = clock.nowMs() - askedMs;
  const { version, used, most } = server;
  const findings = [ok('database', `PostgreSQL ${version} (${kind}) answers in ${tookMs} ms`)];
  // The answer is of some instant between asking and reading.
  const difference = Math.max(0, Math.abs(server.ms - (askedMs + tookMs / 2)) - tookMs / 2) / 1000;
  const text = `${difference.toFixed(1)} s between the database and this machine`;
  findings.push(
    difference > clockWarnSeconds
      ? warn(
          'database: clock',
          text,
          'Let both take their time from the same servers (NTP): lags and waits are off by that.',
        )
      : ok('database: clock', text),
  );
  findings.push(
    used > 0.9 * most
      ? warn('database: connections', `${used} of ${most} are used`, 'Raise max_connections, or run fewer processes.')
      : ok('database: connections', `${used} of ${most} are used`),
  );
  return findings;
}

export async function findMigrations(database: Database): Promise<DoctorFinding> {
  try {
    const pending = await pendingBridgeMigrations(database);
    if (pending.length === 0) return ok('database: tables', 'as this version needs them');
    return warn(
      'database: tables',
      `older than this version: ${pending.join(', ')} not applied`,
      'The next start of the bridge, or of any other of its commands, applies them.',
    );
  } catch (error) {
    return fail('database: tables', errorText(error), 'Start the version that the tables belong to.');
  }
}

/** Whether the master key opens what is sealed. */
export async function findSealed(database: Database, secrets: SecretBox): Promise<DoctorFinding> {
  const rows = await database.query<{ id: string; secret: Buffer }>(
    'select id, secret from bridge.webhooks where secret is not null',
  );
  let closed = 0;
  for (const row of rows) {
    try {
      openKey(secrets, row);
    } catch {
      closed += 1;
    }
  }
  if (closed === 0) return ok('master key', `opens all ${rows.length} sealed signing keys`);
  return fail(
    'master key',
    `does not open ${closed} of ${rows.length} sealed signing keys`,
    'Set SOURCING_MASTER_KEY (or data_dir/master-key) to the key they were sealed under; if it is lost, replace the keys: bridge webhooks rotate --source <name>.',
  );
}

interface HeldLease {
  name: string;
  holder: number | null;
  expired: boolean;
}

/** The processes that live, and what each of them works on. */
export async function findProcesses(database: Database): Promise<DoctorFinding[]> {
  const processes = await readProcesses(database);
  const leases = await database.query<HeldLease>(
    `select name, holder, expires < clock_timestamp() as expired from bridge.leases where holder is not null order by name`,
  );
  return [...processesFindings(processes), ...leases.map((lease) => leaseFinding(lease, processes))];
}

function processesFindings(processes: readonly LiveProcess[]): DoctorFinding[] {
  if (processes.length === 0)
    return [
      warn(
        'processes',
        'no process of the bridge runs',
        'Start one: npm run -s cli -- bridge. Until then nothing moves.',
      ),
    ];
  const findings = processes.map(({ name, since, address }) =>
    ok('processes', `${name}${address === null ? '' : ` (${address})`}, connected since ${since.slice(0, 19)}Z`),
  );
  const roles = new Set(processes.map(({ name }) => /^bridge-(receive|pull|push) /.exec(name)?.[1] ?? 'all'));
  const missing = roles.has('all') ? [] : ['receive', 'pull', 'push'].filter((role) => !roles.has(role));
  for (const role of missing)
    findings.push(
      warn('processes', `none has the role ${role}`, `Start one: npm run -s cli -- bridge --role ${role}.`),
    );
  return findings;
}

function leaseFinding({ name, holder, expired }: HeldLease, processes: readonly LiveProcess[]): DoctorFinding {
  const by = processes.find(({ id }) => id === holder)?.name;
  const what = `lease ${name}`;
  if (by === undefined) return ok(what, 'its holder is gone: the next process that needs it takes it over');
  if (!expired) return ok(what, `held by ${by}`);
  return warn(
    what,
    `${by} has it, and has not renewed it`,
    'That process stands still or cannot reach the database; another takes over. Restart it if it stays so.',
  );
}
