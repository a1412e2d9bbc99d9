/**
 * What the history costs the push: awards of five lines from the mirror into the tables of the postgres connector, by the
 * pusher as it is, against the same pusher whose statements for the history are left out. In turns, each with a new
 * version of every award. Processor time and bytes of the log say more than the time where other programs run.
 * BENCH_DOCUMENTS: how many instead of 1,000.
 */
import { readFileSync } from 'node:fs';
import type { Installation } from '#cli/installation.ts';
import type { Database } from '#platform/database/database.ts';
import type { Sql } from '#platform/database/sql.ts';
import { expectAllPushed, lotsEach, openAwardPush, storeAwards } from './award-push.ts';
import { median, printTable } from './figures.ts';

const documentCount = Number(process.env['BENCH_DOCUMENTS'] ?? 1_000);
const rounds = 9;

/** Prints awards per second on both sides, and what the history adds. */
export async function benchPushHistory(installation: Installation): Promise<void> {
  const { database } = installation.open;
  await using opened = new AsyncDisposableStack();
  const { pushOn } = await openAwardPush(installation, opened);
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
    await storeAwards(database, { version, documents: documentCount });
    await database.query('analyze bridge.mirror, bridge.flow_documents');
    const before = await costNow(database);
    await sides[side](never);
    const after = await costNow(database);
    await expectAllPushed(database);
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
    query: async (statement, params) =>
      pattern.test(typeof statement === 'string' ? statement : statement.text) ? [] : sql.query(statement, params),
  });
  return { ...database, transaction: (work) => database.transaction((tx) => work(filtered(tx))) };
}
