/**
 * Claims due documents for the next calls. A claim runs in one transaction of the flow's lease: it makes the documents
 * from the mirror, compares them with what was delivered, writes down those that need no call, and returns the others.
 */
import { type Attempt } from '#bridge/ledger/attempts/attempt.ts';
import { type UnmadeDocument, writeUnmadeAttempts } from '#bridge/ledger/attempts/unmade-attempts.ts';
import {
  type FlowDocument,
  type InFlight,
  lockDue,
  lockForTrial,
  markOnHold,
  markUnchanged,
  markWithdrawals,
  type OnHold,
  type Postponed,
  postpone,
  readFirstDue,
  writeIntents,
} from '#bridge/ledger/flows/flow-document-store.ts';
import { readSendingFlow, setPaused } from '#bridge/ledger/flows/flow-state.ts';
import { type RecordVersion } from '#bridge/mirror/assemble/made-of.ts';
import { type DocumentsMade, makeDocuments } from '#bridge/mirror/assemble/make-documents.ts';
import { type FlowSettings } from '#bridge/settings/settings.ts';
import { type Operation } from '#connector/connector.ts';
import { type DocumentKind } from '#connector/documents.ts';
import { timestampFromMs } from '#contract/timestamp.ts';
import { type Sql } from '#platform/database/sql.ts';
import { AppError, errorText } from '#platform/errors.ts';
import { isWithdrawal, operationFor } from './decide-operation.ts';
import { guardWithdrawals } from './guard-withdrawals.ts';

/** A document that needs a call, and that call. */
export interface Claimed {
  readonly document: FlowDocument;
  readonly operation: Operation;
  /** The records that the operation's document was made of. */
  readonly madeOf: readonly RecordVersion[];
}

export type Claim =
  /** Nothing is due, or the flow may not send now. `pauseReason`: this claim has paused the flow. */
  | { readonly next: 'nothing'; readonly pauseReason?: string; readonly attempts?: readonly Attempt[] }
  /** The next due documents may only be claimed when no call is in flight. */
  | { readonly next: 'wait' }
  | {
      readonly next: 'work';
      /** Each batch is for one call. */
      readonly batches: readonly (readonly Claimed[])[];
      /** The attempts of documents that could not be made of their records. */
      readonly attempts: readonly Attempt[];
    };

export interface ClaimOptions {
  readonly flow: FlowSettings;
  /** In the order in which they are written. */
  readonly kinds: readonly DocumentKind[];
  readonly nowMs: number;
  /** The newest attempt that this process has written; null where it knows of none. */
  readonly newestAttempt: string | null;
  /** Upper bound of the number of batches. */
  readonly batchesMax: number;
  /** Upper bound of the number of operations in a batch. */
  readonly batchMax: number;
  /** Upper bound of the number of documents that are examined: some of them may need no call. */
  readonly examinedMax: number;
  readonly inFlight: InFlight;
}

/**
 * How soon a document is tried again when a record that it needs has not been read yet. This is only a safety net: the
 * record marks the document as due when it comes.
 */
const missingRecordRetryMs = 60_000;

/**
 * The same for a document of all awards of an event, which waits for the feed of awards: each pull of it that ends makes the
 * document due. A first read of a feed may take an hour, and meanwhile nearly every event waits.
 */
const unreadAwardsRetryMs = 600_000;

/**
 * Claims due documents of one kind. Documents that must be looked up, and withdrawals, are claimed apart from all
 * others, and only when no call is in flight. While the circuit is half open, one document of any kind is claimed as
 * its trial.
 */
export async function claimDocuments(tx: Sql, options: ClaimOptions): Promise<Claim> {
  const { flow, inFlight } = options;
  const now = timestampFromMs(options.nowMs);
  // It locks the flow: what is due is read behind that.
  const state = await readSendingFlow(tx, flow, now, options.newestAttempt);
  if (!state) return { next: 'nothing' };
  const first = await readFirstDue(tx, flow.name, options.kinds, now, inFlight);
  const isIdle = inFlight.keys.length === 0;
  const due = { flow: flow.name, now, documentsMax: options.examinedMax };
  if (state.isHalfOpen) {
    if (!isIdle) return { next: 'wait' };
    // Several are examined, as some may need no call; the ERP is called for one.
    const candidates = await lockForTrial(tx, due, options.kinds);
    if (candidates.length === 0) return { next: 'nothing' };
    return makeAndCompare(tx, { ...options, batchesMax: 1, batchMax: 1 }, candidates);
  }
  if (!first) return { next: 'nothing' };
  const { firstWrite, firstWithdrawal, needsLookUp } = first;
  const withdrawalsNext = firstWithdrawal !== null && (firstWrite === null || firstWithdrawal < firstWrite);
  if (!isIdle && (first.kind !== inFlight.kind || needsLookUp || withdrawalsNext)) return { next: 'wait' };
  const which = withdrawalsNext ? 'withdrawals' : needsLookUp ? 'look up' : 'plain';
  return makeAndCompare(tx, options, await lockDue(tx, due, first, which, inFlight));
}

async function makeAndCompare(tx: Sql, options: ClaimOptions, documents: readonly FlowDocument[]): Promise<Claim> {
  const { flow, nowMs } = options;
  const now = timestampFromMs(nowMs);
  const claimed: Claimed[] = [];
  const unchanged: FlowDocument[] = [];
  const newWithdrawals: FlowDocument[] = [];
  const onHold: OnHold[] = [];
  const postponed: Postponed[] = [];
  const unmade: UnmadeDocument[] = [];
  const made = await makeIsolatingFailures(tx, flow, documents);
  for (const document of documents) {
    const result = made.get(`${document.kind} ${document.key}`);
    // There was no room to make this one: it stays due.
    if (!result) continue;
    if (result.made === 'document') {
      const operation = operationFor(document, result.document, { wanted: result.wanted, nowMs });
      if (!operation) unchanged.push(document);
      else if (isWithdrawal(document, operation) && !document.withdraws) newWithdrawals.push(document);
      else claimed.push({ document, operation, madeOf: result.madeOf });
    } else if (result.made === 'held') {
      onHold.push({ document, reason: result.reason });
      unmade.push({ document, made: 'held', reason: result.reason, nextTry: null });
    } else {
      const isRejected = result.made === 'rejected';
      const retryMs = document.kind === 'event-awards' ? unreadAwardsRetryMs : missingRecordRetryMs;
      const due = isRejected ? null : timestampFromMs(nowMs + retryMs);
      unmade.push({ document, made: result.made, reason: result.reason, nextTry: due });
      postponed.push({
        document,
        reason: result.reason,
        errorType: isRejected ? 'data' : 'not-yet',
        due,
        keepIntent: document.intentId !== null,
        isFailure: isRejected,
      });
    }
  }
  await postpone(tx, flow.name, postponed, now);
  await markUnchanged(tx, flow.name, unchanged);
  await markOnHold(tx, flow.name, onHold);
  await markWithdrawals(tx, flow.name, newWithdrawals, now);
  const attempts = await writeUnmadeAttempts(tx, flow, unmade, nowMs);
  if (claimed.some(({ document, operation }) => isWithdrawal(document, operation))) {
    const reason = await guardWithdrawals(tx, flow, now);
    if (reason !== undefined) {
      await setPaused(tx, flow.name, { kind: 'withdrawals', reason }, now);
      return { next: 'nothing', attempts, pauseReason: reason };
    }
  }
  return { next: 'work', batches: inBatches(claimed, options), attempts };
}

/**
 * Makes the documents. When that throws for an unforeseen reason, each document is made alone, and only the one that
 * throws is rejected: it must not block the others.
 */
async function makeIsolatingFailures(
  tx: Sql,
  flow: FlowSettings,
  documents: readonly FlowDocument[],
): Promise<DocumentsMade> {
  try {
    return await makeDocuments(tx, flow, documents);
  } catch (error) {
    // Errors of the database or of the settings are not the fault of a document.
    if (error instanceof AppError || isPostgresError(error)) throw error;
    const [single] = documents;
    if (single && documents.length === 1)
      return new Map([
        [
          `${single.kind} ${single.key}`,
          { made: 'rejected', reason: `it cannot be made: ${errorText(error)}`, madeOf: [] },
        ],
      ]);
    const results: DocumentsMade[] = [];
    for (const document of documents) results.push(await makeIsolatingFailures(tx, flow, [document]));
    return new Map(results.flatMap((made) => [...made]));
  }
}

function isPostgresError(error: unknown): boolean {
  return error instanceof Error && 'severity' in error;
}

/**
 * Documents beyond the last batch stay due. A document that failed at least twice, the last time with an unknown
 * outcome, goes alone: it may be what makes the calls of its batch fail.
 */
function inBatches(claimed: readonly Claimed[], { batchesMax, batchMax }: ClaimOptions): Claimed[][] {
  const batches: Claimed[][] = [];
  let open: Claimed[] | undefined;
  for (const next of claimed) {
    const goesAlone = next.document.attempts >= 2 && next.document.errorType === 'unknown';
    if (!goesAlone && open && open.length < batchMax) open.push(next);
    else if (batches.length < batchesMax) {
      const batch = [next];
      batches.push(batch);
      if (!goesAlone) open = batch;
    }
  }
  return batches;
}

/** Writes the intents. Once this transaction has committed, the ERP may be called for these documents. */
export async function commitIntents(
  tx: Sql,
  flow: string,
  claimed: readonly Claimed[],
  call: { by: string; nowMs: number; limitMs: number },
): Promise<void> {
  const intents = claimed.map(({ document, operation }) => ({
    document,
    id: operation.idempotencyKey,
    hash: operation.contentHash,
  }));
  await writeIntents(tx, flow, intents, { by: call.by, now: timestampFromMs(call.nowMs), limitMs: call.limitMs });
}
