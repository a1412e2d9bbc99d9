/**
 * Writes a batch in one transaction. Where PostgreSQL refuses it, the batch is written once more, in halves under
 * savepoints, until each document that is refused stands alone: it fails with PostgreSQL's words, and all others are
 * written. Nothing of the first attempt was committed, so this is no retry.
 *
 * Where a statement takes too long, what comes next is written in smaller parts, each a transaction of its own: a function
 * that is too slow for a whole batch gets through, and a trigger that hangs holds up its own document in the end.
 */
import { DataError, LockedError, type Outcome, outcomeOf, stopped } from 'sourcing-bridge/connector';
import type { Connections, Tx } from './connections.ts';
import { connectorErrorOf, isRefusal, isTooSlow } from './sql-errors.ts';

/** Applies these in a transaction; throws without an outcome for any of them. */
export type Apply<Unit> = (tx: Tx, units: readonly Unit[]) => Promise<readonly Outcome[]>;

/** Once a batch is taken apart, a lock that somebody holds is waited for a few times, and not for long. */
const lockTimeoutMs = 250;
const lockWaitsMax = 20;

/** Gives an outcome for each unit; never rejects. */
export type WriteBatch<Unit> = (units: readonly Unit[], signal: AbortSignal) => Promise<readonly Outcome[]>;

export function createBatchWriter<Unit>(
  connections: Connections,
  { lock, apply }: { lock: string; apply: Apply<Unit> },
): WriteBatch<Unit> {
  /** Most units in one transaction; doubled by each one of that size that was in time. */
  let partMax = Number.POSITIVE_INFINITY;

  async function writePart(units: readonly Unit[], signal: AbortSignal): Promise<readonly Outcome[]> {
    const options = { signal, lock: { name: lock, alone: false } };
    const failed = (error: unknown): Outcome[] => {
      if (isTooSlow(error)) partMax = Math.ceil(units.length / 2);
      const outcome = outcomeOf(connectorErrorOf(error, connections.place));
      return units.map(() => outcome);
    };
    try {
      const outcomes = await connections.transaction(options, (tx) => apply(tx, units));
      if (units.length >= partMax) partMax *= 2;
      return outcomes;
    } catch (error) {
      if (units.length === 1 || signal.aborted || !isRefusal(error)) return failed(error);
    }
    try {
      return await connections.transaction(options, (tx) => applyApart(tx, units, apply, connections.place));
    } catch (error) {
      return failed(error);
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

async function applyApart<Unit>(
  tx: Tx,
  all: readonly Unit[],
  apply: Apply<Unit>,
  place: string,
): Promise<readonly Outcome[]> {
  let lockWaits = 0;
  await tx.query(`set local lock_timeout to ${lockTimeoutMs}`);

  async function attempt(units: readonly Unit[]): Promise<readonly Outcome[]> {
    await tx.query('savepoint part');
    try {
      if (lockWaits >= lockWaitsMax) throw new LockedError('rows or tables in PostgreSQL are held by somebody else');
      const outcomes = await apply(tx, units);
      // What a deferred trigger refuses would otherwise take everything with it at the end.
      await tx.query('set constraints all immediate');
      await tx.query('release savepoint part');
      return outcomes;
    } catch (error) {
      const isLocked = error instanceof LockedError;
      if (!isLocked && !isRefusal(error)) throw error;
      await tx.query('rollback to savepoint part; release savepoint part');
      const told = connectorErrorOf(error, place);
      if (told instanceof LockedError) lockWaits += 1;
      if (units.length === 1 || isLocked) return units.map(() => outcomeOf(told));
    }
    const half = units.length >> 1;
    return [...(await attempt(units.slice(0, half))), ...(await attempt(units.slice(half)))];
  }

  const outcomes = await attempt(all);
  // What is wrong with one document only is not the matter of all: the flow need not stop for it.
  if (!outcomes.some((outcome) => 'reference' in outcome)) return outcomes;
  return outcomes.map((outcome) =>
    'error' in outcome && (outcome.error.type === 'config' || outcome.error.type === 'auth')
      ? outcomeOf(new DataError(outcome.error.message))
      : outcome,
  );
}
