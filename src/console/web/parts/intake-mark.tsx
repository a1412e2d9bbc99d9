/** The state of an intake in two words. */
import type { ShownIntake } from '#console/api/shown-intakes.ts';
import { Mark } from './basics.tsx';
import { type Condition, needsLook } from './conditions.ts';

export function IntakeMark({
  intake: { intake, pausedReason, lag },
  conditions,
}: {
  intake: ShownIntake;
  conditions: readonly Condition[];
}) {
  if (pausedReason !== null) return <Mark tone="bad">paused</Mark>;
  if (needsLook(conditions, `intake ${intake}`)) return <Mark tone="bad">needs a look</Mark>;
  return lag.inStep ? <Mark tone="good">up to date</Mark> : <Mark tone="busy">working</Mark>;
}
