/**
 * `bridge doctor`: everything that a support engineer would ask for, each as a line that is ok, warn or fail, with what
 * to do. It continues when a part is not available, and works before the first start: it makes the tables where there are
 * none. Else it changes nothing but the profiles of the feeds that it probes. Exit code 1 when a line fails.
 */
import { checkNames } from '#bridge/check-names.ts';
import { migrateBridge } from '#bridge/migrate-bridge.ts';
import { readStatus } from '#bridge/operate/status/status.ts';
import { timestampNow } from '#platform/clock.ts';
import type { Database } from '#platform/database/database.ts';
import { AppError, errorText } from '#platform/errors.ts';
import { type BridgeCommand, type BridgeCommandOptions, withBridge } from '../bridge-command.ts';
import { findCertificates } from '../doctor/certificate-findings.ts';
import { findConsole } from '../doctor/console-findings.ts';
import { findMigrations, findProcesses, findSealed, findServer } from '../doctor/database-findings.ts';
import { type DoctorFinding, fail, ok, warn } from '../doctor/finding.ts';
import { findConnector, findIntakeConnector, findMapping } from '../doctor/flow-findings.ts';
import { findDisk, findEndpoint, findVersions } from '../doctor/machine-findings.ts';
import { findIntakeSource, findJobs, probeFeed } from '../doctor/probe-findings.ts';
import { findQueue } from '../doctor/queue-findings.ts';
import { checkSource, findNotifications, findRefusals } from '../doctor/source-findings.ts';
import { findWebhooks } from '../doctor/webhook-findings.ts';
import { findWork } from '../doctor/work-findings.ts';
import { findWrites } from '../doctor/write-findings.ts';
import { localSource, readCommandConfiguration } from '../local-settings.ts';
import { oneLine, print } from '../output.ts';

/** How long a check may take. */
const checkMs = 5_000;
/** How long the probes of a feed may take: the source's limits may make them wait. */
const probeMs = 120_000;
/** How long closing may take, and then the output of what was found. */
const closeMs = 1_000;

export async function runDoctor(options: BridgeCommandOptions): Promise<number> {
  const findings: DoctorFinding[] = [findVersions()];
  const configuration = await attempt(async () => {
    const read = await readCommandConfiguration(options);
    checkNames(read.bridge);
    return read;
  });
  if (configuration instanceof Error) {
    findings.push(
      fail('configuration', errorText(configuration), 'Correct it: config/bridge.yaml explains every setting.'),
    );
  } else {
    const { sources, flows, intakes } = configuration.bridge;
    const carried = intakes.length === 0 ? '' : `; intakes: ${namesOf(intakes)}`;
    const valid = `valid; sources: ${namesOf(sources)}; flows: ${namesOf(flows)}${carried}`;
    findings.push(
      sources.length > 0 && flows.length + intakes.length > 0
        ? ok('configuration', valid)
        : warn(
            'configuration',
            valid,
            'Check that it is the right one: --config names the file, --data the data folder.',
          ),
    );
    findings.push(...(await findQueue(configuration.redis_url)));
    try {
      // An own source is worth a database of its own, before the first start, too; a wrong folder has none of npm start.
      await examineAndClose(options, findings, { begin: sources.some(({ name }) => name !== localSource) });
    } catch (error) {
      const message = error instanceof AppError ? `${error.publicMessage} (${error.message})` : errorText(error);
      findings.push(fail('installation', message, 'Start the database, or correct DATABASE_URL or the data folder.'));
    }
  }
  const failed = findings.some(({ level }) => level === 'fail');
  print(options, { ok: !failed, findings }, () => textOf(findings));
  return failed ? 1 : 0;
}

/** Ends also where what was opened cannot be closed, because a statement of it hangs. */
async function examineAndClose(
  options: BridgeCommandOptions,
  findings: DoctorFinding[],
  { begin }: { begin: boolean },
): Promise<void> {
  const { promise: stuck, resolve } = Promise.withResolvers<'stuck'>();
  const closed = withBridge(
    options,
    async (command) => {
      await examine(command, findings, { completely: true });
      setTimeout(() => resolve('stuck'), closeMs).unref();
    },
    { migrate: false, begin },
  );
  // The connection that hangs would keep the process alive.
  if ((await Promise.race([closed, stuck])) === 'stuck') setTimeout(() => process.exit(1), closeMs).unref();
}

/**
 * Adds what is found in an installation that is open, for the command and the console. A check that takes too long is a
 * finding of its own, and the next one begins. `completely` also makes missing tables, and probes the feeds, which takes
 * dozens of requests.
 */
export async function examine(
  command: BridgeCommand,
  findings: DoctorFinding[],
  { completely = false }: { completely?: boolean } = {},
): Promise<void> {
  const { installation, database, settings, clock } = command;
  const add = async (name: string, check: () => Promise<readonly DoctorFinding[]>, limitMs = checkMs) => {
    const found = await limited(name, check, limitMs);
    findings.push(...found);
    return found;
  };
  const isWell = (found: readonly DoctorFinding[]) => found.every(({ level }) => level === 'ok');
  await add('disk', async () => [await findDisk(installation.dataDir)]);
  await add('database', () => findServer(database, installation.open.kind));
  const tables = await add('database: tables', async () => {
    if (completely && !(await hasTables(database))) await migrateBridge(database);
    return [await findMigrations(database)];
  });
  const writes = isWell(tables) && (await add('database: writes', async () => [await findWrites(database)]));
  await add('certificate', () => findCertificates(installation));
  await add('endpoint', async () => [await findEndpoint(installation)]);
  const answering: string[] = [];
  for (const source of settings.sources) {
    const found = await add(`source ${source.name}`, () => checkSource(command, source));
    if (found.every(({ level }) => level !== 'fail')) answering.push(source.name);
  }
  // The findings below need the tables of this version.
  if (!writes) return;
  await add('master key', async () => [await findSealed(database, installation.secrets)]);
  await add('console', async () => [await findConsole(database, settings)]);
  for (const source of settings.sources) {
    // A fault of the whole source is one line above, not one of each feed.
    for (const feed of completely && answering.includes(source.name) ? source.feeds : [])
      await add(`source ${source.name}: ${feed}`, () => probeFeed(command, source, feed), probeMs);
    await add(`source ${source.name}: webhooks`, async () => [await findWebhooks(command, source)]);
    await add(`source ${source.name}: jobs`, async () => {
      const jobs = await findJobs(command, source);
      return jobs ? [jobs] : [];
    });
    await add(`source ${source.name}: notifications`, async () => [await findNotifications(command, source)]);
    await add(`source ${source.name}: refusals`, async () => {
      const refusals = await findRefusals(command, source);
      return refusals ? [refusals] : [];
    });
  }
  for (const flow of settings.flows) {
    await add(`flow ${flow.name}`, () => findConnector(command, flow));
    await add(`flow ${flow.name}: mapping`, async () => [await findMapping(command, flow)]);
  }
  for (const intake of settings.intakes) {
    await add(`intake ${intake.name}`, () => findIntakeConnector(command, intake));
    await add(`intake ${intake.name}: source`, async () => [await findIntakeSource(command, intake)]);
  }
  await add('processes', () => findProcesses(database, settings));
  await add('status', async () => {
    const status = await readStatus(database, { settings, now: timestampNow(clock) });
    return findWork(status);
  });
}

async function hasTables(database: Database): Promise<boolean> {
  const [row] = await database.query<{ found: boolean }>(
    "select to_regclass('bridge.migrations') is not null as found",
  );
  return row?.found === true;
}

/** Returns what the check finds, or that it has not ended. It never rejects. */
async function limited(
  name: string,
  check: () => Promise<readonly DoctorFinding[]>,
  limitMs: number,
): Promise<readonly DoctorFinding[]> {
  const { promise: late, resolve } = Promise.withResolvers<readonly DoctorFinding[]>();
  const text = `no end after ${limitMs / 1_000} s of waiting for the answer to this check`;
  const todo =
    'What it asks does not answer: the database, the source or the ERP that the line names. See its own state.';
  const timer = setTimeout(() => resolve([fail(name, text, todo)]), limitMs);
  try {
    return await Promise.race([check(), late]);
  } catch (error) {
    return [fail(name, errorText(error), 'The message names the cause.')];
  } finally {
    clearTimeout(timer);
  }
}

function namesOf(all: readonly { name: string }[]): string {
  return all.map(({ name }) => name).join(', ') || 'none';
}

async function attempt<T>(work: () => Promise<T>): Promise<T | Error> {
  try {
    return await work();
  } catch (error) {
    return error instanceof Error ? error : new Error(String(error));
  }
}

function textOf(findings: readonly DoctorFinding[]): string {
  const width = Math.max(...findings.map(({ name }) => name.length));
  const count = (level: DoctorFinding['level']) => findings.filter((finding) => finding.level === level).length;
  return [
    ...findings.flatMap(({ name, level, message, todo }) => [
      `${level.padEnd(4)}  ${name.padEnd(width)}  ${oneLine(message)}`,
      ...(todo === undefined ? [] : [`      ${' '.repeat(width)}  -> ${oneLine(todo)}`]),
    ]),
    '',
    `${count('ok')} ok, ${count('warn')} warn, ${count('fail')} fail`,
  ].join('\n');
}
