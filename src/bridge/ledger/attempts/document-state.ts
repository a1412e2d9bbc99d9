/** Where a document stands now: in the ERP or not, and why and until when. Pure. */
import type { Timestamp } from '#contract/timestamp.ts';

/** The row of a document, with what its flow says of it. */
export interface DocumentFacts {
  readonly due: Timestamp | null;
  readonly waitingSince: Timestamp | null;
  readonly deadSince: Timestamp | null;
  readonly attempts: number;
  readonly errorType: string | null;
  readonly lastError: string | null;
  readonly delivered: Timestamp | null;
  /** Whether the ERP holds an object that was not cancelled. */
  readonly isHeld: boolean;
  readonly reference: string | null;
  /** Since when a call is under way, or was interrupted; null when there is none. */
  readonly intentAt: Timestamp | null;
  readonly callEnded: Timestamp | null;
  readonly isWithdrawal: boolean;
  /** Whether the flow still takes documents of this kind. */
  readonly isTaken: boolean;
  readonly pausedReason: string | null;
  readonly circuitUntil: Timestamp | null;
  readonly throttledUntil: Timestamp | null;
}

/**
 * - `delivered`: the ERP holds it as it should be. `cancelled`: the ERP was told to cancel it.
 * - `waiting`: it differs from what the ERP holds, and will be sent. `under way`: the ERP has been called.
 * - `held`: the flow does not take its event in the present status. `dead letter`: it was refused, or cannot be made.
 * - `nothing`: the ERP should not hold it, and does not.
 */
export type StateName = 'delivered' | 'cancelled' | 'waiting' | 'under way' | 'held' | 'dead letter' | 'nothing';

export interface DocumentState {
  readonly state: StateName;
  /** One sentence for a person; null where the state says all. */
  readonly why: string | null;
  /** When it changes by itself; null when that is not known. */
  readonly until: Timestamp | null;
  readonly since: Timestamp | null;
}

/** Returns the state of a document. The first thing that keeps it from the ERP is the reason. */
export function stateOf(facts: DocumentFacts, now: Timestamp): DocumentState {
  const { due, errorType, lastError, delivered } = facts;
  if (!facts.isTaken)
    return { state: 'nothing', why: 'its flow takes no documents of this kind any more', until: null, since: null };
  if (facts.deadSince !== null)
    return { state: 'dead letter', why: lastError ?? 'no reason known', until: null, since: facts.deadSince };
  if (due !== null) return waitingState(facts, due, now);
  if (errorType === 'held') return { state: 'held', why: lastError, until: null, since: null };
  if (facts.isHeld) return { state: 'delivered', why: null, until: null, since: delivered };
  if (delivered !== null)
    return { state: 'cancelled', why: 'it is not wanted any more', until: null, since: delivered };
  const why = 'nothing of it is wanted: no line of it is left, or the flow does not take its event (test_events, only)';
  return { state: 'nothing', why, until: null, since: null };
}

function waitingState(facts: DocumentFacts, due: Timestamp, now: Timestamp): DocumentState {
  const { errorType, lastError, waitingSince: since, circuitUntil, throttledUntil } = facts;
  const isLater = due > now;
  const later = isLater ? due : null;
  const said = lastError ?? 'no reason known';
  if (facts.pausedReason !== null)
    return { state: 'waiting', why: `its flow is paused: ${facts.pausedReason}`, until: null, since };
  const isUnderWay = facts.intentAt !== null && facts.callEnded === null && errorType !== 'unknown';
  if (isUnderWay)
    return { state: 'under way', why: 'the ERP has been called, and has not answered', until: null, since };
  if (circuitUntil !== null && circuitUntil > now) {
    const why = `too many failures in a row, one document is tried then: ${said}`;
    return { state: 'waiting', why, until: circuitUntil, since };
  }
  if (throttledUntil !== null && throttledUntil > now)
    return { state: 'waiting', why: 'the ERP limits its callers', until: throttledUntil, since };
  if (errorType === 'not-yet') return { state: 'waiting', why: said, until: later, since };
  if (errorType === 'unknown' && facts.intentAt !== null)
    return { state: 'waiting', why: `${said}; then the ERP is asked what it holds`, until: later, since };
  if (facts.attempts > 0) {
    const tries = facts.attempts === 1 ? 'the last try failed' : `the last ${facts.attempts} tries failed`;
    return { state: 'waiting', why: `${tries}: ${said}`, until: later, since };
  }
  const what = facts.isWithdrawal ? 'it is to be cancelled in the ERP' : 'its turn comes';
  return { state: 'waiting', why: what, until: later, since };
}
