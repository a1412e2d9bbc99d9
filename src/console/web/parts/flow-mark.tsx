/** The state of a flow in two words. */
import type { FlowsAnswer } from '#console/api/flows.ts';
import { Mark } from './basics.tsx';
import { type Condition, needsLook } from './conditions.ts';

export function FlowMark({
  flow: { flow, pausedReason, circuitUntil, lag },
  conditions,
}: {
  flow: FlowsAnswer['flows'][number];
  conditions: readonly Condition[];
}) {
  if (pausedReason !== null) return <Mark tone="bad">paused</Mark>;
  if (circuitUntil !== null) return <Mark tone="bad">the ERP refuses everything</Mark>;
  if (needsLook(conditions, `flow ${flow}`)) return <Mark tone="bad">needs a look</Mark>;
  return lag.inStep ? <Mark tone="good">up to date</Mark> : <Mark tone="busy">working</Mark>;
}
