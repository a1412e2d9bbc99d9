/**
 * Notices when a source changes: fields that were never seen, values of a new form, another paging or page size, a clock
 * that jumped, and a field that a flow needs and that is gone. Records are stored as they came; this only tells.
 *
 * What is known is learned during the first sync and from the first records, and kept in SQL (`bridge.source_forms`),
 * with each change as a row (`bridge.source_changes`), in the transaction that stores the page. While nothing is new,
 * nothing is read or written. Of a large page only some records are looked at.
 */
import type { NeededField } from '#bridge/documents/needed-fields.ts';
import type { FeedName } from '#contract/feed.ts';
import type { Timestamp } from '#contract/timestamp.ts';
import { prepared, type Sql } from '#platform/database/sql.ts';
import { storableText } from '#platform/database/storable-text.ts';
import type { Counter } from '#platform/metrics.ts';
import type { FeedId } from '../feed/checkpoint-store.ts';
import { type AnswerTraits, noticeAnswer, type WatchedAnswer } from './answer-traits.ts';
import { createLearnedFields, type LearnedFields } from './learned-fields.ts';
import { countNeeded, type NeededCount } from './needed-counts.ts';

/** What a page has shown. */
export interface WatchedPage {
  /** The records that were new or changed. */
  readonly changed: readonly Readonly<Record<string, unknown>>[];
  /** Only of live reads. */
  readonly answer?: WatchedAnswer | undefined;
}

export interface SourceWatch {
  /** Looks at a page, in the transaction that stores it. Rejects when the database is away. */
  notice(tx: Sql, page: WatchedPage, now: Timestamp): Promise<void>;
  /** The transaction was rolled back: what was learned in it is forgotten. */
  forget(): void;
}

/** So many records are learned from before anything counts as a change. */
const learnedMin = 200;
/** Of a page at most so many records are looked at. */
const examinedMax = 64;
/** What was learned is stored again once it has grown by this part. */
const growth = 1.1;

interface Known {
  readonly fields: LearnedFields;
  readonly counts: Map<string, NeededCount>;
  readonly traits: AnswerTraits;
  records: number;
  /** How many records had been looked at when this was stored last. */
  stored: number;
  /** Grows each time that a process stores it. */
  version: number;
  /** The feed has been read to its end once. */
  isRead: boolean;
}

interface Kept {
  readonly fields: string | null;
  readonly counts: Record<string, NeededCount> | null;
  readonly traits: AnswerTraits | null;
  readonly records: number | null;
  readonly version: number | null;
  readonly isRead: boolean;
}

interface Change {
  readonly kind: string;
  readonly subject: string;
  readonly detail: string;
}

/** Creates the watch of one feed of one process. */
export function createSourceWatch(options: {
  feed: FeedId & { feed: FeedName };
  needed: readonly NeededField[];
  changes: Counter<'feed' | 'kind'>;
}): SourceWatch {
  const { feed, needed, changes: counter } = options;
  let known: Known | undefined;

  /** Stores what was learned, if there is enough of it; false when another process has stored something since. */
  async function save(tx: Sql, state: Known, hasNews: boolean): Promise<boolean> {
    if (!hasNews && state.records < state.stored * growth + 1) return true;
    return saveKnown(tx, feed, state);
  }

  function examine(state: Known, { changed, answer }: WatchedPage): { found: Change[]; back: string[] } {
    const found: Change[] = answer === undefined ? [] : noticeAnswer(state.traits, answer);
    const back: string[] = [];
    const every = Math.max(1, Math.ceil(changed.length / examinedMax));
    for (let at = 0; at < changed.length; at += every) {
      const record = changed[at] ?? {};
      found.push(...state.fields.examine(record));
      state.records += 1;
    }
    for (const field of needed)
      for (let at = 0; at < changed.length; at += every) {
        const count = state.counts.get(field.path) ?? { had: 0, of: 0, lacking: 0, gone: false };
        state.counts.set(field.path, count);
        const became = countNeeded(count, field, changed[at] ?? {}, !state.isRead);
        if (became === 'back') back.push(field.path);
        if (became === 'gone') found.push(goneChange(field, count));
      }
    return { found, back };
  }

  return {
    forget: () => {
      known = undefined;
    },
    async notice(tx, page, now) {
      if (page.changed.length === 0 && page.answer === undefined) return;
      let state = known ?? (await readKnown(tx, feed));
      let isLearning = isStillLearning(state);
      let { found, back } = examine(state, page);
      if (!(await save(tx, state, found.length + back.length > 0))) {
        state = await readKnown(tx, feed);
        isLearning = isStillLearning(state);
        ({ found, back } = examine(state, page));
        await saveKnown(tx, feed, state);
      }
      const news = isLearning ? found.filter(({ kind }) => kind !== 'field' && kind !== 'form') : found;
      if (news.length > 0) {
        await saveChanges(tx, feed, news, now);
        for (const { kind } of news) counter.inc({ feed: feed.feed, kind });
      }
      if (back.length > 0) await resolveChanges(tx, feed, back, now);
      // The first sync may have ended since it was remembered, which only SQL knows.
      if (!state.isRead && state === known) state.isRead = (await readKnown(tx, feed)).isRead;
      known = state;
    },
  };
}

function isStillLearning({ isRead, records }: Known): boolean {
  return !isRead || records < learnedMin;
}

function goneChange({ path, neededBy }: NeededField, { had, of, lacking }: NeededCount): Change {
  const records = lacking === 1 ? 'the last record lacks it' : `the last ${lacking} records lack it`;
  return {
    kind: 'gone',
    subject: path,
    detail: `is needed by ${neededBy}: ${records}; ${had} of ${of} records had it before`,
  };
}

async function readKnown(tx: Sql, { source, feed }: FeedId & { feed: FeedName }): Promise<Known> {
  const [row] = await tx.query<Kept>(knownForms, [source, feed]);
  const records = row?.records ?? 0;
  return {
    fields: createLearnedFields(feed, row?.fields ?? undefined),
    counts: new Map(Object.entries(row?.counts ?? {})),
    traits: row?.traits ?? { smaller: 0, otherClock: 0 },
    records,
    stored: records,
    version: row?.version ?? 0,
    isRead: row?.isRead ?? false,
  };
}

// Prepared, as each pull reads it while a first sync goes on: to plan it takes longer than to run it.
const knownForms = prepared(
  `select f.fields, f.counts, f.traits, f.records::float8 as records, f.version, c.last_pull is not null as "isRead"
   from bridge.checkpoints c left join bridge.source_forms f using (source, feed)
   where c.source = $1 and c.feed = $2`,
);

/** Returns false when another process has stored it since it was read here. */
async function saveKnown(tx: Sql, { source, feed }: FeedId, state: Known): Promise<boolean> {
  const rows = await tx.query(
    `insert into bridge.source_forms as f (source, feed, fields, counts, traits, records, version)
     values ($1, $2, $3, $4, $5, $6, $7 + 1)
     on conflict (source, feed) do update set fields = excluded.fields, counts = excluded.counts,
       traits = excluded.traits, records = excluded.records, version = excluded.version
     where f.version = $7
     returning 1 as saved`,
    [
      source,
      feed,
      state.fields.keep(),
      JSON.stringify(Object.fromEntries(state.counts)),
      JSON.stringify(state.traits),
      state.records,
      state.version,
    ],
  );
  if (rows.length === 0) return false;
  state.version += 1;
  state.stored = state.records;
  return true;
}

/** A change of the same thing replaces the one before: a hostile source fills no table. */
async function saveChanges(tx: Sql, { source, feed }: FeedId, found: readonly Change[], now: Timestamp): Promise<void> {
  const last = new Map(found.map((change) => [`${change.kind} ${change.subject}`, change]));
  await tx.query(
    `insert into bridge.source_changes (source, feed, kind, subject, detail, noticed)
     select $1, $2, given.*, $3::timestamptz from unnest($4::text[], $5::text[], $6::text[]) as given
     on conflict (source, feed, kind, subject) do update set detail = excluded.detail, noticed = excluded.noticed,
       resolved = null`,
    [
      source,
      feed,
      now,
      [...last.values()].map(({ kind }) => kind),
      [...last.values()].map(({ subject }) => storableText(subject)),
      [...last.values()].map(({ detail }) => storableText(detail)),
    ],
  );
}

async function resolveChanges(tx: Sql, { source, feed }: FeedId, paths: readonly string[], now: Timestamp) {
  await tx.query(
    `update bridge.source_changes set resolved = $3
     where source = $1 and feed = $2 and kind = 'gone' and subject = any($4) and resolved is null`,
    [source, feed, now, paths.map(storableText)],
  );
}
