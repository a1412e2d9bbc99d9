/** What intakes would send to the service now. */
import { changeText, planIntake, refreshIntake } from '#bridge/intake/plan-intake.ts';
import { planRequisitions } from '#bridge/intake/requisitions/plan-requisitions.ts';
import { backlogText, type IntakeStatus, readIntakeStatuses } from '#bridge/operate/status/intake-status.ts';
import { prepareIntakes } from '#bridge/prepare-intakes.ts';
import type { IntakeSettings } from '#bridge/settings/intake-settings.ts';
import { timestampNow } from '#platform/clock.ts';
import { type BridgeCommand, roleDepsOf } from './bridge-command.ts';
import { oneLine, shortTime, tableOf } from './output.ts';

export interface IntakePlan {
  intake: string;
  refreshed: boolean;
  status: IntakeStatus | undefined;
  changes: Awaited<ReturnType<typeof planIntake>>;
  events: Awaited<ReturnType<typeof planRequisitions>>;
}

export function intakePlanText({ intake, refreshed, status, changes, events }: IntakePlan): string {
  const lines = [intake];
  if (!refreshed) lines.push('A running process works this intake; this is what it has found so far.');
  if (status) {
    const { creates, updates, archives, deadLetters, backlog } = status;
    lines.push(`${creates} to create, ${updates} to change, ${archives} to archive: ${backlogText(status)}.`);
    if (deadLetters > 0) lines.push(`${deadLetters} need a person: bridge dead-letters --flow ${intake}`);
    if (status.pausedReason !== null) lines.push(`Paused: ${status.pausedReason}`);
    else if (!status.lag.inStep && backlog.suppliers === 0) lines.push(status.lag.why);
  }
  lines.push(status?.stream === 'requisition' ? eventsText(events) : changesText(changes));
  return lines.join('\n');
}

function eventsText(events: IntakePlan['events']): string {
  return tableOf(
    ['action', 'event', 'lots', 'requisitions', 'when'],
    events.map(({ action, name, lots, requisitions, ready }) => [
      action,
      oneLine(name),
      lots,
      requisitions.join(', '),
      shortTime(ready),
    ]),
    'Nothing to make.',
  );
}

function changesText(changes: IntakePlan['changes']): string {
  return tableOf(
    ['action', 'in the ERP', 'at the service', 'name', 'what'],
    changes.map(({ action, erpKey, key, name, change }) => [action, erpKey, key, name, oneLine(changeText(change))]),
    'Nothing to send.',
  );
}

/** Reads the ERPs and the supplier list first, if their time has come; sends nothing. */
export async function planIntakes(
  command: BridgeCommand,
  intakes: readonly IntakeSettings[],
  limit: number,
): Promise<IntakePlan[]> {
  if (intakes.length === 0) return [];
  const { database, settings, clock, signal } = command;
  await using opened = new AsyncDisposableStack();
  const plans: IntakePlan[] = [];
  for (const { deps, lists } of await prepareIntakes(await roleDepsOf(command), opened)) {
    const { intake } = deps;
    if (!intakes.includes(intake)) continue;
    await lists(signal);
    const refreshed = await refreshIntake(deps, signal);
    const [status] = await readIntakeStatuses(
      database,
      { sources: settings.sources, intakes: [intake] },
      timestampNow(clock),
    );
    const isOfSuppliers = intake.stream === 'supplier';
    const changes = isOfSuppliers ? await planIntake(deps, limit) : [];
    const events = isOfSuppliers ? [] : await planRequisitions(database, deps, limit);
    plans.push({ intake: intake.name, refreshed, status, changes, events });
  }
  return plans;
}
