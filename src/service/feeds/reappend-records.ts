/**
 * Appends records of an event again with a changed content that no change of the event explains: a person was erased from
 * them. Each stands at the end of its feed then, so every reader gets it, and is else what it was: what has changed of the
 * event since the record was appended does not come with it. A hidden record is changed where it stands.
 */
import { createHash } from 'node:crypto';
import { type FeedName, type FeedRecordContent, feedNames } from '#contract/feed.ts';
import type { EventStatus } from '#contract/sourcing-event.ts';
import type { Timestamp } from '#contract/timestamp.ts';
import { comparedAward, type FeedRecord } from '../domain/feed-records.ts';
import type { SourcingEvent } from '../domain/sourcing-event.ts';
import type { UnitOfWork } from '../unit-of-work.ts';
import { appendFeedRecords, type FeedChange } from './append-feed-records.ts';
import { storedBody } from './stored-record.ts';

interface StoredRow {
  readonly feed: FeedName;
  readonly id: string;
  readonly modified: Timestamp;
  readonly status: EventStatus | null;
  readonly visible: boolean;
  readonly body: string;
  readonly tags: string[] | null;
  readonly is_test: boolean | null;
  readonly requests: string[] | null;
  readonly summary: string | null;
}

/**
 * Appends the records of the event whose text `isChanged`, and returns how many there were. The caller holds the event's
 * lock. `change` returns the content without the person.
 */
export async function reappendRecords(
  unit: UnitOfWork,
  {
    event,
    now,
    isChanged,
    change,
    changeTags,
  }: {
    event: SourcingEvent;
    now: Timestamp;
    isChanged: (text: string) => boolean;
    change: (feed: FeedName, content: object) => object;
    changeTags: (tag: string) => string;
  },
): Promise<number> {
  const rows = await unit.tx.query<StoredRow>(
    `select feed, id, modified, status, visible, body, tags, is_test, requests, summary from service.feed_records
     where organisation_id = $1 and sourcing_event = $2 order by feed, modified`,
    [event.organisationId, event.id],
  );
  const changed = rows
    .filter(({ body, summary, tags }) => isChanged(body) || isChanged(summary ?? '') || (tags ?? []).some(isChanged))
    .map((row) => ({ row, record: recordOf(row, change, changeTags) }));
  const changes = feedNames
    .map((feed) => ({
      feed,
      records: changed.filter(({ row }) => row.visible && row.feed === feed).map(({ record }) => record),
    }))
    .filter(({ records }) => records.length > 0) as FeedChange[];
  if (changes.length > 0) await appendFeedRecords(unit, { event, now, changes, evenIfEqual: true });
  for (const { row, record } of changed.filter(({ row: { visible } }) => !visible)) {
    const json = JSON.stringify(record.content);
    await unit.tx.query(
      `update service.feed_records set body = $4, summary = $5, tags = $6, content_hash = $7
       where organisation_id = $1 and feed = $2 and id = $3`,
      [
        event.organisationId,
        row.feed,
        row.id,
        storedBody(json, row.modified),
        record.summary ? JSON.stringify(record.summary) : null,
        row.tags?.map(changeTags) ?? null,
        createHash('sha256')
          .update(JSON.stringify(record.compared ?? record.content))
          .digest(),
      ],
    );
  }
  return changed.length;
}

function recordOf(
  { feed, id, status, body, tags, is_test, requests, summary }: StoredRow,
  change: (feed: FeedName, content: object) => object,
  changeTags: (tag: string) => string,
): FeedRecord<FeedName> {
  const { modified: _modified, ...stored } = JSON.parse(body) as Record<string, unknown>;
  const content = change(feed, stored) as FeedRecordContent<FeedName>;
  return {
    id,
    ...(status !== null && { status }),
    ...(tags && { tags: tags.map((tag) => tagOf(changeTags(tag))) }),
    ...(is_test !== null && { isTest: is_test }),
    requests: requests ?? [],
    ...(summary !== null && {
      summary: change(feed, JSON.parse(summary) as object) as NonNullable<FeedRecord<FeedName>['summary']>,
    }),
    content,
    ...(feed === 'awards' && { compared: comparedAward(content as FeedRecordContent<'awards'>) }),
  };
}

/** The tag that `tagText` has written. */
function tagOf(text: string): { name: string; value: string } {
  const [name = '', value = ''] = JSON.parse(text) as string[];
  return { name, value };
}
