/**
 * Documents as another time would have made them: the versions of the records that the mirror held then, through the
 * mapping of today, or of another flow. Example, of one award:
 *
 *     12:00:00.000000  the mirror gets version 1: cost 10
 *     12:05:00.000000  version 2: cost 12; version 1 moves into the history
 *     as of 12:04:59   made of version 1
 *     from 12:00 to 12:10, two states: of 12:00:00 and of 12:05:00
 *
 * A version counts from when the bridge stored it, not from its `modified`: this is about what would have been sent. What
 * has no history is taken as it is now: the supplier list, and suppliers and questions that pages include.
 */
import type { FlowSettings } from '#bridge/settings.ts';
import type { Document, DocumentKind } from '#connector/documents.ts';
import { msFromTimestamp, type Timestamp, timestampFromMs } from '#contract/timestamp.ts';
import type { Database } from '#platform/database/database.ts';
import type { Sql } from '#platform/database/sql.ts';
import { AppError } from '#platform/errors.ts';
import { documentDifferences } from '../push/plan/document-differences.ts';
import { documentHash } from './make-documents.ts';
import { createTriedReferences, makeTried, type TriedDocument } from './try-mapping.ts';

/** A moment, or each moment of a range at which something was stored. */
export type Travel = { readonly asOf: Timestamp } | { readonly from: Timestamp; readonly to: Timestamp };

/** A document of another time, and how it differs from what it is compared with. */
export interface TravelledDocument extends TriedDocument {
  /** When the state that it was made of began; of `asOf` that time. */
  readonly at: Timestamp;
  /** What would have been done with it, given what it is compared with. */
  readonly action: 'create' | 'amend' | 'cancel' | 'none' | 'reject' | 'hold' | 'wait';
  /** Field by field; from what was sent, or from what the other flow makes of the same versions. */
  readonly differences: readonly string[];
  /** The ERP's reference at that time; null where nothing was delivered. */
  readonly reference: string | null;
}

export interface TravelOptions {
  readonly travel: Travel;
  readonly events?: readonly string[] | undefined;
  /** Of each kind. */
  readonly limit: number;
  /** The flow whose deliveries it is compared with. */
  readonly sentBy: string;
  /** Compares with what this flow makes of the same versions instead. */
  readonly against?: FlowSettings | undefined;
}

const mirrorTable = 'pg_temp.mirror_then';
/** A longer range is refused: each moment makes its documents anew. */
const momentsMost = 200;
const eventsMost = 1_000;

/** Throws AppError `invalid` for times that the history does not reach, of the future, or in the wrong order. */
export function requireKept(travel: Travel, { history_days: days }: { history_days: number }, now: Timestamp): void {
  const oldest = timestampFromMs(msFromTimestamp(now) - days * 24 * 3_600_000);
  const times = 'asOf' in travel ? [travel.asOf] : [travel.from, travel.to];
  if ('from' in travel && travel.from >= travel.to)
    throw new AppError('invalid', `The range ends (${travel.to}) before it begins (${travel.from}).`);
  for (const time of times) {
    if (time > now) throw new AppError('invalid', `${time} is in the future: it is ${now} now.`);
    if (time < oldest)
      throw new AppError(
        'invalid',
        `${time} is too long ago: replaced versions are kept for ${days} days (bridge.history_days), so from ${oldest} on.`,
      );
  }
}

/**
 * Returns the documents of that time; of a range, those that have changed at each of its moments. Writes nothing that
 * stays. Throws AppError `invalid` for a range in which too much has changed.
 */
export async function travelInTime(
  database: Database,
  flow: FlowSettings,
  { travel, events: asked, limit, sentBy, against }: TravelOptions,
): Promise<TravelledDocument[]> {
  return database.transaction(async (tx) => {
    await createTriedReferences(tx);
    await tx.query('create temp table mirror_then (like bridge.mirror including all) on commit drop');
    const until = 'asOf' in travel ? travel.asOf : travel.to;
    const events = asked?.map((id) => id.toLowerCase()) ?? (await latestEvents(tx, flow.source, until, limit));
    const makeAt = async (made: FlowSettings, at: Timestamp) => {
      await fillMirror(tx, flow.source, events, at);
      return makeTried(tx, made, { events, limit, mirrorTable });
    };
    const compareAt = async (at: Timestamp, documents: readonly TriedDocument[]) => {
      const other = against === undefined ? undefined : byPlace(await makeAt(against, at));
      const sent = await readSent(tx, sentBy, documents, at);
      return documents.map((one) => compared(one, at, other, sent.get(placeOf(one))));
    };
    if ('asOf' in travel) {
      const made = await makeAt(flow, travel.asOf);
      const delivered = await readDeliveredKeys(tx, sentBy, flow.documents, events);
      const compared = await compareAt(travel.asOf, [...made, ...withdrawn(made, delivered, limit)]);
      return compared.filter(({ result, action }) => result !== 'withdrawn' || action !== 'none');
    }
    const states = byPlace(await makeAt(flow, travel.from));
    const travelled: TravelledDocument[] = [];
    for (const at of await readMoments(tx, flow.source, events, travel)) {
      const made = await makeAt(flow, at);
      const all = [...made, ...withdrawn(made, [...states.values()], limit)];
      const changed = all.filter((one) => stateOf(states.get(placeOf(one))) !== stateOf(one));
      for (const one of changed) states.set(placeOf(one), one);
      if (changed.length > 0) travelled.push(...(await compareAt(at, changed)));
    }
    return travelled;
  });
}

/**
 * Returns those of these documents that no record names any more. Where as many were made as are shown at most, one that
 * is not among them may only be left out.
 */
function withdrawn(
  made: readonly TriedDocument[],
  before: readonly Pick<TriedDocument, 'kind' | 'key'>[],
  limit: number,
): TriedDocument[] {
  const places = byPlace(made);
  const counts = Map.groupBy(made, ({ kind }) => kind);
  return before
    .filter((one) => !places.has(placeOf(one)) && (counts.get(one.kind)?.length ?? 0) < limit)
    .map(({ kind, key }) => ({ kind, key, result: 'withdrawn' }));
}

/** The documents of these events that the flow has ever delivered. */
function readDeliveredKeys(
  sql: Sql,
  flow: string,
  kinds: readonly DocumentKind[],
  events: readonly string[],
): Promise<{ kind: DocumentKind; key: string }[]> {
  return sql.query(
    `select kind, key from bridge.flow_documents
     where flow = $1 and kind = any($2) and sourcing_event = any($3) and delivered is not null order by kind, key`,
    [flow, kinds, events],
  );
}

const placeOf = ({ kind, key }: Pick<TriedDocument, 'kind' | 'key'>) => `${kind} ${key}`;
const byPlace = (documents: readonly TriedDocument[]) => new Map(documents.map((one) => [placeOf(one), one]));
const stateOf = (tried: TriedDocument | undefined) => JSON.stringify([tried?.result, tried?.reason, tried?.document]);

/** The events whose records changed last before that time. */
async function latestEvents(sql: Sql, source: string, until: Timestamp, limit: number): Promise<string[]> {
  const rows = await sql.query<{ event: string }>(
    `select sourcing_event as event, max(seen) as seen from (
       (select sourcing_event, seen from bridge.mirror
        where source = $1 and seen <= $2 and sourcing_event is not null order by modified desc limit ${eventsMost})
       union all
       (select m.sourcing_event, h.seen from bridge.mirror_history h
        join bridge.mirror m on m.source = h.source and m.feed = h.feed and m.record_id = h.record_id
        where h.source = $1 and h.replaced > $2 and h.seen <= $2 and m.sourcing_event is not null
        order by h.replaced limit ${eventsMost})) as v
     group by 1 order by 2 desc, 1 limit $3`,
    [source, until, limit],
  );
  return rows.map(({ event }) => event);
}

/** The versions that the mirror held at that time. The suppliers of an older version are read from its body. */
async function fillMirror(tx: Sql, source: string, events: readonly string[], at: Timestamp): Promise<void> {
  await tx.query(`truncate ${mirrorTable}`);
  await tx.query(
    `insert into ${mirrorTable} (source, feed, record_id, modified, content_hash, sourcing_event, supplier, body, seen,
       gone)
     select source, feed, record_id, modified, content_hash, sourcing_event, supplier, body, seen,
       case when gone <= $3 then gone end
     from bridge.mirror where source = $1 and sourcing_event = any($2) and seen <= $3
     union all
     select * from (
       select distinct on (h.feed, h.record_id) h.source, h.feed, h.record_id, h.modified, h.content_hash,
         m.sourcing_event, '', h.body, h.seen, null::timestamptz
       from bridge.mirror m join bridge.mirror_history h
         on h.source = m.source and h.feed = m.feed and h.record_id = m.record_id
       where m.source = $1 and m.sourcing_event = any($2) and m.seen > $3 and h.seen <= $3
       order by h.feed, h.record_id, h.seen desc) as before`,
    [source, events, at],
  );
}

/** The times in the range at which versions of these events' records were stored. */
async function readMoments(
  sql: Sql,
  source: string,
  events: readonly string[],
  { from, to }: { from: Timestamp; to: Timestamp },
): Promise<Timestamp[]> {
  const rows = await sql.query<{ seen: Timestamp }>(
    `select seen from bridge.mirror where source = $1 and sourcing_event = any($2) and seen > $3 and seen <= $4
     union
     select h.seen from bridge.mirror m join bridge.mirror_history h
       on h.source = m.source and h.feed = m.feed and h.record_id = m.record_id
     where m.source = $1 and m.sourcing_event = any($2) and h.seen > $3 and h.seen <= $4
     order by seen limit ${momentsMost + 1}`,
    [source, events, from, to],
  );
  if (rows.length > momentsMost)
    throw new AppError(
      'invalid',
      `Something was stored at more than ${momentsMost} moments of this range: shorten it, name events with --event, or lower --limit.`,
    );
  return rows.map(({ seen }) => seen);
}

/** What the flow had delivered of a document by then; `document` is null where it was not kept. */
interface Sent {
  readonly contentHash: string | null;
  readonly document: Document | null;
  readonly reference: string | null;
}

async function readSent(
  sql: Sql,
  flow: string,
  documents: readonly TriedDocument[],
  at: Timestamp,
): Promise<Map<string, Sent>> {
  const rows = await sql.query<{
    kind: DocumentKind;
    key: string;
    hash: string | null;
    body: string | null;
    reference: string | null;
  }>(
    `select t.*, v.body from (
       select distinct on (kind, key) kind, key, hash, reference from (
         select a.kind, a.key, a.ended as at, case when a.outcome <> 'cancelled' then a.content_hash end as hash,
           a.reference
         from bridge.attempts a where a.flow = $1 and a.key = any($3) and a.ended <= $4
           and a.outcome in ('created', 'updated', 'unchanged', 'cancelled')
         union all
         select d.kind, d.key, d.delivered, d.delivered_hash, d.reference from bridge.flow_documents d
         where d.flow = $1 and d.key = any($3) and d.delivered <= $4) as all_sent
       where (kind, key) in (select * from unnest($2::text[], $3::text[]))
       order by kind, key, at desc) t
     left join bridge.document_versions v
       on v.flow = $1 and v.kind = t.kind and v.key = t.key and v.content_hash = t.hash`,
    [flow, documents.map(({ kind }) => kind), documents.map(({ key }) => key), at],
  );
  return new Map(
    rows.map(({ hash, body, reference, ...place }) => [
      placeOf(place),
      { contentHash: hash, document: body === null ? null : (JSON.parse(body) as Document), reference },
    ]),
  );
}

function compared(
  tried: TriedDocument,
  at: Timestamp,
  other: ReadonlyMap<string, TriedDocument> | undefined,
  sent: Sent | undefined,
): TravelledDocument {
  const reference = sent?.reference ?? null;
  const before = other ? other.get(placeOf(tried)) : undefined;
  const heldHash = other
    ? before?.document === undefined
      ? null
      : documentHash(before.document)
    : (sent?.contentHash ?? null);
  const action = actionOf(tried, heldHash);
  const beforeDocument = other ? before?.document : (sent?.document ?? undefined);
  const isUnknown = action === 'amend' && beforeDocument === undefined;
  const differences = isUnknown
    ? ['what was sent is not known in detail']
    : action === 'amend'
      ? documentDifferences(beforeDocument, tried.document)
      : other && before !== undefined && before.result !== tried.result
        ? [`~ result: ${before.result} -> ${tried.result}`]
        : [];
  return { ...tried, at, action, differences, reference };
}

function actionOf({ result, document }: TriedDocument, heldHash: string | null): TravelledDocument['action'] {
  if (result === 'rejected') return 'reject';
  if (result === 'held') return 'hold';
  if (result === 'not-yet') return 'wait';
  if (document === undefined) return heldHash === null ? 'none' : 'cancel';
  if (heldHash === null) return 'create';
  return heldHash === documentHash(document) ? 'none' : 'amend';
}
