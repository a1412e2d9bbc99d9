/** The rows of `bridge.shadow_documents`, and the documents that a shadow has to examine, one operation a function. */
import { fingerprintOf } from '#bridge/flows/flow-fingerprint.ts';
import { documentColumns, type FlowDocument } from '#bridge/push/claim/flow-document-store.ts';
import type { FlowSettings } from '#bridge/settings.ts';
import { storableText } from '#bridge/storable-text.ts';
import type { DocumentKind } from '#connector/documents.ts';
import type { Timestamp } from '#contract/timestamp.ts';
import type { Sql } from '#platform/database/sql.ts';

/** What a shadow would do; `reject`: it would become a dead letter; `hold`: the ERP keeps what it has. */
export const shadowActions = ['create', 'amend', 'cancel', 'none', 'reject', 'hold', 'wait'] as const;
export type ShadowAction = (typeof shadowActions)[number];

/** What the examination of a document has found. */
export interface Examined {
  readonly document: FlowDocument;
  readonly action: ShadowAction;
  /** Why it is not made, or what the connector says that it would do. */
  readonly steps: readonly string[];
  readonly differs: boolean;
  readonly differences: readonly string[];
  /** What the live flow does with it; `none`: it does not take this kind. */
  readonly live: 'document' | 'withdrawn' | 'rejected' | 'held' | 'not-yet' | 'none';
  readonly contentHash: string | null;
  /** The newest stamp of its records; null where that is not known. */
  readonly changed: Timestamp | null;
}

const isShadow = `f.name = $1 and f.shadow_kinds <> '{}' and f.fingerprint = $3`;

/** Whether this process's settings of the shadow are in force, and it has documents to examine. */
export async function hasUnexamined(sql: Sql, flow: FlowSettings, now: Timestamp): Promise<boolean> {
  const rows = await sql.query(
    `select from bridge.flows f cross join unnest(f.shadow_kinds) as k (kind)
     where ${isShadow} and (select d.due from bridge.flow_documents d
       where d.flow = $1 and d.kind = k.kind and d.due <= $2 order by d.due limit 1) is not null limit 1`,
    [flow.name, now, fingerprintOf(flow)],
  );
  return rows.length > 0;
}

/** Returns the names of those of these shadows that have documents to examine. */
export async function shadowsWithDue(sql: Sql, flows: readonly FlowSettings[], now: Timestamp): Promise<string[]> {
  const names: string[] = [];
  for (const flow of flows) if (await hasUnexamined(sql, flow, now)) names.push(flow.name);
  return names;
}

/** Returns the documents of one kind that have waited longest to be examined. */
export async function readUnexamined(
  sql: Sql,
  flow: FlowSettings,
  kinds: readonly DocumentKind[],
  now: Timestamp,
  limit: number,
): Promise<FlowDocument[]> {
  for (const kind of kinds) {
    const rows = await sql.query<FlowDocument>(
      `select ${documentColumns} from bridge.flow_documents d
       where d.flow = $1 and d.kind = $4 and d.due <= $2
         and exists (select from bridge.flows f where ${isShadow} and $4 = any(f.shadow_kinds))
       order by d.due, d.key limit $5`,
      [flow.name, now, fingerprintOf(flow), kind, limit],
    );
    if (rows.length > 0) return rows;
  }
  return [];
}

/** Returns what the live flow has delivered of these documents, by key: their content hashes. */
export async function readLiveHashes(
  sql: Sql,
  live: string,
  documents: readonly FlowDocument[],
): Promise<Map<string, string>> {
  const rows = await sql.query<{ key: string; hash: string }>(
    `select key, delivered_hash as hash from bridge.flow_documents
     where flow = $1 and kind = $2 and key = any($3) and delivered_hash is not null`,
    [live, documents[0]?.kind ?? '', documents.map(({ key }) => key)],
  );
  return new Map(rows.map(({ key, hash }) => [key, hash]));
}

/** Writes down what was found. A document that changed since it was read stays due. */
export async function storeExamined(
  tx: Sql,
  flow: string,
  examined: readonly Examined[],
  now: Timestamp,
): Promise<void> {
  if (examined.length === 0) return;
  const rows = examined.map(({ document, steps, differences, ...one }) => ({
    kind: document.kind,
    key: document.key,
    wanted: document.wanted,
    steps: steps.map(storableText),
    differences: differences.map(storableText),
    action: one.action,
    differs: one.differs,
    live: one.live,
    content_hash: one.contentHash,
    changed: one.changed,
  }));
  await tx.query(
    `with e as (
       select * from json_to_recordset($2::json) as e (kind text, key text, wanted bigint, action text, steps text[],
         differs boolean, differences text[], live text, content_hash text, changed timestamptz)),
     current as (
       update bridge.flow_documents d
       set due = case when d.wanted = e.wanted then null else d.due end,
         waiting_since = case when d.wanted = e.wanted then null else d.waiting_since end,
         forced = false, attempts = 0, last_error = null, error_type = null
       from e, bridge.flows f
       where d.flow = $1 and d.kind = e.kind and d.key = e.key and f.name = d.flow and d.kind = any(f.shadow_kinds)
       returning d.kind, d.key)
     insert into bridge.shadow_documents
       (flow, kind, key, examined, action, steps, differs, differences, live, content_hash, changed)
     select $1, kind, key, $3, e.action, e.steps, e.differs, e.differences, e.live, e.content_hash, e.changed
     from e join current using (kind, key)
     on conflict (flow, kind, key) do update set examined = excluded.examined, action = excluded.action,
       steps = excluded.steps, differs = excluded.differs, differences = excluded.differences, live = excluded.live,
       content_hash = excluded.content_hash, changed = excluded.changed`,
    [flow, JSON.stringify(rows), now],
  );
}

/** Writes down when the ERP is asked about these documents again, and why it could not be asked. */
export async function postponeExamination(
  tx: Sql,
  flow: string,
  postponed: readonly { document: FlowDocument; reason: string; due: Timestamp }[],
): Promise<void> {
  for (const { document, reason, due } of postponed)
    await tx.query(
      `update bridge.flow_documents set due = $4, attempts = attempts + 1, last_error = $5, error_type = 'unknown'
       where flow = $1 and kind = $2 and key = $3 and wanted = $6`,
      [flow, document.kind, document.key, due, storableText(reason), document.wanted],
    );
}

/** What a shadow would do with a document, for a person. */
export interface ShadowDocument {
  readonly kind: DocumentKind;
  readonly key: string;
  readonly examined: Timestamp;
  readonly action: ShadowAction;
  readonly steps: readonly string[];
  readonly differs: boolean;
  readonly differences: readonly string[];
  readonly live: Examined['live'];
  readonly eventName: string | null;
  readonly supplierName: string | null;
}

export interface ShadowFilter {
  readonly actions?: readonly ShadowAction[] | undefined;
  /** Only what differs from the live flow, would be written, or cannot be made. */
  readonly notable?: boolean | undefined;
  readonly events?: readonly string[] | undefined;
  readonly suppliers?: readonly string[] | undefined;
}

const matches = `s.flow = $1 and ($2::text[] is null or s.action = any($2)) and (not $3 or s.differs or s.action not in ('none', 'hold'))
  and ($4::text[] is null or d.sourcing_event = any($4)) and ($5::text[] is null or d.supplier = any($5))`;

const paramsOf = (flow: string, { actions, notable = false, events, suppliers }: ShadowFilter): unknown[] => [
  flow,
  actions ?? null,
  notable,
  events ?? null,
  suppliers ?? null,
];

const withDocuments = `bridge.shadow_documents s
  join bridge.flow_documents d on d.flow = s.flow and d.kind = s.kind and d.key = s.key`;

/** Returns the documents that match, those that differ from the live flow's first. */
export function readShadowDocuments(
  sql: Sql,
  flow: string,
  { limit, skip = 0, ...filter }: ShadowFilter & { limit: number; skip?: number },
): Promise<ShadowDocument[]> {
  return sql.query<ShadowDocument>(
    `select s.kind, s.key, s.examined, s.action, s.steps, s.differs, s.differences, s.live,
       (select nullif(e.name, '') from bridge.subjects e
        where e.source = f.source and e.kind = 'event' and e.id = d.sourcing_event) as "eventName",
       (select nullif(e.name, '') from bridge.subjects e
        where e.source = f.source and e.kind = 'supplier' and e.id = d.supplier) as "supplierName"
     from ${withDocuments} join bridge.flows f on f.name = s.flow
     where ${matches} order by s.differs desc, s.kind, s.key limit $6 offset $7`,
    [...paramsOf(flow, filter), limit, skip],
  );
}

/** Returns how many documents match. */
export async function countShadowDocuments(sql: Sql, flow: string, filter: ShadowFilter = {}): Promise<number> {
  const [row] = await sql.query<{ count: number }>(
    `select count(*)::int as count from ${withDocuments} where ${matches}`,
    paramsOf(flow, filter),
  );
  return row?.count ?? 0;
}

/** How far a shadow has come, and what it would do. */
export interface ShadowStatus {
  readonly flow: string;
  readonly source: string;
  readonly connector: string | null;
  /** The live flow that it is compared with; null where there is none. */
  readonly beside: string | null;
  readonly sameErp: boolean;
  /** How many documents are to be examined, and why the ERP could not be asked about one of them. */
  readonly unexamined: number;
  readonly lastError: string | null;
  readonly examined: number;
  /** How many of them differ from what the live flow sends. */
  readonly differing: number;
  readonly counts: Readonly<Record<ShadowAction, number>>;
}

/** Returns the status of every shadow. */
export async function readShadowStatuses(sql: Sql): Promise<ShadowStatus[]> {
  const rows = await sql.query<Omit<ShadowStatus, 'counts' | 'examined' | 'differing'>>(
    `select f.name as flow, f.source, f.connector, f.beside, f.same_erp as "sameErp",
       (select count(*)::int from bridge.flow_documents d where d.flow = f.name and d.kind = any(f.shadow_kinds)
          and d.waiting_since is not null and d.dead_since is null) as unexamined,
       (select d.last_error from bridge.flow_documents d where d.flow = f.name and d.kind = any(f.shadow_kinds)
          and d.waiting_since is not null and d.dead_since is null and d.attempts > 0 limit 1) as "lastError"
     from bridge.flows f where f.shadow_kinds <> '{}' order by f.name`,
  );
  if (rows.length === 0) return [];
  const groups = await sql.query<{ flow: string; action: ShadowAction; differs: boolean; count: number }>(
    `select flow, action, differs, count(*)::int as count from bridge.shadow_documents where flow = any($1)
     group by flow, action, differs`,
    [rows.map(({ flow }) => flow)],
  );
  return rows.map((row) => {
    const own = groups.filter(({ flow }) => flow === row.flow);
    const sum = (of: (group: (typeof groups)[number]) => boolean) =>
      own.filter(of).reduce((total, { count }) => total + count, 0);
    return {
      ...row,
      examined: sum(() => true),
      differing: sum(({ differs }) => differs),
      counts: Object.fromEntries(
        shadowActions.map((name) => [name, sum(({ action }) => action === name)]),
      ) as ShadowStatus['counts'],
    };
  });
}
