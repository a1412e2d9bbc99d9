/** Lists the events that the bridge has read. */
import { bodyJson } from '#bridge/mirror/body-json.ts';
import { foldText } from '#bridge/mirror/subjects.ts';
import type { Timestamp } from '#contract/timestamp.ts';
import type { Sql } from '#platform/database/sql.ts';
import { escapeLike, wordsOf } from './search-words.ts';

export interface ListedEvent {
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

interface EventFilter {
  readonly sources: readonly string[];
  readonly id?: string | undefined;
  readonly status?: string | undefined;
  readonly text?: string | undefined;
  /** When it changed last at the service, from (included) and to (not included). */
  readonly from?: Timestamp | undefined;
  readonly to?: Timestamp | undefined;
}

export type EventPlace = Pick<ListedEvent, 'modified' | 'source' | 'id'>;

/** Returns a page of events, those that changed last at the service first. */
export async function findEventPage(
  sql: Sql,
  filter: EventFilter,
  { limit, after }: { limit: number; after?: EventPlace | undefined },
): Promise<{ events: ListedEvent[]; hasMore: boolean }> {
  const params: unknown[] = [filter.sources];
  const param = (value: unknown) => `$${params.push(value)}`;
  const conditions = ['m.source = s.source', `m.feed = 'sourcing-events'`, 'm.gone is null'];
  if (filter.id !== undefined) conditions.push(`m.record_id = ${param(filter.id)}`);
  if (filter.status !== undefined) conditions.push(`${bodyJson('m.body')} ->> 'status' = ${param(filter.status)}`);
  if (filter.from !== undefined) conditions.push(`m.modified >= ${param(filter.from)}`);
  if (filter.to !== undefined) conditions.push(`m.modified < ${param(filter.to)}`);
  for (const word of filter.text === undefined ? [] : wordsOf(filter.text))
    conditions.push(
      `exists (select from bridge.subjects n where n.source = m.source and n.kind = 'event' and n.id = m.record_id
         and n.folded like ${param(`%${escapeLike(foldText(word))}%`)})`,
    );
  if (after)
    conditions.push(
      `(m.modified, m.source, m.record_id) < (${param(after.modified)}, ${param(after.source)}, ${param(after.id)})`,
    );
  const rows = await sql.query<ListedEvent>(
    // Each source by itself: its events are read in their order over an index, however many come before the page.
    `with p as (select m.* from unnest($1::text[]) as s (source) cross join lateral (
         select m.* from bridge.mirror m where ${conditions.join(' and ')}
         order by m.modified desc, m.record_id desc limit ${Math.trunc(limit) + 1}) m
       order by m.modified desc, m.source desc, m.record_id desc limit ${Math.trunc(limit) + 1})
     select p.source, p.record_id as id, coalesce(nullif(s.name, ''), p.record_id) as name,
       coalesce(s.reference, '') as reference, ${bodyJson('p.body')} ->> 'status' as status,
       ${bodyJson('p.body')} ->> 'type' as type, ${bodyJson('p.body')} ->> 'primary_currency' as currency,
       coalesce(${bodyJson('p.body')} ->> 'is_test' = 'true', false) as "isTest",
       case when json_typeof(${bodyJson('p.body')} -> 'suppliers') = 'array' then json_array_length(${bodyJson('p.body')} -> 'suppliers')
         else 0 end as suppliers, p.modified
     from p left join bridge.subjects s on s.source = p.source and s.kind = 'event' and s.id = p.record_id
     order by p.modified desc, p.source desc, p.record_id desc`,
    params,
  );
  return { events: rows.slice(0, limit), hasMore: rows.length > limit };
}
