/**
 * The push of one flow. It reconciles and does not replay: each due document is made from the mirror, compared with
 * what was last delivered, and the connector is called only for a difference. There are as many calls at once as the
 * connector takes, never for two kinds at once and never twice for one key; each is settled when it ends, whatever
 * becomes of the others.
 *
 * Example: flow `sap` has delivered document A-17 as order 4711 with content hash 9c. An award changes: A-17 is due.
 * The connector has `timeoutMs` 30,000 and `lateEffectMs` 0. Process 310 pushes:
 *
 *     12:00:00  claim    makes A-17, now with hash e1, and claims it: amend 4711, idempotency key k1
 *     12:00:00  intent   commits k1, e1, the time and its identity; with the claim if no lookup or file is needed
 *     12:00:01  call     write([amend 4711 to e1, key k1]), until 12:00:30 at the latest
 *     12:00:03  outcome  `updated`: commits e1 as delivered and clears the intent
 *
 * Process 310 is killed, and process 311 goes on:
 *
 *     killed before the intent     nothing was committed; 311 claims A-17 in the same way, under a new key
 *     killed before the outcome    k1 stands, and the ERP may have taken the call or not; 311 claims A-17 and calls
 *                                  `lookup`: at once if it sees on the same machine that 310 is dead, else at 12:00:37
 *                                  (30 s time limit, 5 s to stop, 2 s between the clocks; `wait-for-effect.ts`)
 *       the ERP holds e1           311 settles `unchanged` without a call
 *       the ERP holds 9c           311 amends 4711, again under k1
 *       the ERP holds no object    311 creates one, under k1
 *       311 is killed in `lookup`  k1 still stands; the next process looks A-17 up again
 *     killed after the outcome     nothing is left to do
 *
 * Documents whose state in the ERP is uncertain, and those that an operator replays, are looked up in the same way.
 *
 * A new withdrawal is only marked as one when it is claimed. It is claimed again, and sent, when all withdrawals of its
 * kind are known and `guard-withdrawals.ts` lets them pass.
 *
 * A process that was frozen finds before the call that its time is over, or after it that another process has taken
 * over the lease. In the second case its call may have reached the ERP after the other's: it marks the document as
 * uncertain, so that the ERP is asked.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { abortGraceMs, type ConnectorCalls, createConnectorCalls } from '#bridge/connectors/connector-calls.ts';
import { logAttempts } from '#bridge/ledger/attempts/log-attempts.ts';
import { type InFlight } from '#bridge/ledger/flows/flow-document-store.ts';
import { hasDue } from '#bridge/ledger/flows/flow-state.ts';
import { type AcquireLease, type Lease, LeaseLost } from '#bridge/ledger/leases/lease.ts';
import { type Session } from '#connector/connector.ts';
import { timestampNow } from '#platform/clock.ts';
import { type Sql } from '#platform/database/sql.ts';
import { needsFile } from './batch/attach-files.ts';
import { type Batch, type BatchDeps, createBatchPush } from './batch/push-batch.ts';
import { type Claim, type Claimed, type ClaimOptions, claimDocuments, commitIntents } from './claim/claim-documents.ts';
import { mustLookUp } from './claim/decide-operation.ts';

export interface PushDeps extends BatchDeps {
  session: Session;
  acquireLease: AcquireLease;
  /** How long a connector may take to stop after the signal of a call has aborted. */
  abortGraceMs?: number;
  /** How often the pusher looks for new due documents while calls are in flight and there is room for more. */
  recheckMs?: number;
}

/**
 * Creates the worker of a flow. It pushes everything that is due, and returns when nothing is due or another process
 * holds the flow's lease. Rejects with the first error that kept it from going on, after all its calls have ended.
 */
export function createFlowPush(deps: PushDeps) {
  const { flow, database, clock, log } = deps;
  const calls = createConnectorCalls(deps.session, { secrets: deps.secrets, graceMs: deps.abortGraceMs });
  const isDue = () => hasDue(database, flow, timestampNow(clock), deps.newestAttempt?.id() ?? null);
  return async (signal: AbortSignal): Promise<void> => {
    // Checked again after the lease was released: while this worker held it, a wake-up may have gone to another worker,
    // which did not get the lease.
    while (!signal.aborted && !calls.isStuck() && (await isDue())) {
      const lease = await deps.acquireLease(`push/${flow.name}`);
      if (!lease) return;
      try {
        await pushDue(deps, calls, lease, signal);
        if (calls.isStuck())
          log.error({ flow: flow.name }, 'flow is stuck until a call of its connector ends: it did not stop in time');
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

/** Upper bound of the documents that are examined in one transaction when few of them need a call. */
const examinedCeiling = 500;

/**
 * Pushes until nothing is due, or nothing may be sent. When something fails, it starts nothing more, waits until all
 * calls have ended, and throws the first error, a lost lease before others.
 */
async function pushDue(deps: PushDeps, calls: ConnectorCalls, lease: Lease, outer: AbortSignal): Promise<void> {
  const { concurrency = 1, batchMax } = deps.connector.capabilities;
  const batches = createBatchPush(deps, calls, lease);
  const stop = new AbortController();
  const signal = AbortSignal.any([outer, stop.signal]);
  const running = new Map<Promise<void>, readonly Claimed[]>();
  const failures: unknown[] = [];
  let examinedMax = batchMax;

  const start = (batch: Batch) => {
    const sent = batches
      .send(batch, signal)
      .catch((error: unknown) => {
        failures.push(error);
        // Another process pushes this flow now: the calls that still run here must not collide with its calls.
        if (error instanceof LeaseLost) stop.abort(error);
      })
      .finally(() => running.delete(sent));
    running.set(sent, batch.claimed);
  };

  /** Claims and starts what there is room for; returns false when nothing more can start until something changes. */
  const startMore = async (): Promise<boolean> => {
    const batchesMax = concurrency - running.size;
    if (batchesMax <= 0) return false;
    const room = batchesMax * batchMax;
    const { claim, intentMs } = await claimDue(deps, lease, {
      inFlight: inFlightOf(running),
      batchesMax,
      batchMax,
      examinedMax: Math.max(room, examinedMax),
    });
    if (claim.next !== 'work') return false;
    const isSparse = claim.batches.flat().length * 2 < room;
    examinedMax = isSparse ? Math.min(examinedMax * 2, examinedCeiling) : batchMax;
    const toSend: (readonly Claimed[])[] = [];
    for (const batch of claim.batches) {
      const toLookUp = batch.filter(mustLookUp);
      const toWrite = toLookUp.length > 0 ? await batches.lookUp(toLookUp, signal) : [];
      toSend.push([...batch.filter((claimed) => !mustLookUp(claimed)), ...toWrite]);
    }
    // What a lookup that does not end still does could collide with a write. The documents are still marked as
    // interrupted or uncertain, so they are looked up again.
    if (calls.isStuck()) return false;
    for (const claimed of toSend) if (claimed.length > 0) start({ claimed, intentMs });
    return true;
  };

  for (;;) {
    let mayStartMore = failures.length === 0 && !signal.aborted && !calls.isStuck();
    if (mayStartMore)
      mayStartMore = await startMore().catch((error: unknown) => {
        failures.push(error);
        return false;
      });
    if (mayStartMore) continue;
    if (running.size === 0) break;
    const hasRoom = running.size < concurrency;
    await waitForChange([...running.keys()], hasRoom ? (deps.recheckMs ?? 1_000) : undefined);
  }
  if (failures.length > 0) throw failures.find((error) => error instanceof LeaseLost) ?? failures[0];
}

/**
 * Claims under the lease. Commits the intents in the same transaction when nothing has to be looked up or loaded
 * before.
 */
async function claimDue(
  deps: PushDeps,
  lease: Lease,
  room: Pick<ClaimOptions, 'inFlight' | 'batchesMax' | 'batchMax' | 'examinedMax'>,
): Promise<{ claim: Claim; intentMs: number | undefined }> {
  const { flow, connector, clock, log, outcomes } = deps;
  const kinds = connector.capabilities.kinds.filter((kind) => flow.documents.includes(kind));
  const nowMs = clock.nowMs();
  const options = { flow, kinds, nowMs, newestAttempt: deps.newestAttempt?.id() ?? null, ...room };
  const work = async (tx: Sql) => {
    const claim = await claimDocuments(tx, options);
    const claimed = claim.next === 'work' ? claim.batches.flat() : [];
    if (claimed.some((entry) => mustLookUp(entry) || needsFile(entry))) return { claim, intentMs: undefined };
    const limitMs = connector.capabilities.timeoutMs + abortGraceMs;
    await commitIntents(tx, flow.name, claimed, { by: deps.processIdentity.own, nowMs, limitMs });
    return { claim, intentMs: nowMs };
  };
  const result = await lease.transaction(work);
  const { claim } = result;
  if (claim.next === 'nothing' && claim.pauseReason !== undefined)
    log.error({ flow: flow.name, state: 'paused' }, `flow paused: ${claim.pauseReason}`);
  const attempts = claim.next === 'wait' ? [] : (claim.attempts ?? []);
  logAttempts(log, attempts);
  for (const { outcome } of attempts) if (outcome === 'rejected') outcomes.inc({ flow: flow.name, status: outcome });
  return result;
}

function inFlightOf(running: ReadonlyMap<unknown, readonly Claimed[]>): InFlight {
  const documents = [...running.values()].flat().map(({ document }) => document);
  return { kind: documents[0]?.kind, keys: documents.map(({ key }) => key) };
}

/** Waits until a call has ended, at most for `timeoutMs`. Without `timeoutMs` only the end of a call counts. */
async function waitForChange(running: readonly Promise<void>[], timeoutMs: number | undefined): Promise<void> {
  const waiting = new AbortController();
  const timer =
    timeoutMs === undefined ? [] : [sleep(timeoutMs, undefined, { signal: waiting.signal }).catch(() => undefined)];
  try {
    await Promise.race([...running, ...timer]);
  } finally {
    waiting.abort();
  }
}
