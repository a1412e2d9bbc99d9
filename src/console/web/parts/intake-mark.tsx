/** The state of an intake in two words. */
import type { ShownIntake } from '#console/api/shown-intakes.ts';
import { Mark } from './basics.tsx';

export function IntakeMark({
  intake: { pausedReason, needsLook, lag },
}: {
  intake: Pick<ShownIntake, 'pausedReason' | 'needsLook' | 'lag'>;
}) {
  if (pausedReason !== null) return <Mark tone="bad">paused</Mark>;
  if (needsLook) return <Mark tone="bad">needs a look</Mark>;
  return lag.inStep ? <Mark tone="good">in step</Mark> : <Mark tone="busy">working</Mark>;
}
