import { randomUUID } from 'node:crypto';
import { type DocumentsMade, documentHash, makeDocuments } from '#bridge/assemble/make-documents.ts';
import { haltFlow, readSendingFlow } from '#bridge/flows/flow-state.ts';
import type { FlowSettings } from '#bridge/settings.ts';
import type { Operation } from '#connector/connector.ts';
import type { Document, DocumentKind } from '#connector/documents.ts';
import { timestampFromMs } from '#contract/timestamp.ts';
import type { Sql } from '#platform/database/database.ts';
import { AppError, errorText } from '#platform/errors.ts';
import {
  type Busy,
  type FlowDocument,
  type Held,
  markHeld,
  markUnchanged,
  markWithdrawals,
  type Postponed,
  postpone,
  readFirstDue,
  takeDue,
  takeToTry,
  writeIntents,
} from './flow-document-store.ts';
import { guardWithdrawals } from './guard-withdrawals.ts';

/** A document whose call is to be made. */
export interface Claimed {
  readonly document: FlowDocument;
  readonly operation: Operation;
}

export type Claim =
  /** Nothing is due, or nothing may be sent now. */
  | { readonly next: 'nothing'; readonly pausedBy?: string }
  /** What is due next may not be begun while anything else runs. */
  | { readonly next: 'wait' }
  | {
      readonly next: 'work';
      /** Each for one call. */
      readonly batches: readonly (readonly Claimed[])[];
      /** Of those that were looked at, the ones that could not be made of their records: dead letters now. */
      readonly rejected: number;
    };

export interface ClaimOptions {
  readonly flow: FlowSettings;
  /** In the order in which they are written. */
  readonly kinds: readonly DocumentKind[];
  readonly nowMs: number;
  /** Most batches, and most operations in each. */
  readonly batchesMax: number;
  readonly batchMax: number;
  /** Most documents that are looked at: some of them may need no call. */
  readonly lookAt: number;
  /** What is being worked on; without keys nothing is. */
  readonly busy: Busy;
}

/** How soon a document is looked at again whose records are not all here: a safety net, as those records mark it. */
const notYetMs = 60_000;

/** Whether the ERP has to be asked first: an earlier call was cut off or is in doubt, or a person wants another one. */
export function mustLookUp({ document }: Pick<Claimed, 'document'>): boolean {
  return document.intentId !== null || document.forced || document.uncertainSince !== null;
}

/**
 * Picks due documents of one kind, makes them, settles those that need no call, and gives the others: either all of them
 * must be looked up, or are withdrawals, and nothing else is being worked on, or none.
 */
export async function claimDocuments(tx: Sql, options: ClaimOptions): Promise<Claim> {
  const { flow, busy } = options;
  const now = timestampFromMs(options.nowMs);
  const state = await readSendingFlow(tx, flow, now);
  if (!state) return { next: 'nothing' };
  const isIdle = busy.keys.length === 0;
  const due = { flow: flow.name, now, most: options.lookAt };
  if (state.isHalfOpen) {
    if (!isIdle) return { next: 'wait' };
    // Several are looked at, as some may need no call; one is called for.
    const some = await takeToTry(tx, due, options.kinds);
    return some.length === 0 ? { next: 'nothing' } : work(tx, { ...options, batchesMax: 1, batchMax: 1 }, some);
  }
  const first = await readFirstDue(tx, flow.name, options.kinds, now, busy);
  if (!first) return { next: 'nothing' };
  const withdrawals = first.firstWithdrawal !== null && (first.first === null || first.firstWithdrawal < first.first);
  if (!isIdle && (first.kind !== busy.kind || first.lookUp || withdrawals)) return { next: 'wait' };
  const which = withdrawals ? 'withdrawals' : first.lookUp ? 'look up' : 'plain';
  return work(tx, options, await takeDue(tx, due, first, which, busy));
}

async function work(tx: Sql, options: ClaimOptions, taken: readonly FlowDocument[]): Promise<Claim> {
  const { flow, nowMs } = options;
  const now = timestampFromMs(nowMs);
  const claimed: Claimed[] = [];
  const unchanged: FlowDocument[] = [];
  const withdrawals: FlowDocument[] = [];
  const held: Held[] = [];
  const postponed: Postponed[] = [];
  const made = await makeThem(tx, flow, taken);
  for (const document of taken) {
    const result = made.get(`${document.kind} ${document.key}`);
    // Not made for want of room: due still.
    if (!result) continue;
    if (result.made === 'document') {
      const operation = operationFor(document, result.document, result.wanted);
      if (!operation) unchanged.push(document);
      else if (isWithdrawal(document, operation) && !document.withdraws) withdrawals.push(document);
      else claimed.push({ document, operation });
    } else if (result.made === 'held') held.push({ document, reason: result.reason });
    else {
      const rejected = result.made === 'rejected';
      postponed.push({
        document,
        reason: result.reason,
        errorType: rejected ? 'data' : 'not-yet',
        due: rejected ? null : timestampFromMs(nowMs + notYetMs),
        unknown: document.intentId !== null,
        failed: rejected,
      });
    }
  }
  await postpone(tx, flow.name, postponed, now);
  await markUnchanged(tx, flow.name, unchanged);
  await markHeld(tx, flow.name, held);
  await markWithdrawals(tx, flow.name, withdrawals, now);
  if (claimed.some(({ document, operation }) => isWithdrawal(document, operation))) {
    const reason = await guardWithdrawals(tx, flow, now);
    if (reason !== undefined) {
      await haltFlow(tx, flow.name, { kind: 'withdrawals', reason }, now);
      return { next: 'nothing', pausedBy: reason };
    }
  }
  const rejected = postponed.filter((one) => one.due === null).length;
  return { next: 'work', batches: inBatches(claimed, options), rejected };
}

/** A document that cannot be made for a reason that nobody has thought of keeps no other from its turn. */
async function makeThem(tx: Sql, flow: FlowSettings, documents: readonly FlowDocument[]): Promise<DocumentsMade> {
  try {
    return await makeDocuments(tx, flow, documents);
  } catch (error) {
    // What the database or the settings refuse is no document's fault.
    if (error instanceof AppError || hasSeverity(error)) throw error;
    const [one] = documents;
    if (one && documents.length === 1)
      return new Map([
        [`${one.kind} ${one.key}`, { made: 'rejected', reason: `it cannot be made: ${errorText(error)}` }],
      ]);
    const each: DocumentsMade[] = [];
    for (const document of documents) each.push(await makeThem(tx, flow, [document]));
    return new Map(each.flatMap((made) => [...made]));
  }
}

/** As the errors of PostgreSQL have. */
function hasSeverity(error: unknown): boolean {
  return error instanceof Error && 'severity' in error;
}

/** What is too much for now is due still. One that had its calls end in nothing goes alone: it may spoil the others. */
function inBatches(claimed: readonly Claimed[], { batchesMax, batchMax }: ClaimOptions): Claimed[][] {
  const batches: Claimed[][] = [];
  let open: Claimed[] | undefined;
  for (const one of claimed) {
    const alone = one.document.attempts >= 2 && one.document.errorType === 'unknown';
    if (!alone && open && open.length < batchMax) open.push(one);
    else if (batches.length < batchesMax) {
      const batch = [one];
      batches.push(batch);
      if (!alone) open = batch;
    }
  }
  return batches;
}

/** From this transaction's commit on the ERP may be called for these. */
export async function commitIntents(
  tx: Sql,
  flow: string,
  claimed: readonly Claimed[],
  call: { by: string; nowMs: number },
): Promise<void> {
  const intents = claimed.map(({ document, operation }) => ({
    document,
    id: operation.idempotencyKey,
    hash: operation.contentHash,
  }));
  await writeIntents(tx, flow, intents, { by: call.by, now: timestampFromMs(call.nowMs) });
}

/** Of what the ERP holds, or may hold. */
function isWithdrawal({ deliveredHash, intentId }: FlowDocument, { action }: Operation): boolean {
  return action === 'cancel' && (deliveredHash !== null || intentId !== null);
}

/** What has to be called for this document; undefined when the ERP holds it already. */
export function operationFor(document: FlowDocument, content: Document, wanted: boolean): Operation | undefined {
  const contentHash = documentHash(content);
  const { intentId, intentHash, deliveredHash } = document;
  if (!mustLookUp({ document }) && deliveredHash === (wanted ? contentHash : null)) return undefined;
  return {
    action: wanted ? (deliveredHash === null ? 'create' : 'amend') : 'cancel',
    document: content,
    contentHash,
    idempotencyKey: intentId !== null && intentHash === contentHash ? intentId : randomUUID(),
    reference: document.reference ?? undefined,
  };
}
