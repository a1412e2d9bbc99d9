/**
 * Writes a batch in one transaction. When PostgreSQL refuses it, the batch is written once more, in halves under
 * savepoints, until each refused document is alone: it fails with PostgreSQL's words, and all others are written.
 * Nothing of the first attempt was committed, so this is not a retry.
 *
 * When a statement takes too long, later documents are written in smaller parts, each in its own transaction. So a
 * function that is too slow for a whole batch succeeds in parts, and a trigger that hangs ends up blocking only its own
 * document.
 */
import { DataError, LockedError, type Outcome, outcomeOf, stopped } from 'sourcing-bridge/connector';
import type { Connections, Tx } from './connections.ts';
import { connectorErrorOf, isRefusal, isTooSlow } from './sql-errors.ts';

/** Writes units in a transaction and returns an outcome for each. When it throws, none of them was written. */
export type Apply<Unit> = (tx: Tx, units: readonly Unit[]) => Promise<readonly Outcome[]>;

/** While a batch is split, waits for foreign locks are short, and only this many: the batch has a time limit. */
const lockTimeoutMs = 250;
const lockWaitsMax = 20;

/** Returns an outcome for each unit; never rejects. */
export type WriteBatch<Unit> = (units: readonly Unit[], signal: AbortSignal) => Promise<readonly Outcome[]>;

/** A writer of batches. `lock` names the advisory lock that its transactions share. */
export function createBatchWriter<Unit>(
  connections: Connections,
  { lock, apply }: { lock: string; apply: Apply<Unit> },
): WriteBatch<Unit> {
  /** The largest number of units in one transaction; doubled after each transaction of that size that was in time. */
  let partMax = Number.POSITIVE_INFINITY;

  async function writePart(units: readonly Unit[], signal: AbortSignal): Promise<readonly Outcome[]> {
    const options = { signal, lock: { name: lock, exclusive: false } };
    const fail = (error: unknown): Outcome[] => {
      if (isTooSlow(error)) partMax = Math.ceil(units.length / 2);
      const outcome = outcomeOf(connectorErrorOf(error, connections.targetName));
      return units.map(() => outcome);
    };
    try {
      const outcomes = await connections.transaction(options, (tx) => apply(tx, units));
      if (units.length >= partMax) partMax *= 2;
      return outcomes;
    } catch (error) {
      if (units.length === 1 || signal.aborted || !isRefusal(error)) return fail(error);
    }
    try {
      return await connections.transaction(options, (tx) => applyInHalves(tx, units, apply, connections.targetName));
    } catch (error) {
      return fail(error);
    }
  }

  return async (units, signal) => {
    const outcomes: Outcome[] = [];
    while (outcomes.length < units.length) {
      const part = units.slice(outcomes.length, outcomes.length + partMax);
      outcomes.push(
        ...(signal.aborted && outcomes.length > 0 ? part.map(() => stopped) : await writePart(part, signal)),
      );
    }
    return outcomes;
  };
}

/** Applies all units, in halves under savepoints where PostgreSQL refuses some of them. */
async function applyInHalves<Unit>(
  tx: Tx,
  all: readonly Unit[],
  apply: Apply<Unit>,
  targetName: string,
): Promise<readonly Outcome[]> {
  let lockWaits = 0;
  await tx.query(`set local lock_timeout to ${lockTimeoutMs}`);

  async function attempt(units: readonly Unit[]): Promise<readonly Outcome[]> {
    await tx.query('savepoint part');
    try {
      if (lockWaits >= lockWaitsMax)
        throw new LockedError('rows or tables in PostgreSQL are locked by other transactions');
      const outcomes = await apply(tx, units);
      // Else a deferred trigger would refuse at COMMIT, and roll everything back.
      await tx.query('set constraints all immediate');
      await tx.query('release savepoint part');
      return outcomes;
    } catch (error) {
      const isLocked = error instanceof LockedError;
      if (!isLocked && !isRefusal(error)) throw error;
      await tx.query('rollback to savepoint part; release savepoint part');
      const refusal = connectorErrorOf(error, targetName);
      if (refusal instanceof LockedError) lockWaits += 1;
      if (units.length === 1 || isLocked) return units.map(() => outcomeOf(refusal));
    }
    const half = units.length >> 1;
    return [...(await attempt(units.slice(0, half))), ...(await attempt(units.slice(half)))];
  }

  const outcomes = await attempt(all);
  // Some documents were written, so the settings are right: a `config` or `auth` error belongs to its document alone.
  if (!outcomes.some((outcome) => 'reference' in outcome)) return outcomes;
  return outcomes.map((outcome) =>
    'error' in outcome && (outcome.error.type === 'config' || outcome.error.type === 'auth')
      ? outcomeOf(new DataError(outcome.error.message))
      : outcome,
  );
}
