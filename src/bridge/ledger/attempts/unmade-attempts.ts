/** The attempts that ended before any call: documents that could not be made of their records. */
import { withNames } from '#bridge/mirror/subjects.ts';
import type { FlowSettings } from '#bridge/settings/settings.ts';
import { type Timestamp, timestampFromMs } from '#contract/timestamp.ts';
import type { Sql } from '#platform/database/sql.ts';
import { timeOrderedId } from '#platform/time-ordered-id.ts';
import type { FlowDocument } from '../flows/flow-document-store.ts';
import { type Attempt, subjectOfKey } from './attempt.ts';
import { writeAttempts } from './attempt-store.ts';

/** A document that was not made, and what became of it. */
export interface UnmadeDocument {
  readonly document: FlowDocument;
  readonly made: 'not-yet' | 'rejected' | 'held';
  readonly reason: string;
  /** When it is made again; null when only a change, or an operator, makes it due. */
  readonly nextTry: Timestamp | null;
}

/**
 * Writes these attempts in the transaction of the claim, and returns them. A document that waits for a record is tried
 * every minute: only the first of equal attempts in a row is written.
 */
export async function writeUnmadeAttempts(
  tx: Sql,
  flow: Pick<FlowSettings, 'name' | 'source'>,
  unmade: readonly UnmadeDocument[],
  nowMs: number,
): Promise<readonly Attempt[]> {
  const news = unmade.filter(
    ({ document, made, reason }) => made === 'rejected' || document.errorType !== made || document.lastError !== reason,
  );
  if (news.length === 0) return [];
  const now = timestampFromMs(nowMs);
  const attempts = news.map(
    ({ document, made, reason, nextTry }): Attempt => ({
      id: timeOrderedId(nowMs),
      flow: flow.name,
      kind: document.kind,
      key: document.key,
      ...subjectOfKey(document),
      amount: null,
      currency: null,
      action: null,
      step: 'make',
      outcome: made,
      number: document.attempts + 1,
      started: now,
      ended: now,
      nextTry,
      errorType: made === 'rejected' ? 'data' : null,
      message: reason,
      reference: document.reference,
      contentHash: null,
      requestId: null,
      pull: document.pull,
    }),
  );
  const named = await withNames(tx, flow.source, attempts);
  await writeAttempts(tx, flow.name, named);
  return named;
}
