/** `bridge intake`: what an intake would send, one run of it, what it is doing, and which supplier a record is. */

import { linkIntakeRecord, readIntakeNow } from '#bridge/intake/control-intakes.ts';
import { changeText, planIntake, refreshIntake } from '#bridge/intake/plan-intake.ts';
import { linkRequisition } from '#bridge/intake/requisitions/link-requisition.ts';
import { planRequisitions } from '#bridge/intake/requisitions/plan-requisitions.ts';
import { createIntakeRun } from '#bridge/intake/run-intake.ts';
import {
  backlogText,
  type IntakeStatus,
  intakeNeedsLook,
  isThrough,
  progressText,
  readIntakeStatuses,
} from '#bridge/operate/status/intake-status.ts';
import { prepareIntakes } from '#bridge/prepare-intakes.ts';
import type { IntakeSettings } from '#bridge/settings/intake-settings.ts';
import { timestampNow } from '#platform/clock.ts';
import { AppError } from '#platform/errors.ts';
import {
  type BridgeCommand,
  type BridgeCommandOptions,
  findIntake,
  requireSource,
  roleDepsOf,
  withBridge,
} from '../bridge-command.ts';
import { createProgress, oneLine, print, shortTime, tableOf } from '../output.ts';

export interface IntakePlanOptions extends BridgeCommandOptions {
  limit: number;
}

export interface IntakeRunOptions extends BridgeCommandOptions {
  patience: number;
}

/** Shows what would be sent; reads the ERP and the supplier list first, if their time has come. Exit code 1 when there is something. */
export function runIntakePlan(options: IntakePlanOptions, name: string | undefined): Promise<number> {
  return withBridge(
    options,
    async (command) => {
      await using opened = new AsyncDisposableStack();
      const intakes = await open(command, name, opened);
      const plans: Plan[] = [];
      for (const { deps, lists } of intakes) {
        await lists(command.signal);
        const refreshed = await refreshIntake(deps, command.signal);
        const { database } = command;
        const [status] = await statusesOf(command, [deps.intake]);
        const isOfSuppliers = deps.intake.stream === 'supplier';
        const changes = isOfSuppliers ? await planIntake(deps, options.limit) : [];
        const events = isOfSuppliers ? [] : await planRequisitions(database, deps, options.limit);
        plans.push({ intake: deps.intake.name, refreshed, status, changes, events });
      }
      print(options, { plans }, () => plans.map(planText).join('\n\n'));
      return plans.some(({ changes, events }) => changes.length + events.length > 0) ? 1 : 0;
    },
    { begin: true },
  );
}

interface Plan {
  intake: string;
  refreshed: boolean;
  status: IntakeStatus | undefined;
  changes: Awaited<ReturnType<typeof planIntake>>;
  events: Awaited<ReturnType<typeof planRequisitions>>;
}

function planText({ intake, refreshed, status, changes, events }: Plan): string {
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

function eventsText(events: Plan['events']): string {
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

function changesText(changes: Plan['changes']): string {
  return tableOf(
    ['action', 'in the ERP', 'at the service', 'name', 'what'],
    changes.map(({ action, erpKey, key, name, change }) => [action, erpKey, key, name, oneLine(changeText(change))]),
    'Nothing to send.',
  );
}

const checkAgainMs = 250;

/** Reads the ERP, and sends what differs until all is through, or nothing moves for `patience` seconds. */
export function runIntakeRun(options: IntakeRunOptions, name: string | undefined): Promise<number> {
  return withBridge(
    options,
    async (command) => {
      const { database, clock, signal } = command;
      await using opened = new AsyncDisposableStack();
      const intakes = await open(command, name, opened);
      for (const { deps } of intakes) await readIntakeNow(database, deps.intake.name, timestampNow(clock));
      const settings = intakes.map(({ deps }) => deps.intake);
      let movedMs = clock.nowMs();
      let before = '';
      let most = 0;
      const progress = createProgress('sent');
      for (;;) {
        for (const { run, lists } of intakes) {
          await lists(signal);
          await run(signal);
        }
        const statuses = await statusesOf(command, settings);
        const left = statuses.reduce((sum, { backlog }) => sum + backlog.suppliers, 0);
        most = Math.max(most, left);
        progress.tell(most - left, most);
        const state = progressText(statuses);
        if (state !== before) movedMs = clock.nowMs();
        before = state;
        const isDone = statuses.every(isThrough);
        const isTired = clock.nowMs() - movedMs > options.patience * 1000;
        if (isDone || isTired || signal.aborted) {
          progress.end();
          const ok = isDone && !statuses.some(intakeNeedsLook) && !signal.aborted;
          print(options, { ok, intakes: statuses }, () => statusText(statuses));
          return ok ? 0 : 1;
        }
        await clock.sleep(checkAgainMs, signal).catch(() => undefined);
      }
    },
    { begin: true },
  );
}

/** Shows what the intakes are doing. Exit code 1 when one needs an operator. */
export function runIntakeStatus(options: BridgeCommandOptions, name: string | undefined): Promise<number> {
  return withBridge(
    options,
    async (command) => {
      requireSource(command.settings);
      const intakes = name === undefined ? command.settings.intakes : [findIntake(command.settings, name)];
      const statuses = await statusesOf(command, intakes);
      print(options, { intakes: statuses }, () => statusText(statuses));
      return statuses.some(intakeNeedsLook) ? 1 : 0;
    },
    { withoutSecrets: true },
  );
}

export interface IntakeLinkOptions extends BridgeCommandOptions {
  new?: boolean;
}

/** Says which supplier of the service a supplier of the ERP is, or which event a requisition is in. */
export function runIntakeLink(
  options: IntakeLinkOptions,
  name: string,
  erpKey: string,
  key: string | undefined,
): Promise<number> {
  return withBridge(
    options,
    async ({ settings, database, clock, perform }) => {
      const { prefix, stream } = findIntake(settings, name);
      if ((key === undefined) !== (options.new === true))
        throw new AppError('invalid', 'Name what it is at the service, the external id or the event, or say --new.');
      if (stream === 'requisition') {
        await perform({ what: 'intake.link', object: `intake ${name}`, details: { erpKey, key: key ?? null } }, () =>
          linkRequisition(database, { intake: name, erpKey, entity: key }, timestampNow(clock)),
        );
        const text = key === undefined ? `${erpKey} of ${name} is made anew.` : `${erpKey} of ${name} is in ${key}.`;
        print(options, { intake: name, erpKey, key: key ?? null }, () => text);
        return 0;
      }
      const linked = key ?? prefix + erpKey;
      await perform({ what: 'intake.link', object: `intake ${name}`, details: { erpKey, key: linked } }, () =>
        linkIntakeRecord(database, { intake: name, erpKey, key, prefix }, timestampNow(clock)),
      );
      print(options, { intake: name, erpKey, key: linked }, () => `${erpKey} of ${name} is the supplier ${linked}.`);
      return 0;
    },
    { withoutSecrets: true },
  );
}

async function statusesOf(
  { settings, database, clock }: BridgeCommand,
  intakes: readonly IntakeSettings[],
): Promise<IntakeStatus[]> {
  return readIntakeStatuses(database, { sources: settings.sources, intakes: [...intakes] }, timestampNow(clock));
}

function statusText(statuses: readonly IntakeStatus[]): string {
  return tableOf(
    ['intake', 'last read', 'to create', 'to change', 'to archive', 'submitted', 'dead letters', 'state'],
    statuses.map((status) => [
      status.intake,
      shortTime(status.lastRead),
      status.creates,
      status.updates,
      status.archives,
      status.inSubmissions,
      status.deadLetters,
      status.lag.why,
    ]),
    'No intake is configured (bridge.intakes).',
  );
}

/** Opens the connectors of one intake, or of all, with what a process of the role `intake` works them by. */
async function open(command: BridgeCommand, name: string | undefined, opened: AsyncDisposableStack) {
  const { settings } = command;
  requireSource(settings);
  if (name !== undefined) findIntake(settings, name);
  if (settings.intakes.length === 0) throw new AppError('invalid', 'No intake is configured (bridge.intakes).');
  const prepared = await prepareIntakes(await roleDepsOf(command), opened);
  return prepared
    .filter(({ deps }) => name === undefined || deps.intake.name === name)
    .map((each) => ({ ...each, run: createIntakeRun(each.deps) }));
}
