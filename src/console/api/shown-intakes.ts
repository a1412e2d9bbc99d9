/** Intakes as the pages show them. */
import type { IntakeStatus } from '#bridge/operate/status/intake-status.ts';
import type { BridgeSettings } from '#bridge/settings/settings.ts';

export interface ShownIntake extends IntakeStatus {
  readonly connector: string;
}

/** Returns the intakes of a status with what the pages need beside it. */
export function shownIntakes(
  statuses: readonly IntakeStatus[],
  { intakes }: Pick<BridgeSettings, 'intakes'>,
): ShownIntake[] {
  return statuses.map((status) => ({
    ...status,
    connector: intakes.find(({ name }) => name === status.intake)?.connector ?? 'not configured here',
  }));
}
