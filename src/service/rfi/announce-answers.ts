import type { Timestamp } from '#contract/timestamp.ts';
import { type FeedRecord, rfiRecords } from '../domain/feed-records.ts';
import type { SourcingEvent } from '../domain/sourcing-event.ts';
import { announce } from '../events/announce.ts';
import type { UnitOfWork } from '../unit-of-work.ts';
import { loadResponses } from './rfi-store.ts';

/**
 * Announces what a supplier answered, and gives those records. Each of these domainEvents is a point of the RFI responses
 * feed, at which every record that lags behind catches up: where the event has been updated since, all of its responses
 * are looked at, else only these.
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
): Promise<FeedRecord[]> {
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
