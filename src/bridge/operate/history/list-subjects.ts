/** Lists the events and the suppliers that the bridge has read, with how many documents are about each of them. */
import { bodyJson } from '#bridge/mirror/body-json.ts';
import { foldText } from '#bridge/mirror/subjects.ts';
import type { Timestamp } from '#contract/timestamp.ts';
import type { Sql } from '#platform/database/sql.ts';
import { escapeLike, wordsOf } from './search-words.ts';

export interface DocumentCounts {
  readonly documents: number;
  readonly waiting: number;
  readonly deadLetters: number;
}

export interface ListedEvent extends DocumentCounts {
  readonly source: string;
  readonly id: string;
  readonly name: string;
  /** Empty: none. */
  readonly reference: string;
  readonly status: string | null;
  readonly type: string | null;
  readonly currency: string | null;
  readonly isTest: boolean;
  readonly suppliers: number;
  readonly modified: Timestamp;
}

export interface ListedSupplier extends DocumentCounts {
  readonly source: string;
  readonly id: string;
  readonly name: string;
  /** Its external id; empty: none. */
  readonly reference: string;
}

interface SubjectFilter {
  /** Only of these sources, and only documents of these flows; undefined: all. */
  readonly sources: readonly string[];
  readonly flows?: readonly string[] | undefined;
  readonly text?: string | undefined;
}

export type EventPlace = Pick<ListedEvent, 'modified' | 'source' | 'id'>;
export type SupplierPlace = Pick<ListedSupplier, 'name' | 'source' | 'id'>;

/** Of one event or supplier more documents than this are not counted: the list says "1000+". */
const countedMost = 1_000;

/** `column` names the event or the supplier; `$2` are the flows. */
function countsJoin(column: string, id: string): string {
  return `cross join lateral (
    select count(*)::int as documents, (count(*) filter (where c.due is not null and c.dead_since is null))::int as waiting,
      (count(*) filter (where c.dead_since is not null))::int as "deadLetters"
    from (select d.due, d.dead_since from bridge.flow_documents d
      join bridge.flows f on f.name = d.flow and f.source = p.source and d.kind = any(f.kinds)
      where d.${column} = ${id} and ($2::text[] is null or d.flow = any($2)) limit ${countedMost}) c) n`;
}

/** Returns a page of events, those that changed last at the service first. */
export async function findEventPage(
  sql: Sql,
  filter: SubjectFilter & {
    id?: string | undefined;
    status?: string | undefined;
    /** When it changed last at the service, from (included) and to (not included). */
    from?: Timestamp | undefined;
    to?: Timestamp | undefined;
  },
  { limit, after }: { limit: number; after?: EventPlace | undefined },
): Promise<{ events: ListedEvent[]; hasMore: boolean }> {
  const params: unknown[] = [filter.sources, filter.flows ?? null];
  const param = (value: unknown) => `$${params.push(value)}`;
  const conditions = ['m.source = any($1)', `m.feed = 'sourcing-events'`, 'm.gone is null'];
  if (filter.id !== undefined) conditions.push(`m.record_id = ${param(filter.id)}`);
  if (filter.status !== undefined) conditions.push(`${bodyJson('m.body')} ->> 'status' = ${param(filter.status)}`);
  if (filter.from !== undefined) conditions.push(`m.modified >= ${param(filter.from)}`);
  if (filter.to !== undefined) conditions.push(`m.modified < ${param(filter.to)}`);
  if (filter.text !== undefined) conditions.push(...namedConditions(filter.text, 'event', 'm', 'record_id', param));
  if (after)
    conditions.push(
      `(m.modified, m.source, m.record_id) < (${param(after.modified)}, ${param(after.source)}, ${param(after.id)})`,
    );
  const rows = await sql.query<ListedEvent>(
    `with p as (select m.* from bridge.mirror m where ${conditions.join(' and ')}
       order by m.modified desc, m.source desc, m.record_id desc limit ${Math.trunc(limit) + 1})
     select p.source, p.record_id as id, coalesce(nullif(s.name, ''), p.record_id) as name,
       coalesce(s.reference, '') as reference, ${bodyJson('p.body')} ->> 'status' as status,
       ${bodyJson('p.body')} ->> 'type' as type, ${bodyJson('p.body')} ->> 'primary_currency' as currency,
       coalesce((${bodyJson('p.body')} ->> 'is_test')::boolean, false) as "isTest",
       case when json_typeof(${bodyJson('p.body')} -> 'suppliers') = 'array' then json_array_length(${bodyJson('p.body')} -> 'suppliers')
         else 0 end as suppliers, p.modified, n.*
     from p left join bridge.subjects s on s.source = p.source and s.kind = 'event' and s.id = p.record_id
     ${countsJoin('sourcing_event', 'p.record_id')}
     order by p.modified desc, p.source desc, p.record_id desc`,
    params,
  );
  return { events: rows.slice(0, limit), hasMore: rows.length > limit };
}

/** Returns a page of suppliers by name. */
export async function findSupplierPage(
  sql: Sql,
  filter: SubjectFilter & { id?: string | undefined },
  { limit, after }: { limit: number; after?: SupplierPlace | undefined },
): Promise<{ suppliers: ListedSupplier[]; hasMore: boolean }> {
  const params: unknown[] = [filter.sources, filter.flows ?? null];
  const param = (value: unknown) => `$${params.push(value)}`;
  const conditions = ['s.source = any($1)', `s.kind = 'supplier'`];
  if (filter.id !== undefined) conditions.push(`s.id = ${param(filter.id)}`);
  if (filter.text !== undefined)
    conditions.push(...wordsOf(filter.text).map((word) => `s.folded like ${param(`%${escapeLike(foldText(word))}%`)}`));
  if (after)
    conditions.push(`(s.name, s.source, s.id) > (${param(after.name)}, ${param(after.source)}, ${param(after.id)})`);
  const rows = await sql.query<ListedSupplier>(
    `with p as (select s.source, s.id, s.name, s.reference from bridge.subjects s where ${conditions.join(' and ')}
       order by s.name, s.source, s.id limit ${Math.trunc(limit) + 1})
     select p.source, p.id, p.name, p.reference, n.* from p ${countsJoin('supplier', 'p.id')}
     order by p.name, p.source, p.id`,
    params,
  );
  return { suppliers: rows.slice(0, limit), hasMore: rows.length > limit };
}

function namedConditions(
  text: string,
  kind: string,
  table: string,
  id: string,
  param: (value: unknown) => string,
): string[] {
  return wordsOf(text).map(
    (word) =>
      `exists (select from bridge.subjects n where n.source = ${table}.source and n.kind = '${kind}'
         and n.id = ${table}.${id} and n.folded like ${param(`%${escapeLike(foldText(word))}%`)})`,
  );
}
