/**
 * How long the bridge waits before it asks the ERP what an interrupted call has done. Asked too early, the ERP does not
 * show the effect yet, and the bridge creates a second object. The wait counts from the end of the call. Three things
 * bound what is unknown:
 *
 * - **The end of the call.** The process that made the call stores it with the outcome `unknown`. A process that is seen
 *   to be dead makes no call any more. Otherwise nothing is known but the time limit, which counts from the intent: a
 *   process that was frozen finds its limit over when it runs again, and sends nothing more (`connectors/deadline.ts`).
 * - **What the ERP does after the end.** Nothing, when it has answered: its effect is visible after `visibleAfterMs`. A
 *   request that was cut off may still take effect within `lateEffectMs`.
 * - **The difference of the clocks**, where another machine has written the time.
 *
 * Example: the http connector with its defaults, and a time limit of 160 s for a call (`timeoutMs`), 5 s to stop,
 * `lateEffectMs` 35 s and `visibleAfterMs` 5 s. Process 310 commits the intent at 12:00:00.
 *
 *     what happens to the call                                 what is known               the ERP is asked at
 *     12:00:03  the ERP answers 500                            it has ended, answered      12:00:08  = 03 + 5
 *     12:00:03  the connection is reset after the request      it has ended, cut off       12:00:38  = 03 + 35
 *     12:00:31  no answer within `timeout_seconds`             it has ended, cut off       12:01:06  = 31 + 35
 *     12:00:03  310 is killed. 311 on this machine sees that
 *               at 12:00:05                                    it has ended by 12:00:05    12:00:42  = 05 + 35 + 2
 *     12:00:03  310 is killed. 311 is on another machine,
 *               which cannot tell dead from frozen             over at 12:02:45 at last    12:03:22  = 02:45 + 35 + 2
 *     12:00:03  310 is frozen, and does not run again          over at 12:02:45 at last    12:03:22
 *     12:00:03  310 is frozen, and runs again at 12:01:00: it
 *               has lost the lease, but notes the end          it has ended by 12:01:00    12:01:37  = 01:00 + 35 + 2
 *
 * A dead process also ends what it had not sent yet: bytes that its machine still holds are part of `lateEffectMs`, as
 * for a call that was aborted.
 */
import type { CallEnd, FlowDocument } from '#bridge/ledger/flows/flow-document-store.ts';
import type { ProcessIdentity } from '#bridge/settings/process-identity.ts';
import type { Capabilities } from '#connector/connector.ts';
import { msFromTimestamp, type Timestamp, timestampFromMs } from '#contract/timestamp.ts';

/** The clocks of the bridge's machines agree to within this (docs/processes.md). */
const clockDifferenceMs = 2_000;

/** What is known of the call whose intent stands, and of earlier ones. */
type EarlierCalls = Pick<
  FlowDocument,
  'intentAt' | 'intentBy' | 'intentLimitMs' | 'callEnded' | 'callAnswered' | 'delivered' | 'uncertainSince'
>;

export interface EffectWait {
  /** 0: the effect of every earlier call is visible in the ERP. */
  readonly waitMs: number;
  /** The end of the interrupted call, where it is seen only now: to be stored, so that later waits count from it. */
  readonly callEnd: CallEnd | undefined;
}

/** Returns how long an earlier call for this document may still take effect, or its object be missing from `lookup`. */
export function waitForEffect(
  capabilities: Pick<Capabilities, 'timeoutMs' | 'lateEffectMs' | 'visibleAfterMs'>,
  processIdentity: ProcessIdentity,
  calls: EarlierCalls,
  nowMs: number,
): EffectWait {
  const { lateEffectMs, visibleAfterMs = lateEffectMs } = capabilities;
  const interrupted = waitForInterrupted(capabilities, processIdentity, calls, nowMs);
  // These calls have ended. When the ERP does nothing by itself afterwards, their effect is visible already.
  const ended = [
    { at: calls.delivered, effectMs: visibleAfterMs },
    { at: calls.uncertainSince, effectMs: lateEffectMs },
  ].map(({ at, effectMs }) =>
    at === null || effectMs === 0 ? 0 : leftOf({ from: at, ms: effectMs + clockDifferenceMs }, nowMs),
  );
  return { waitMs: Math.max(0, interrupted.waitMs, ...ended), callEnd: interrupted.callEnd };
}

function waitForInterrupted(
  { lateEffectMs, visibleAfterMs = lateEffectMs }: Pick<Capabilities, 'lateEffectMs' | 'visibleAfterMs'>,
  processIdentity: ProcessIdentity,
  { intentAt, intentBy, intentLimitMs, callEnded, callAnswered }: EarlierCalls,
  nowMs: number,
): EffectWait {
  if (intentAt === null) return { waitMs: 0, callEnd: undefined };
  const isOwn = intentBy === processIdentity.own;
  const differenceMs = isOwn ? 0 : clockDifferenceMs;
  if (callEnded !== null) {
    const effectMs = callAnswered ? visibleAfterMs : lateEffectMs;
    // Without an effect after the end it does not matter by which clock that end was.
    const waitMs = effectMs === 0 ? 0 : leftOf({ from: callEnded, ms: effectMs + differenceMs }, nowMs);
    return { waitMs, callEnd: undefined };
  }
  const byLimitMs = leftOf({ from: intentAt, ms: intentLimitMs + lateEffectMs + differenceMs }, nowMs);
  // A process looks nothing up while a call of its own is under way: its own call has ended, too.
  const isOver = isOwn || (intentBy !== null && processIdentity.isOver(intentBy));
  if (!isOver) return { waitMs: byLimitMs, callEnd: undefined };
  const byEndMs = lateEffectMs === 0 ? 0 : lateEffectMs + differenceMs;
  return { waitMs: Math.min(byLimitMs, byEndMs), callEnd: { at: timestampFromMs(nowMs), answered: false } };
}

/** Never longer than the whole wait, as a clock that ran ahead may have written a time in the future. */
function leftOf({ from, ms }: { from: Timestamp; ms: number }, nowMs: number): number {
  return Math.min(ms, msFromTimestamp(from) + ms - nowMs);
}
