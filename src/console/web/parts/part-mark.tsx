/** The state of a flow or an intake in two words. */
import { Mark } from './basics.tsx';
import { type Condition, needsLook } from './conditions.ts';

export function PartMark({
  subject,
  part: { pausedReason, circuitUntil, lag },
  conditions,
}: {
  /** As conditions name it: `flow sap`, `intake vendors`. */
  subject: string;
  part: {
    readonly pausedReason: string | null;
    readonly circuitUntil?: string | null;
    readonly lag: { readonly inStep: boolean };
  };
  conditions: readonly Condition[];
}) {
  if (pausedReason !== null) return <Mark tone="bad">paused</Mark>;
  if (circuitUntil) return <Mark tone="bad">the ERP refuses everything</Mark>;
  if (needsLook(conditions, subject)) return <Mark tone="bad">needs a look</Mark>;
  return lag.inStep ? <Mark tone="good">up to date</Mark> : <Mark tone="busy">working</Mark>;
}
