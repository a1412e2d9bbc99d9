/**
 * What the history costs the push: awards of five lines from the mirror into the tables of the postgres connector, by the
 * pusher as it is, against the same pusher whose statements for the history are left out. In turns, each with a new
 * version of every award. Processor time and bytes of the log say more than the time where other programs run.
 * BENCH_DOCUMENTS: how many instead of 1,000.
 */
import { readFileSync } from 'node:fs';
import { openFlows } from '#bridge/flows/open-flows.ts';
import { registerFlows } from '#bridge/flows/register-flows.ts';
import { createLeases } from '#bridge/leases/lease.ts';
import { createLivenessLock } from '#bridge/leases/liveness-lock.ts';
import { createProcessIdentity } from '#bridge/leases/process-identity.ts';
import { migrateBridge } from '#bridge/migrate-bridge.ts';
import { storeRecords } from '#bridge/mirror/store-records.ts';
import { createFlowPush } from '#bridge/push/push-flow.ts';
import { bridgeSettings } from '#bridge/settings.ts';
import type { Installation } from '#cli/installation.ts';
import { systemClock, timestampNow } from '#platform/clock.ts';
import type { Database } from '#platform/database/database.ts';
import type { Sql } from '#platform/database/sql.ts';
import { silentLogger } from '#platform/log.ts';
import { Counter, Registry } from '#platform/metrics.ts';
import { median, printTable } from './figures.ts';

const documentCount = Number(process.env['BENCH_DOCUMENTS'] ?? 1_000);
const rounds = 9;
const suppliersEach = 5;
const lotsEach = 5;

/** Prints awards per second on both sides, and what the history adds. */
export async function benchPushHistory({ open, dataDir }: Installation): Promise<void> {
  const { database, url } = open;
  await migrateBridge(database);
  const settings = bridgeSettings.parse({
    sources: [{ name: 'main', base_url: 'http://127.0.0.1:1', api_key: 'key' }],
    flows: [{ name: 'erp', source: 'main', connector: 'postgres', settings: { url, schema: 'erp' } }],
  });
  await using opened = new AsyncDisposableStack();
  const [openFlow] = await openFlows({ settings, dataDir, log: silentLogger, clock: systemClock }, opened);
  if (!openFlow) throw new Error('no flow');
  await registerFlows(database, settings.flows, timestampNow(systemClock));
  const liveness = await createLivenessLock({ database, log: silentLogger });
  opened.defer(() => liveness.close());
  const pushOn = (pushed: Database) =>
    createFlowPush({
      ...openFlow,
      database: pushed,
      acquireLease: createLeases({ database: pushed, liveness }),
      clock: systemClock,
      processIdentity: createProcessIdentity(),
      log: silentLogger,
      outcomes: new Counter({ name: 'o', help: 'o', labelNames: ['flow', 'status'], registers: [new Registry()] }),
    });
  /** How long the statements of the history took. A turn that another program slows down slows both alike. */
  const spent = { attempts: 0, versions: 0 };
  const sides = {
    with: pushOn(measured(database, spent)),
    // What was delivered last is kept anyway, so that `plan` can say what differs: only the attempts are new.
    versions: pushOn(without(database, /insert into bridge\.attempts/)),
    without: pushOn(without(database, /insert into bridge\.(attempts|document_versions)/)),
  };
  const never = new AbortController().signal;
  const costs = { with: [] as Cost[], versions: [] as Cost[], without: [] as Cost[] };
  let version = 0;
  const turn = async (side: keyof typeof sides): Promise<Cost> => {
    version += 1;
    await storeAwards(database, version);
    await database.query('analyze bridge.mirror, bridge.flow_documents');
    // Otherwise it depends on the turn how many pages are written to the log as a whole.
    await database.query('checkpoint');
    const before = await costNow(database);
    await sides[side](never);
    const after = await costNow(database);
    const [left] = await database.query<{ count: number }>(
      'select count(*)::int as count from bridge.flow_documents where due is not null',
    );
    if (left?.count !== 0) throw new Error(`${left?.count} documents are still due`);
    return { ms: after.ms - before.ms, cpuMs: after.cpuMs - before.cpuMs, walBytes: after.walBytes - before.walBytes };
  };
  for (let round = -1; round < rounds; round += 1)
    for (const side of orders[(round + 3) % 3] ?? orders[0]) {
      const cost = await turn(side);
      if (round >= 0) costs[side].push(cost);
      else Object.assign(spent, { attempts: 0, versions: 0 });
    }
  const [kept] = await database.query<{ attempts: number; bytes: number; versions: number }>(
    `select (select count(*)::int from bridge.attempts) as attempts,
       pg_total_relation_size('bridge.attempts')::float8 as bytes,
       pg_total_relation_size('bridge.document_versions')::float8 as versions`,
  );
  const of = (side: keyof typeof sides, what: keyof Cost) => median(costs[side].map((cost) => cost[what]));
  const each = (what: keyof Cost, unit: string, digits = 0) =>
    (['without', 'versions', 'with'] as const).map(
      (side) => `${(of(side, what) / documentCount).toFixed(digits)} ${unit}`,
    );
  const ratioTo = (side: keyof typeof sides, what: keyof Cost) =>
    median(costs.with.map((cost, index) => cost[what] / (costs[side][index]?.[what] ?? 1))).toFixed(3);
  console.log(
    `Pushing ${documentCount.toLocaleString('en')} changed awards of ${lotsEach} lines, ${rounds} pairs of turns`,
  );
  printTable([
    ['for each award', 'neither', 'what was sent', 'and attempts', 'all : neither', 'all : what was sent'],
    ['time', ...each('ms', 'ms', 2), ratioTo('without', 'ms'), ratioTo('versions', 'ms')],
    ['processor', ...each('cpuMs', 'ms', 2), ratioTo('without', 'cpuMs'), ratioTo('versions', 'cpuMs')],
    [
      'log of the database',
      ...each('walBytes', 'bytes'),
      ratioTo('without', 'walBytes'),
      ratioTo('versions', 'walBytes'),
    ],
  ]);
  const total = costs.with.reduce((sum, { ms }) => sum + ms, 0);
  const share = (ms: number) => `${((ms / total) * 100).toFixed(1)} %`;
  console.log(
    `  of the time of the push, the statement for attempts took ${share(spent.attempts)}, that for what was sent ${share(spent.versions)}`,
  );
  const size = (bytes: number) => `${Math.round(bytes / (kept?.attempts ?? 1))} bytes`;
  console.log(
    `  an attempt takes ${size(kept?.bytes ?? 0)}, what was sent with it ${size(kept?.versions ?? 0)}, indexes included\n`,
  );
}

interface Cost {
  readonly ms: number;
  /** Of this process and of the database's; another program that runs changes it little. */
  readonly cpuMs: number;
  readonly walBytes: number;
}

async function costNow(database: Database): Promise<Cost> {
  const [row] = await database.query<{ bytes: number; pids: number[] }>(
    `select (pg_current_wal_insert_lsn() - '0/0')::float8 as bytes,
       array(select pid from pg_stat_activity where datname = current_database()) as pids`,
  );
  const own = process.cpuUsage();
  const cpuMs = (own.user + own.system) / 1_000 + sum((row?.pids ?? []).map(cpuMsOf));
  return { ms: performance.now(), cpuMs, walBytes: row?.bytes ?? 0 };
}

/** The processor time of a process of this machine; 0 where it is not known. */
function cpuMsOf(pid: number): number {
  try {
    // User and system time in hundredths of a second, after the name in brackets.
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8')
      .replace(/^.*\) /s, '')
      .split(' ');
    return (Number(fields[11]) + Number(fields[12])) * 10;
  } catch {
    return 0;
  }
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}

const orders = [
  ['with', 'versions', 'without'],
  ['versions', 'without', 'with'],
  ['without', 'with', 'versions'],
] as const;

/** Adds up how long the statements of the history take. */
function measured(database: Database, spent: { attempts: number; versions: number }): Database {
  const timed = (sql: Sql): Sql => ({
    copy: (into, rows) => sql.copy(into, rows),
    query: async (statement, params) => {
      const text = typeof statement === 'string' ? statement : statement.text;
      const part = text.includes('into bridge.attempts')
        ? 'attempts'
        : text.includes('into bridge.document_versions')
          ? 'versions'
          : undefined;
      const began = performance.now();
      const rows = await sql.query(statement, params);
      if (part) spent[part] += performance.now() - began;
      return rows as never;
    },
  });
  return { ...database, transaction: (work) => database.transaction((tx) => work(timed(tx))) };
}

/** Statements of this pattern are answered without being sent. */
function without(database: Database, pattern: RegExp): Database {
  const filtered = (sql: Sql): Sql => ({
    copy: (into, rows) => sql.copy(into, rows),
    query: async (statement, params) =>
      pattern.test(typeof statement === 'string' ? statement : statement.text) ? [] : sql.query(statement, params),
  });
  return { ...database, transaction: (work) => database.transaction((tx) => work(filtered(tx))) };
}

const uuid = (space: number, n: number) =>
  `00000000-0000-4000-8${space.toString().padStart(3, '0')}-${n.toString(16).padStart(12, '0')}`;

/** New versions of all awards: every event has five suppliers, and each wins a share of each lot. */
async function storeAwards(database: Database, version: number): Promise<void> {
  const events = documentCount / suppliersEach;
  const modified = `2030-01-01T00:00:00.${String(version).padStart(6, '0')}Z`;
  const suppliers = Array.from({ length: suppliersEach }, (_, n) => ({
    id: uuid(1, n),
    name: `Supplier "${n}" of forged parts`,
    external_id: `SUP-${n}`,
  }));
  for (let from = 0; from < events; from += 50) {
    const some = Array.from({ length: Math.min(50, events - from) }, (_, index) => from + index);
    const now = timestampNow(systemClock);
    const store = (feed: 'sourcing-events' | 'awards', records: Record<string, unknown>[]) =>
      database.transaction((tx) => storeRecords(tx, { source: 'main', feed, records, now }));
    if (version === 1)
      await store(
        'sourcing-events',
        some.map((n) => ({
          id: uuid(2, n),
          name: `RFQ ${n}: forged steel flanges`,
          reference_id: `RFQ-${n}`,
          type: 'RFQ',
          status: 'CLOSED',
          primary_currency: 'EUR',
          modified,
          suppliers,
        })),
      );
    await store(
      'awards',
      some.flatMap((n) => Array.from({ length: lotsEach }, (_, lot) => awardOf(n, lot, { version, modified }))),
    );
  }
}

function awardOf(event: number, lot: number, { version, modified }: { version: number; modified: string }) {
  return {
    id: uuid(3, event * lotsEach + lot),
    sourcing_event: uuid(2, event),
    lot_name: `Lot ${lot}: forged steel flange, DN ${50 + lot * 25}, "EN 1092-1"`,
    scenario_name: 'Best price',
    modified,
    awards: Array.from({ length: suppliersEach }, (_, supplier) => ({
      supplier: uuid(1, supplier),
      share_awarded: '0.2',
      cost: `${event + version}.67`,
      bid_sheet_values: Array.from({ length: 6 }, (_cell, cell) => ({
        column_name: `Column ${cell}`,
        value: cell === 5 ? 'Packed in crates of 20, certificate 3.1' : `${(event * 7919 + cell) % 10_000}`,
      })),
    })),
  };
}
