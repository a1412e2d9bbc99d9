/**
 * `bridge check`: tests whether each source, flow and intake can do what is asked of it. For a source it probes and keeps
 * the source profile of each feed, and looks at the webhook. For a flow it runs the connector's own checks of the ERP, and
 * tries the mapping on the newest records: what it cannot make would be a dead letter at the next start.
 * Exit code 1 when a line fails. A `note` is what makes reading slower or dearer, and loses nothing.
 */

import { z } from 'zod';
import { type ProbeResult, probeSource } from '#bridge/pull/probe/probe-source.ts';
import type { IntakeSettings } from '#bridge/settings/intake-settings.ts';
import type { SourceSettings } from '#bridge/settings/settings.ts';
import { AnswerError } from '#client/read-answer.ts';
import { errorText } from '#platform/errors.ts';
import { type BridgeCommand, type BridgeCommandOptions, requireSource, withBridge } from '../bridge-command.ts';
import { checkConnector, checkIntakeConnector } from '../check-connector.ts';
import type { DoctorFinding } from '../doctor/finding.ts';
import { findMapping } from '../doctor/flow-findings.ts';
import { findWebhooks } from '../doctor/webhook-findings.ts';
import { print, tableOf } from '../output.ts';

interface CheckedLine extends ProbeResult {
  /** `source main`, `flow erp`. */
  readonly of: string;
}

export function runCheck(options: BridgeCommandOptions): Promise<number> {
  const check = async (command: BridgeCommand) => {
    requireSource(command.settings);
    const lines: CheckedLine[] = [];
    for (const source of command.settings.sources) lines.push(...(await checkSource(command, source)));
    for (const flow of command.settings.flows) {
      const of = `flow ${flow.name}`;
      lines.push(...(await checked(of, 'connector', () => checkConnector(command, flow.name))));
      lines.push(...(await checked(of, 'mapping', async () => [lineOf('mapping', await findMapping(command, flow))])));
    }
    for (const intake of command.settings.intakes) {
      const of = `intake ${intake.name}`;
      lines.push(...(await checked(of, 'connector', () => checkIntakeConnector(command, intake.name))));
      lines.push(...(await checked(of, 'source', () => checkSourceOfIntake(command, intake))));
    }
    const good = lines.every((line) => line.ok);
    print(options, { ok: good, checks: lines }, () =>
      tableOf(
        ['', 'of', 'check', 'result'],
        withoutRepetition(lines).map((line) => [verdictOf(line), line.of, line.name, line.message]),
      ),
    );
    return good ? 0 : 1;
  };
  // Before the first start there is no database yet.
  return withBridge(options, check, { begin: true });
}

function verdictOf({ ok, note }: CheckedLine): string {
  if (!ok) return 'FAIL';
  return note ? 'note' : 'ok';
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
  lines.push(...(await checked(of, 'webhook', async () => [lineOf('webhook', await findWebhooks(command, source))])));
  return lines;
}

/** What the doctor finds, as a line of this command. */
function lineOf(name: string, { level, message, todo }: DoctorFinding): ProbeResult {
  return { name, ok: level !== 'fail', message: todo === undefined ? message : `${message}. ${todo}` };
}

/** Whether the source lets the intake look at what it writes: its API key needs scopes that reading feeds does not. */
async function checkSourceOfIntake(command: BridgeCommand, { source, stream }: IntakeSettings): Promise<ProbeResult[]> {
  const [what, path] = stream === 'supplier' ? ['suppliers', '/api/manage/suppliers'] : ['jobs', '/api/jobs/'];
  const result = { name: 'source', ok: true };
  try {
    // Some services have no smaller page.
    const request = { method: 'GET', path: `${path}?page_size=10` } as const;
    await command.clientOf(source).call(request, z.unknown(), command.signal);
  } catch (error) {
    // The API document leaves open what the list of jobs looks like.
    if (stream === 'supplier' || !(error instanceof AnswerError) || error.status !== 404) throw error;
    const message = `the source "${source}" has no list of jobs: whether a job was made may need a person to say`;
    return [{ ...result, note: true, message }];
  }
  return [{ ...result, message: `the source "${source}" shows its ${what}` }];
}

/** Runs the check; an error is a line that failed. */
async function checked(of: string, name: string, check: () => Promise<ProbeResult[]>): Promise<CheckedLine[]> {
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
