/**
 * `bridge check`: tests whether each source and each flow can do what is asked of it. For a source it probes and keeps
 * the source profile of each feed, and looks at the webhook. For a flow it runs the connector's own checks of the ERP.
 * Exit code 1 when a line fails.
 */

import { openFlows } from '#bridge/flows/open-flows.ts';
import { probeSource } from '#bridge/pull/probe-source.ts';
import type { SourceSettings } from '#bridge/settings.ts';
import type { CheckResult } from '#connector/connector.ts';
import { errorText } from '#platform/errors.ts';
import { type BridgeCommand, type BridgeCommandOptions, requireSource, withBridge } from '../bridge-command.ts';
import { findWebhooks } from '../doctor/webhook-findings.ts';
import { print, tableOf } from '../output.ts';

interface CheckedLine extends CheckResult {
  /** `source main`, `flow erp`. */
  readonly of: string;
}

export function runCheck(options: BridgeCommandOptions): Promise<number> {
  return withBridge(options, async (command) => {
    requireSource(command.settings);
    const lines: CheckedLine[] = [];
    for (const source of command.settings.sources) lines.push(...(await checkSource(command, source)));
    for (const { name } of command.settings.flows) lines.push(...(await checkFlow(command, name)));
    const good = lines.every((line) => line.ok);
    print(options, { ok: good, checks: lines }, () =>
      tableOf(
        ['', 'of', 'check', 'result'],
        withoutRepetition(lines).map((line) => [line.ok ? 'ok' : 'FAIL', line.of, line.name, line.message]),
      ),
    );
    return good ? 0 : 1;
  });
}

async function checkSource(command: BridgeCommand, source: SourceSettings): Promise<CheckedLine[]> {
  const { database, clock, signal } = command;
  const of = `source ${source.name}`;
  const lines: CheckedLine[] = [];
  for (const feed of source.feeds)
    lines.push(
      ...(await checked(of, feed, () =>
        probeSource({ client: command.clientOf(source.name), source, feed, clock, database }, signal),
      )),
    );
  lines.push(
    ...(await checked(of, 'webhook', async () => {
      const { level, message, todo } = await findWebhooks(command, source);
      return [{ name: 'webhook', ok: level !== 'fail', message: todo === undefined ? message : `${message}. ${todo}` }];
    })),
  );
  return lines;
}

async function checkFlow({ settings, installation, clock }: BridgeCommand, name: string): Promise<CheckedLine[]> {
  await using opened = new AsyncDisposableStack();
  const flows = settings.flows.filter((flow) => flow.name === name);
  // Awaited here: the connector is closed when this function ends.
  return await checked(`flow ${name}`, 'connector', async () => {
    const deps = { settings: { ...settings, flows }, dataDir: installation.dataDir, log: installation.log, clock };
    const results: CheckResult[] = [];
    for (const { session } of await openFlows(deps, opened)) results.push(...(await session.check()));
    return results.length > 0
      ? results
      : [{ name: 'connector', ok: true, message: 'opens; it has no checks of its own' }];
  });
}

/** Runs the check; an error is a line that failed. */
async function checked(of: string, name: string, check: () => Promise<CheckResult[]>): Promise<CheckedLine[]> {
  try {
    return (await check()).map((result) => ({ of, ...result }));
  } catch (error) {
    return [{ of, name, ok: false, message: errorText(error) }];
  }
}

/** A fault of a source shows at each of its feeds: only the first line holds the message, the others refer to it. */
function withoutRepetition(lines: readonly CheckedLine[]): CheckedLine[] {
  return lines.map((line, index) => {
    const feedOf = ({ name }: CheckedLine) => name.slice(0, name.indexOf(':'));
    const first = lines
      .slice(0, index)
      .find((other) => !other.ok && other.of === line.of && other.message === line.message);
    return line.ok || first === undefined ? line : { ...line, message: `as ${feedOf(first) || first.name}` };
  });
}
