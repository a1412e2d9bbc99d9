import type { Timestamp } from '#contract/timestamp.ts';
import { type FeedRecord, rfiRecords } from '../domain/feed-records.ts';
import type { SourcingEvent } from '../domain/sourcing-event.ts';
import { loadResponses } from '../rfi/response-store.ts';
import type { UnitOfWork } from '../unit-of-work.ts';
import { announce } from './announce.ts';

/**
 * Announces a supplier's answers, and returns their records. These domain events are the points at which the RFI
 * responses feed is updated. If the event was updated since the last such point (`answers_behind`), all of its
 * responses are compared with the feed, else only these.
 */
export async function announceAnswers(
  unit: UnitOfWork,
  change: {
    domainEvent: 'answers-confirmed' | 'answer-files-changed';
    event: SourcingEvent;
    supplierId: string;
    questionIds: readonly string[];
    now: Timestamp;
  },
): Promise<FeedRecord<'rfi-responses'>[]> {
  const { domainEvent, event, supplierId, now } = change;
  const questionIds = new Set(change.questionIds);
  const responses = await loadResponses(unit.tx, event.id, supplierId);
  const records = rfiRecords(
    event,
    responses.filter(({ questionId }) => questionIds.has(questionId)),
  );
  const behind = await unit.tx.query(
    'update service.sourcing_events set answers_behind = false where id = $1 and answers_behind returning id',
    [event.id],
  );
  await announce(unit, { domainEvent, event, now, records: behind.length > 0 ? {} : { 'rfi-responses': records } });
  return records;
}
