/**
 * Decides whether a document is sent to the ERP again, and how. Pure. Example: order 4711 was delivered with the content
 * hash 9c.
 *
 * | the document now            | decided                                                |
 * |-----------------------------|--------------------------------------------------------|
 * | content 9c                  | no call: the ERP holds it                              |
 * | content e1                  | amend 4711                                             |
 * | not wanted any more         | cancel 4711                                            |
 * | content 9c, and a replay    | look up 4711 first, then amend it if the ERP differs   |
 * | content 9c, an open intent  | look up first: the interrupted call may have been made |
 */
import type { FlowDocument } from '#bridge/ledger/flows/flow-document-store.ts';
import { documentHash } from '#bridge/mirror/assemble/make-documents.ts';
import type { Operation } from '#connector/connector.ts';
import type { Document } from '#connector/documents.ts';
import { timeOrderedId } from '#platform/time-ordered-id.ts';

/**
 * Whether the ERP must be asked what it holds before a call: an earlier call was interrupted, the ERP's state is
 * uncertain, or an operator asked for a replay.
 */
export function mustLookUp({ document }: { readonly document: FlowDocument }): boolean {
  return document.intentId !== null || document.forced || document.uncertainSince !== null;
}

/**
 * Returns the operation that brings the ERP in step with this document; undefined when the ERP holds it already. A
 * repetition of an interrupted call with the same content keeps that call's idempotency key. A new key sorts by time, so
 * that the history's index of them grows at its end.
 */
export function operationFor(
  document: FlowDocument,
  content: Document,
  { wanted, nowMs }: { wanted: boolean; nowMs: number },
): Operation | undefined {
  const contentHash = documentHash(content);
  const { intentId, intentHash, deliveredHash } = document;
  if (!mustLookUp({ document }) && deliveredHash === (wanted ? contentHash : null)) return undefined;
  return {
    action: wanted ? (deliveredHash === null ? 'create' : 'amend') : 'cancel',
    document: content,
    contentHash,
    idempotencyKey: intentId !== null && intentHash === contentHash ? intentId : timeOrderedId(nowMs),
    reference: document.reference ?? undefined,
  };
}

/** Whether nothing says that this document was ever sent: after a restore the ERP may hold it all the same. */
export function isUntried({ deliveredHash, delivered, intentId, reference, attempts }: FlowDocument): boolean {
  return deliveredHash === null && delivered === null && intentId === null && reference === null && attempts === 0;
}

/** Whether the operation cancels an object that the ERP holds, or may hold after an interrupted call. */
export function isWithdrawal({ deliveredHash, intentId }: FlowDocument, { action }: Operation): boolean {
  return action === 'cancel' && (deliveredHash !== null || intentId !== null);
}
