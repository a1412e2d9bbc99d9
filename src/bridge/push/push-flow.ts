/**
 * The push of one flow: reconcile, don't replay. Each due document is made from the mirror, compared with what was last
 * delivered, and the connector is called only for a difference: by as many calls at once as it takes, never for two
 * kinds at once, never twice for one key, and each settled when it ends, whatever becomes of the others.
 *
 * A document's way, and what a kill leaves behind:
 * 1. claim: it is made and compared. A withdrawal is marked as one, and claimed when all of its kind are known. Killed
 *    here: nothing happened.
 * 2. look up: a document that has an intent was cut off earlier, one that is in doubt or to be written once more may be
 *    anything; `lookup` says what the ERP holds. Killed here: the old intent stands, and the next process begins here again.
 * 3. intend: the intent is committed (with the claim, when nothing had to be asked or loaded before), and the ERP is
 *    called. Killed from here to 4: the intent stands, and a later process begins at 2.
 * 4. settle: the outcome is committed and the intent cleared.
 *
 * A process that stood still finds at 3 that its time is over, or at 4 that another works by now; a call of its that may
 * have come after the other's leaves the document in doubt, so that the ERP is asked.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Session } from '#connector/connector.ts';
import { timestampNow } from '#platform/clock.ts';
import { hasDue } from '../flows/flow-state.ts';
import type { SecretKeeper } from '../flows/keep-secrets.ts';
import { type AcquireLease, type Lease, LeaseLost } from '../leases/lease.ts';
import { isLoaded } from './batch/attach-files.ts';
import { type Batch, type BatchDeps, createBatchPush } from './batch/push-batch.ts';
import { type ConnectorCalls, createConnectorCalls } from './calls/connector-calls.ts';
import {
  type Claim,
  type Claimed,
  type ClaimOptions,
  claimDocuments,
  commitIntents,
  mustLookUp,
} from './claim/claim-documents.ts';
import type { Busy } from './claim/flow-document-store.ts';

export interface PushDeps extends BatchDeps {
  session: Session;
  secrets: Pick<SecretKeeper, 'tell'>;
  acquireLease: AcquireLease;
  /** How long a connector may take to stop when it is told to. */
  abortGraceMs?: number;
  /** How soon is looked for more work while calls are under way and there is room for others. */
  lookAgainMs?: number;
}

/** Creates the worker of a flow: pushes everything due, and returns when nothing is, or another process does it. */
export function createFlowPush(deps: PushDeps) {
  const { flow, database, clock, log } = deps;
  const calls = createConnectorCalls(deps.session, { tell: deps.secrets.tell, graceMs: deps.abortGraceMs });
  const isDue = () => hasDue(database, flow, timestampNow(clock));
  return async (signal: AbortSignal): Promise<void> => {
    // Looked at again without the lease: a wake-up that came while it was held went to a worker that did not get it.
    while (!signal.aborted && !calls.isStuck() && (await isDue())) {
      const lease = await deps.acquireLease(`push/${flow.name}`);
      if (!lease) return;
      try {
        await pushDue(deps, calls, lease, signal);
        if (calls.isStuck()) log.error({ flow: flow.name }, 'flow stands still until a call of its connector ends');
      } catch (error) {
        if (!(error instanceof LeaseLost)) throw error;
        log.warn({ flow: flow.name }, error.message);
        return;
      } finally {
        await lease.release();
      }
    }
  };
}

/** Most documents that are looked at in one transaction when few of them need a call. */
const lookAtMost = 500;

/** Pushes until nothing is due, or nothing may be sent. Throws the first thing that went wrong, when all calls ended. */
async function pushDue(deps: PushDeps, calls: ConnectorCalls, lease: Lease, outer: AbortSignal): Promise<void> {
  const { concurrency = 1, batchMax } = deps.connector.capabilities;
  const batches = createBatchPush(deps, calls, lease);
  const stop = new AbortController();
  const signal = AbortSignal.any([outer, stop.signal]);
  const running = new Map<Promise<void>, readonly Claimed[]>();
  const failures: unknown[] = [];
  let lookAt = batchMax;

  const start = (batch: Batch) => {
    const sent = batches
      .send(batch, signal)
      .catch((error: unknown) => {
        failures.push(error);
        // Another process works by now; what still runs here must not meet what it does.
        if (error instanceof LeaseLost) stop.abort(error);
      })
      .finally(() => running.delete(sent));
    running.set(sent, batch.claimed);
  };

  /** Begins what there is room for; false when nothing more can be begun before something has changed. */
  const fill = async (): Promise<boolean> => {
    const batchesMax = concurrency - running.size;
    if (batchesMax <= 0) return false;
    const room = batchesMax * batchMax;
    const { claim, intentMs } = await claimDue(deps, lease, {
      busy: busyOf(running),
      batchesMax,
      batchMax,
      lookAt: Math.max(room, lookAt),
    });
    if (claim.next !== 'work') return false;
    const isSparse = claim.batches.flat().length * 2 < room;
    lookAt = isSparse ? Math.min(lookAt * 2, lookAtMost) : batchMax;
    const toSend: (readonly Claimed[])[] = [];
    for (const batch of claim.batches) {
      const asked = batch.filter(mustLookUp);
      const answered = asked.length > 0 ? await batches.lookUp(asked, signal) : [];
      toSend.push([...batch.filter((one) => !mustLookUp(one)), ...answered]);
    }
    // What it still does would meet what is written now. All that was asked about has its intent, or its doubt, still.
    if (calls.isStuck()) return false;
    for (const claimed of toSend) if (claimed.length > 0) start({ claimed, intentMs });
    return true;
  };

  for (;;) {
    let mayFill = failures.length === 0 && !signal.aborted && !calls.isStuck();
    if (mayFill)
      mayFill = await fill().catch((error: unknown) => {
        failures.push(error);
        return false;
      });
    if (mayFill) continue;
    if (running.size === 0) break;
    await somethingHasChanged(
      [...running.keys()],
      running.size < concurrency ? (deps.lookAgainMs ?? 1_000) : undefined,
    );
  }
  if (failures.length > 0) throw failures.find((error) => error instanceof LeaseLost) ?? failures[0];
}

/** Claims under the lease, and commits the intents where nothing has to be asked or loaded before. */
async function claimDue(
  deps: PushDeps,
  lease: Lease,
  room: Pick<ClaimOptions, 'busy' | 'batchesMax' | 'batchMax' | 'lookAt'>,
): Promise<{ claim: Claim; intentMs: number | undefined }> {
  const { flow, connector, clock, log, outcomes } = deps;
  const kinds = connector.capabilities.kinds.filter((kind) => flow.documents.includes(kind));
  const nowMs = clock.nowMs();
  const result = await lease.transaction(async (tx) => {
    const claim = await claimDocuments(tx, { flow, kinds, nowMs, ...room });
    const claimed = claim.next === 'work' ? claim.batches.flat() : [];
    if (claimed.some((one) => mustLookUp(one) || isLoaded(one))) return { claim, intentMs: undefined };
    await commitIntents(tx, flow.name, claimed, { by: deps.processIdentity.own, nowMs });
    return { claim, intentMs: nowMs };
  });
  const { claim } = result;
  if (claim.next === 'nothing' && claim.pausedBy !== undefined)
    log.error({ flow: flow.name }, `flow paused: ${claim.pausedBy}`);
  if (claim.next === 'work' && claim.rejected > 0)
    outcomes.inc({ flow: flow.name, status: 'rejected' }, claim.rejected);
  return result;
}

function busyOf(running: ReadonlyMap<unknown, readonly Claimed[]>): Busy {
  const documents = [...running.values()].flat().map(({ document }) => document);
  return { kind: documents[0]?.kind, keys: documents.map(({ key }) => key) };
}

/** Waits until a call has ended, or for a moment, as there may be more to do by then. */
async function somethingHasChanged(running: readonly Promise<void>[], momentMs: number | undefined): Promise<void> {
  const waiting = new AbortController();
  const moment = momentMs === undefined ? [] : [sleep(momentMs, undefined, { signal: waiting.signal })];
  try {
    await Promise.race([...running, ...moment.map((one) => one.catch(() => undefined))]);
  } finally {
    waiting.abort();
  }
}
