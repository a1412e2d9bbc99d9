/**
 * `bridge doctor`: everything that a support engineer would ask for, each as a line that is ok, warn or fail, with what
 * to do. It changes nothing, and continues when a part is not available. Exit code 1 when a line fails.
 */
import { checkNames } from '#bridge/check-names.ts';
import { readStatus } from '#bridge/status/status.ts';
import { timestampNow } from '#platform/clock.ts';
import { AppError, errorText } from '#platform/errors.ts';
import { type BridgeCommand, type BridgeCommandOptions, withBridge } from '../bridge-command.ts';
import { findConsole } from '../doctor/console-findings.ts';
import { findMigrations, findProcesses, findSealed, findServer } from '../doctor/database-findings.ts';
import { type DoctorFinding, fail, ok, warn } from '../doctor/finding.ts';
import { findConnector, findIntakeConnector, findMapping } from '../doctor/flow-findings.ts';
import { findCertificate, findDisk, findEndpoint, findVersions } from '../doctor/machine-findings.ts';
import { findQueue } from '../doctor/queue-findings.ts';
import { checkSource, findNotifications, findQuotas, findRefusals } from '../doctor/source-findings.ts';
import { findWebhooks } from '../doctor/webhook-findings.ts';
import { findWork } from '../doctor/work-findings.ts';
import { readCommandConfiguration } from '../local-settings.ts';
import { oneLine, print } from '../output.ts';

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
      await withBridge(options, (command) => examine(command, findings), { migrate: false });
    } catch (error) {
      const message = error instanceof AppError ? `${error.publicMessage} (${error.message})` : errorText(error);
      findings.push(fail('installation', message, 'Start the database, or correct DATABASE_URL or the data folder.'));
    }
  }
  const failed = findings.some(({ level }) => level === 'fail');
  print(options, { ok: !failed, findings }, () => textOf(findings));
  return failed ? 1 : 0;
}

/** Adds what is found in an installation that is open, for the command and the console. */
export async function examine(command: BridgeCommand, findings: DoctorFinding[]): Promise<void> {
  const { installation, database, settings, clock } = command;
  findings.push(await findDisk(installation.dataDir));
  findings.push(...(await findServer(database, installation.open.kind)));
  const tables = await findMigrations(database);
  findings.push(tables, await findCertificate(installation), await findEndpoint(installation));
  for (const source of settings.sources) findings.push(...(await checkSource(command, source)));
  // The findings below need the tables of this version.
  if (tables.level !== 'ok') return;
  findings.push(await findSealed(database, installation.secrets), await findConsole(database, settings));
  for (const source of settings.sources) {
    findings.push(await findWebhooks(command, source), await findNotifications(command, source));
    const refusals = await findRefusals(command, source);
    if (refusals) findings.push(refusals);
  }
  for (const flow of settings.flows)
    findings.push(...(await findConnector(command, flow)), await findMapping(command, flow));
  for (const intake of settings.intakes) findings.push(...(await findIntakeConnector(command, intake)));
  findings.push(...(await findProcesses(database, settings)));
  const status = await readStatus(database, { settings, now: timestampNow(clock) });
  for (const source of settings.sources) findings.push(...findQuotas(status, source));
  findings.push(...findWork(status));
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
