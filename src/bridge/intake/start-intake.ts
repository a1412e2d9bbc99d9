/** The part of a process that works the intakes (role `intake`). */

import type { AcquireLease } from '#bridge/ledger/leases/lease.ts';
import type { SourceClients } from '#bridge/mirror/source/source-clients.ts';
import { type BridgeDeps, lanes, type WorkingPart } from '#bridge/settings/bridge-deps.ts';
import { timestampNow } from '#platform/clock.ts';
import { Counter } from '#platform/metrics.ts';
import type { IntakeDeps } from './intake-deps.ts';
import { intakesWithDue } from './intake-store.ts';
import type { OpenIntake } from './open-intakes.ts';
import { createIntakePruning } from './prune-intakes.ts';
import { createIntakeRun } from './run-intake.ts';

/** Starts the workers; they end with `deps.signals`. The intakes must have been registered before. */
export function startIntake(
  deps: BridgeDeps,
  acquireLease: AcquireLease,
  clientOf: SourceClients['clientOf'],
  intakes: readonly OpenIntake[],
): WorkingPart {
  const { settings, database, signals, clock } = deps;
  const depsOf = intakeDepsOf(deps, acquireLease, clientOf);
  const runs = new Map(intakes.map((open) => [open.intake.name, createIntakeRun(depsOf(open))]));
  signals.work(lanes.intake, { concurrency: Math.max(1, intakes.length) }, async (name, signal) => {
    await runs.get(name)?.(signal);
  });
  const own = intakes.map(({ intake }) => intake);
  const prune = createIntakePruning({ database, clock, days: settings.history_days });
  return {
    lanes: [{ lane: lanes.intake, due: () => intakesWithDue(database, own, timestampNow(clock)) }],
    housekeeping: prune,
  };
}

/** Returns a function that returns what the work of one intake needs. */
export function intakeDepsOf(deps: BridgeDeps, acquireLease: AcquireLease, clientOf: SourceClients['clientOf']) {
  const { settings, database, clock, log } = deps;
  const suppliers = new Counter({
    name: 'bridge_intake_suppliers_total',
    help: 'Records of intakes: changed ones that were read, and those that the service has taken or refused',
    labelNames: ['intake', 'result'] as const,
    registers: [deps.registry],
  });
  return ({ intake, reader, teller, wantedOf, wishOf }: OpenIntake): IntakeDeps & { acquireLease: AcquireLease } => {
    const source = settings.sources.find(({ name }) => name === intake.source);
    if (!source) throw new TypeError(`the source of the intake "${intake.name}" was not checked`);
    const count = (result: string, number: number) => suppliers.inc({ intake: intake.name, result }, number);
    const client = clientOf(intake.source);
    return { intake, source, reader, teller, client, wantedOf, wishOf, database, clock, log, count, acquireLease };
  };
}

/** Logs what the connectors' own checks find wrong. Never rejects. */
export async function warnOfFailedIntakeChecks(intakes: readonly OpenIntake[], { log }: Pick<BridgeDeps, 'log'>) {
  for (const open of intakes)
    for (const { name, ok, message } of await open.check())
      if (!ok) log.warn({ intake: open.intake.name, check: name }, message);
}
