/** What the doctor finds when it tries the parts of a flow: the connector's checks of its ERP, and the mapping. */
import { missingColumns } from '#bridge/operate/plan/missing-columns.ts';
import { type TriedDocument, tryMapping } from '#bridge/operate/plan/try-mapping.ts';
import type { IntakeSettings } from '#bridge/settings/intake-settings.ts';
import type { FlowSettings } from '#bridge/settings/settings.ts';
import type { CheckResult } from '#connector/connector.ts';
import { errorText } from '#platform/errors.ts';
import type { BridgeCommand } from '../bridge-command.ts';
import { checkConnector, checkIntakeConnector } from '../check-connector.ts';
import { type DoctorFinding, fail, ok } from './finding.ts';

/** One line for each check that failed; one in all when none did. */
export async function findConnector(command: BridgeCommand, { name }: FlowSettings): Promise<DoctorFinding[]> {
  return findChecks(`flow ${name}: ERP`, 'flow', () => checkConnector(command, name));
}

/** As `findConnector`, for the ERP that an intake reads. */
export async function findIntakeConnector(command: BridgeCommand, { name }: IntakeSettings): Promise<DoctorFinding[]> {
  return findChecks(`intake ${name}: ERP`, 'intake', () => checkIntakeConnector(command, name));
}

async function findChecks(line: string, what: string, check: () => Promise<CheckResult[]>): Promise<DoctorFinding[]> {
  const todo =
    `Until this works its ${what === 'flow' ? 'documents wait' : 'records are not read'}, and nothing is lost. Correct ` +
    `what the line names: the ERP itself, the network, or the settings of the ${what} (\`connector show\` explains them).`;
  try {
    const results = await check();
    const failed = results.filter((result) => !result.ok);
    if (failed.length > 0) return failed.map((check) => fail(line, `${check.name}: ${check.message}`, todo));
    return [ok(line, results.map((check) => `${check.name}: ${check.message}`).join('; '))];
  } catch (error) {
    return [fail(line, errorText(error), todo)];
  }
}

/** So many of the newest documents of each kind are made. */
const triedMost = 5;

/** Whether the mapping makes documents of the records that changed last. It sees faults before a document is due. */
export async function findMapping({ database }: BridgeCommand, flow: FlowSettings): Promise<DoctorFinding> {
  const line = `flow ${flow.name}: mapping`;
  const missing = await missingColumns(database, flow, { limit: triedMost });
  if (missing.length > 0)
    return fail(
      line,
      missing.join('; '),
      `Correct quantity_column and unit_price_column of the flow; then: bridge replay --flow ${flow.name} --dead.`,
    );
  const tried = await tryMapping(database, flow, { limit: triedMost });
  const rejected = tried.filter(({ result }) => result === 'rejected');
  const [first] = rejected;
  if (first === undefined)
    return ok(line, tried.length === 0 ? 'no record has been read yet' : `makes the ${tried.length} newest documents`);
  return fail(
    line,
    `${rejected.length} of the ${tried.length} newest documents cannot be made and would be dead letters, first ${nameOf(first)}`,
    `See all of them: bridge mapping try ${flow.name}. Correct the mapping, or the record at the source; then: ` +
      `bridge replay --flow ${flow.name} --dead.`,
  );
}

function nameOf({ kind, key, reason }: TriedDocument): string {
  return `${kind} ${key}: ${reason ?? 'no reason known'}`;
}
