/**
 * The timeline of a document, from the change at the service to the ERP's answer. Example, of an award that the ERP
 * refused and then took:
 *
 *     12:00:00  changed    awards 1b8f… changed at the service
 *     12:00:00  announced  AWARDS_FEED_UPDATED came in
 *     12:00:01  read       awards 1b8f… is copied to the bridge
 *     12:00:01  sent       create, 10.50 EUR, under the idempotency key 0190…
 *     12:00:03  answered   retry: HTTP 503; tried again at 12:00:04
 *     12:00:04  sent       create, 10.50 EUR, under the idempotency key 0190…
 *     12:00:05  answered   created: PO-4711
 */
import type { Attempt } from '#bridge/ledger/attempts/attempt.ts';
import type { ShownDocument } from '#bridge/ledger/attempts/document-rows.ts';
import type { RecordVersion } from '#bridge/mirror/assemble/made-of.ts';
import type { FeedName } from '#contract/feed.ts';
import type { Timestamp } from '#contract/timestamp.ts';
import { parseTimestamp } from '#contract/timestamp.ts';
import type { Sql } from '#platform/database/sql.ts';
import { type AttemptPage, readAttemptsOf } from './read-attempts.ts';

export type TimelineStep =
  | 'changed'
  | 'announced'
  | 'read'
  | 'not made'
  | 'held'
  | 'waits'
  | 'looked up'
  | 'sent'
  | 'answered';

export interface TimelineEntry {
  readonly at: Timestamp;
  readonly step: TimelineStep;
  /** A sentence for a person. */
  readonly text: string;
  /** The ERP's reference, where the entry has one. */
  readonly reference?: string;
  /** The attempt, the record, the notification or the pull: what joins it with the log. */
  readonly ids: Readonly<Record<string, string>>;
}

export interface Timeline {
  /** The oldest first. */
  readonly entries: readonly TimelineEntry[];
  /** The attempts that the page shows, the oldest first. */
  readonly attempts: readonly Attempt[];
  /** The place of the page before, of older attempts; undefined when there are none. */
  readonly before: string | undefined;
}

/** Of a document of a thousand lots, so many changed records stand in the timeline for each version. */
const recordsShownMax = 10;

/**
 * Returns a page of a document's timeline: its newest attempts, with the changes, notifications and reads that led to
 * them. `madeOf` are the records that the document is made of now.
 */
export async function readTimeline(
  sql: Sql,
  document: ShownDocument,
  page: AttemptPage & { madeOf: readonly RecordVersion[] },
): Promise<Timeline> {
  const found = await readAttemptsOf(sql, document, { ...page, limit: page.limit + 1 });
  const attempts = found.slice(0, page.limit).reverse();
  const hasMore = found.length > page.limit;
  const isNewest = page.before === undefined && page.to === undefined;
  const records = distinctOf([
    ...(await readMadeOf(sql, document, attempts)),
    ...(isNewest ? [page.madeOf.slice(0, recordsShownMax)] : []),
  ]);
  const pulls = [...attempts.map(({ pull }) => pull), ...(isNewest ? [document.pull] : [])];
  const entries = [
    ...(await recordEntries(sql, document.source, records)),
    ...(await notificationEntries(
      sql,
      pulls.flatMap((pull) => pull ?? []),
    )),
    ...attempts.flatMap(entriesOf),
  ];
  const order: readonly TimelineStep[] = ['changed', 'announced', 'read'];
  const rank = ({ step }: TimelineEntry) => (order.includes(step) ? order.indexOf(step) : order.length);
  return {
    // Stable, so that what an attempt was stays in its order.
    entries: entries.toSorted((a, b) => (a.at === b.at ? rank(a) - rank(b) : a.at < b.at ? -1 : 1)),
    attempts,
    before: hasMore ? attempts[0]?.id : undefined,
  };
}

/** The records that each of these attempts' versions was made of. */
async function readMadeOf(sql: Sql, { flow, kind, key }: ShownDocument, attempts: readonly Attempt[]) {
  const rows = await sql.query<{ madeOf: string }>(
    `select made_of as "madeOf" from bridge.document_versions
     where flow = $1 and kind = $2 and key = $3 and content_hash = any($4) order by sent`,
    [flow, kind, key, [...new Set(attempts.flatMap(({ contentHash }) => contentHash ?? []))]],
  );
  return rows.map(({ madeOf }) => (JSON.parse(madeOf) as RecordVersion[]).slice(0, recordsShownMax));
}

function distinctOf(lists: readonly (readonly RecordVersion[])[]): RecordVersion[] {
  return [...new Map(lists.flat().map((record) => [JSON.stringify(record), record])).values()];
}

/** When each version changed at the service, and when the bridge read it; versions that are not kept have no second. */
async function recordEntries(sql: Sql, source: string, records: readonly RecordVersion[]): Promise<TimelineEntry[]> {
  const timed = records.flatMap(({ feed, id, modified }) => {
    const at = modified === undefined ? undefined : parseTimestamp(modified);
    return at === undefined ? [] : [{ feed: feed as FeedName, id, at }];
  });
  if (timed.length === 0) return [];
  const seen = await sql.query<{ feed: string; id: string; at: Timestamp; seen: Timestamp }>(
    `select k.feed, k.id, k.at, coalesce(m.seen, h.seen) as seen
     from unnest($2::text[], $3::text[], $4::timestamptz[]) as k (feed, id, at)
     left join bridge.mirror m on m.source = $1 and m.feed = k.feed and m.record_id = k.id and m.modified = k.at
     left join lateral (select min(seen) as seen from bridge.mirror_history h
       where h.source = $1 and h.feed = k.feed and h.record_id = k.id and h.modified = k.at) h on true
     where coalesce(m.seen, h.seen) is not null`,
    [source, timed.map(({ feed }) => feed), timed.map(({ id }) => id), timed.map(({ at }) => at)],
  );
  const read = seen.map(
    ({ feed, id, seen: at }): TimelineEntry => ({
      at,
      step: 'read',
      text: `${feed} ${id} is copied to the bridge`,
      ids: { feed, record: id },
    }),
  );
  const changed = timed.map(
    ({ feed, id, at }): TimelineEntry => ({
      at,
      step: 'changed',
      text: `${feed} ${id} changed at the service`,
      ids: { feed, record: id },
    }),
  );
  return [...changed, ...read];
}

/** The first notifications that each of these pulls has answered. */
async function notificationEntries(sql: Sql, pulls: readonly string[]): Promise<TimelineEntry[]> {
  if (pulls.length === 0) return [];
  const rows = await sql.query<{ id: number; trigger: string; received: Timestamp; pull: string }>(
    `select n.* from unnest($1::uuid[]) as p (pull) join bridge.answers a on a.pull = p.pull cross join lateral (
       select id, trigger, received, p.pull from bridge.inbox i
       where i.source = a.source and i.feed = a.feed and i.id > a.after_id and i.id <= a.last_id
       order by id limit 3) n
     order by id`,
    [[...new Set(pulls)]],
  );
  return rows.map(({ id, trigger, received, pull }) => ({
    at: received,
    step: 'announced',
    text: `${trigger} came in`,
    ids: { notification: String(id), pull },
  }));
}

/** What an attempt was, as one or two entries. */
function entriesOf(attempt: Attempt): TimelineEntry[] {
  const { step, outcome, action, started, ended, message, reference } = attempt;
  const ids = {
    attempt: attempt.id,
    ...(attempt.requestId !== null && { idempotencyKey: attempt.requestId }),
    ...(attempt.contentHash !== null && { contentHash: attempt.contentHash }),
    ...(attempt.pull !== null && { pull: attempt.pull }),
  };
  const said = message === null ? '' : `: ${message}`;
  const next = attempt.nextTry === null ? '' : `; next at ${attempt.nextTry.slice(0, 19)}Z`;
  const named = reference === null ? {} : { reference };
  if (step === 'make' && outcome === 'held') return [{ at: ended, step: 'held', text: `held${said}`, ids, ...named }];
  if (step === 'make')
    return [{ at: ended, step: 'not made', text: `${message ?? 'it could not be made'}${next}`, ids, ...named }];
  if (step === 'wait') return [{ at: ended, step: 'waits', text: `${message ?? ''}${next}`, ids, ...named }];
  const answered = outcome === 'rejected' ? 'refused' : outcome;
  const shown = 'reference' in named && message === null ? `: ${reference}` : said;
  if (step !== 'write')
    return [
      {
        at: ended,
        step: step === 'load' ? 'not made' : 'looked up',
        text: `${answered}${shown}${next}`,
        ids,
        ...named,
      },
    ];
  const amount = attempt.amount === null ? '' : `, ${attempt.amount} ${attempt.currency ?? ''}`.trimEnd();
  return [
    {
      at: started,
      step: 'sent',
      text: `${action}${amount}, idempotency key ${attempt.requestId}`,
      ids,
      ...(action !== 'create' && named),
    },
    { at: ended, step: 'answered', text: `${answered}${shown}${next}`, ids, ...named },
  ];
}
