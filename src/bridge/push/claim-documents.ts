import { randomUUID } from 'node:crypto';
import type { Operation } from '#connector/connector.ts';
import type { Document } from '#connector/documents.ts';
import { timestampFromMs } from '#contract/timestamp.ts';
import type { Sql } from '#platform/database/database.ts';
import type { FlowSettings } from '../settings.ts';
import {
  type FlowDocument,
  markUnchanged,
  type Postponed,
  postpone,
  takeDue,
  writeIntents,
} from './flow-document-store.ts';
import { hashOf, makeDocuments } from './make-documents.ts';

/** A document whose call is to be made. */
export interface Claimed {
  readonly document: FlowDocument;
  readonly operation: Operation;
}

export interface Claim {
  /** How many were due; 0 when there is nothing to do. */
  readonly due: number;
  readonly claimed: readonly Claimed[];
  /** Of the due ones, those that could not be made of their records: dead letters now. */
  readonly rejected: number;
}

/** How soon a document is looked at again whose records are not all here: a safety net, as those records mark it. */
const notYetMs = 60_000;

/** Whether an earlier call for this document was cut off: nobody knows what became of it. */
export function isCutOff({ document }: Claimed): boolean {
  return document.intentId !== null;
}

/** Picks due documents, makes them, settles those that need no call, and gives the others. */
export async function claimDocuments(tx: Sql, flow: FlowSettings, nowMs: number, most: number): Promise<Claim> {
  const now = timestampFromMs(nowMs);
  const due = await takeDue(tx, flow.name, now, most);
  if (due.length === 0) return { due: 0, claimed: [], rejected: 0 };
  const keys = due.map(({ key }) => key);
  const made = await makeDocuments(tx, flow, keys);
  const claimed: Claimed[] = [];
  const unchanged: FlowDocument[] = [];
  const postponed: Postponed[] = [];
  for (const document of due) {
    const result = made.get(document.key);
    if (result?.made === 'document') {
      const operation = operationFor(document, result.document);
      if (operation) claimed.push({ document, operation });
      else unchanged.push(document);
    } else {
      const rejected = result?.made === 'rejected';
      const reason = result?.reason ?? 'it could not be made';
      const again = rejected ? null : timestampFromMs(nowMs + notYetMs);
      postponed.push({ document, reason, due: again, unknown: document.intentId !== null, failed: rejected });
    }
  }
  await postpone(tx, flow.name, postponed, now);
  await markUnchanged(tx, flow.name, unchanged);
  return { due: due.length, claimed, rejected: postponed.filter((one) => one.due === null).length };
}

/** From this transaction's commit on the ERP may be called for these. */
export async function commitIntents(tx: Sql, flow: string, claimed: readonly Claimed[], nowMs: number): Promise<void> {
  const intents = claimed.map(({ document, operation }) => ({
    document,
    id: operation.idempotencyKey,
    hash: operation.contentHash,
  }));
  await writeIntents(tx, flow, intents, timestampFromMs(nowMs));
}

/** What has to be called for this document; undefined when the ERP holds it already. */
function operationFor(document: FlowDocument, content: Document): Operation | undefined {
  const contentHash = hashOf(content);
  const wanted = content.lines.length > 0;
  const cutOff = document.intentId !== null;
  if (!cutOff && document.deliveredHash === (wanted ? contentHash : null)) return undefined;
  const repeated = cutOff && document.intentHash === contentHash;
  return {
    action: wanted ? (document.deliveredHash === null ? 'create' : 'amend') : 'cancel',
    document: content,
    contentHash,
    idempotencyKey: repeated && document.intentId !== null ? document.intentId : randomUUID(),
    reference: document.reference ?? undefined,
  };
}
