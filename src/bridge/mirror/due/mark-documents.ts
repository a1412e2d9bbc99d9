/**
 * Marks documents as due, in the transaction that changed the records they are made of. The caller holds `lockSources`.
 * A document that waits after a failure, or is a dead letter, is tried again, as it has another state now. A document
 * that is due already keeps its due time, the time since when it waits, and a replay that was asked for: a document
 * that changes all the time gets its turn, too.
 */
import type { DocumentKey } from '#bridge/documents/document-keys.ts';
import type { Timestamp } from '#contract/timestamp.ts';
import { prepared, type Sql } from '#platform/database/sql.ts';
import { indexReferences, referencesTable } from './index-references.ts';

/** The pull that reads what has changed; undefined where no pull does. */
interface MarkedBy {
  readonly source: string;
  readonly pull?: string | undefined;
}

const nowDue = `wanted = d.wanted + 1, due = least(d.due, $2::timestamptz),
  waiting_since = coalesce(d.waiting_since, $2::timestamptz), attempts = 0, dead_since = null`;

const byPull = (parameter: string) => `pull = coalesce(${parameter}::uuid, d.pull)`;

/**
 * Marks the documents of these keys in every flow of the source that takes their kind, or only in `flow`. Without
 * `flow`, the documents that show a changed supplier or event are marked, too. `kinds`: what `readWantedKinds` has
 * returned in this transaction, under the source's lock.
 */
export async function markDocuments(
  tx: Sql,
  { source, flow, pull, kinds }: MarkedBy & { flow?: string; kinds?: ReadonlySet<string> },
  keys: readonly DocumentKey[],
  now: Timestamp,
): Promise<void> {
  if (keys.length === 0) return;
  // Most keys of a page may be of kinds that no flow takes: they are not worth a statement.
  const wantedKinds = kinds ?? (await readWantedKinds(tx, source));
  const wanted = keys.filter(({ kind }) => wantedKinds.has(kind));
  if (wanted.length > 0) await indexReferences(tx, { source, table: referencesTable }, wanted);
  const due = wanted.filter(({ noteOnly }) => noteOnly !== true);
  // A statement must not update a row twice.
  const distinct = [...new Map(due.map((key) => [`${key.kind} ${key.key}`, key])).values()];
  if (distinct.length > 0) await markDistinct(tx, { source, flow, pull }, distinct, now);
  const suppliers = keys.flatMap(({ kind, namedBy }) =>
    kind === 'supplier' && namedBy?.part === 'supplier' ? [namedBy.id] : [],
  );
  if (suppliers.length > 0 && flow === undefined)
    await markReferencing(tx, { source, pull }, 'supplier', suppliers, now);
  const events = wanted.flatMap((key) => (key.wholeEvent && key.sourcingEvent !== null ? [key.sourcingEvent] : []));
  if (events.length > 0 && flow === undefined) await markDocumentsOfEvents(tx, { source, pull }, events, now);
}

/** Returns the kinds of documents that any flow of the source takes. */
export async function readWantedKinds(tx: Sql, source: string): Promise<ReadonlySet<string>> {
  const rows = await tx.query<{ kind: string }>('select unnest(kinds) as kind from bridge.flows where source = $1', [
    source,
  ]);
  return new Set(rows.map(({ kind }) => kind));
}

async function markDistinct(
  tx: Sql,
  { source, flow, pull }: MarkedBy & { flow: string | undefined },
  distinct: readonly DocumentKey[],
  now: Timestamp,
): Promise<void> {
  await tx.query(markKeys, [
    source,
    now,
    flow ?? null,
    distinct.map(({ kind }) => kind),
    distinct.map(({ key }) => key),
    distinct.map(({ sourcingEvent }) => sourcingEvent),
    distinct.map(({ supplier }) => supplier),
    pull ?? null,
  ]);
}

// Prepared: to plan it takes longer than to run it for a few. While a flow carries the flag of lost commits, what is new
// is looked up, too: the bridge may have delivered it before.
const markKeys = prepared(
  `insert into bridge.flow_documents as d
     (flow, kind, key, sourcing_event, supplier, due, waiting_since, pull, uncertain_since)
   select f.name, k.kind, k.key, k.sourcing_event, k.supplier, $2::timestamptz, $2::timestamptz, $8::uuid, f.commits_lost
   from unnest($4::text[], $5::text[], $6::text[], $7::text[]) as k (kind, key, sourcing_event, supplier)
   join bridge.flows f on f.source = $1 and ($3::text is null or f.name = $3) and k.kind = any(f.kinds)
   order by f.name, k.kind, k.key
   on conflict (flow, kind, key) do update set ${nowDue}, ${byPull('excluded.pull')},
     uncertain_since = coalesce(d.uncertain_since, excluded.uncertain_since)`,
);

/**
 * Marks every document that was ever made of records of these events, since each shows something of the event itself.
 */
export async function markDocumentsOfEvents(
  tx: Sql,
  marked: MarkedBy,
  events: readonly string[],
  now: Timestamp,
): Promise<void> {
  await markReferencing(tx, marked, 'sourcing_event', events, now);
}

/**
 * Marks every document that was ever made for these flows, including awards that no supplier holds any more: they have to
 * be withdrawn.
 */
export async function markDocumentsOfFlows(tx: Sql, flows: readonly string[], now: Timestamp): Promise<void> {
  await tx.query(
    `update bridge.flow_documents d set ${nowDue}
     from bridge.flows f where f.name = d.flow and d.flow = any($1) and d.kind = any(f.kinds)`,
    [flows, now],
  );
}

/**
 * Marks everything that was delivered, or may have been delivered, by this flow as uncertain: the flow has another
 * connector now, which must be asked what its ERP holds. The caller has marked all documents of the flow as due before.
 */
export async function markDeliveredUncertain(tx: Sql, flow: string, now: Timestamp): Promise<void> {
  await tx.query(
    `update bridge.flow_documents set uncertain_since = $2
     where flow = $1 and (delivered_hash is not null or intent_id is not null)`,
    [flow, now],
  );
}

/** Marks the documents of these events or suppliers, and the suppliers and files that their records reference. */
async function markReferencing(
  tx: Sql,
  { source, pull }: MarkedBy,
  column: 'sourcing_event' | 'supplier',
  ids: readonly string[],
  now: Timestamp,
): Promise<void> {
  if (ids.length === 0) return;
  await tx.query(markReferencingBy[column], [source, now, [...new Set(ids)], pull ?? null]);
}

// Prepared for the same reason.
const markReferencingStatement = (column: string) =>
  prepared(
    `update bridge.flow_documents d set ${nowDue}, ${byPull('$4')}
     from (
       select d.flow, d.kind, d.key from bridge.flow_documents d
       join bridge.flows f on f.name = d.flow and f.source = $1 and d.kind = any(f.kinds)
       where d.${column} = any($3::text[])
       union
       select f.name, m.kind, m.key from bridge.record_references m
       join bridge.flows f on f.source = m.source and m.kind = any(f.kinds)
       where m.source = $1 and m.${column} = any($3::text[])
     ) as touched
     where d.flow = touched.flow and d.kind = touched.kind and d.key = touched.key`,
  );
const markReferencingBy = {
  sourcing_event: markReferencingStatement('sourcing_event'),
  supplier: markReferencingStatement('supplier'),
};
