/** Dead letters in groups of what the ERP said, so that a thousand refusals for one reason are one alert. */
import { createHash } from 'node:crypto';
import type { Timestamp } from '#contract/timestamp.ts';
import type { Sql } from '#platform/database/sql.ts';

export interface DeadLetterGroup {
  /** The flow, or the intake. */
  readonly flow: string;
  /** What the ERP said of the first of them; for the last group of a flow that it said several things. */
  readonly words: string;
  /** The same for all words that differ in numbers and ids only. */
  readonly wordsHash: string;
  readonly count: number;
  readonly first: Timestamp;
  /** The event and the supplier of the first, where they have names. */
  readonly example: string | null;
}

/** Further words are one group, the last one of their flow. */
const groupsMax = 10;
/** The oldest ones of a flow that are looked at. */
const lettersMax = 5_000;

/**
 * SQL on the row `d`: `order 4711 is closed` and `order 4712 is closed` are the same words; so are texts that hold
 * different ids.
 */
export const sameWords = `left(regexp_replace(regexp_replace(lower(coalesce(d.last_error, '')),
  '[0-9a-f]{8}-[0-9a-f-]{27}', '#', 'g'), '[0-9]+', '#', 'g'), 500)`;

/**
 * Returns the groups of the registered flows, the oldest first: a group that is there stays there while newer words
 * come. Reads the index of dead letters, so that a bridge without any reads nothing.
 */
export async function readDeadLetterGroups(sql: Sql): Promise<DeadLetterGroup[]> {
  const rows = await sql.query<FoundGroup>(
    `select f.name as flow, g.same, g.words, g.count, g.first, nullif(concat_ws(', ', e.name, s.name), '') as names
     from bridge.flows f cross join lateral (
       select same, count(*)::int as count, min(dead_since) as first,
         (array_agg(words order by dead_since, key))[1] as words,
         (array_agg(sourcing_event order by dead_since, key))[1] as event,
         (array_agg(supplier order by dead_since, key))[1] as supplier
       from (
         select d.key, d.dead_since, d.sourcing_event, d.supplier, coalesce(d.last_error, '') as words,
           ${sameWords} as same
         from bridge.flow_documents d
         where d.flow = f.name and d.dead_since is not null and d.kind = any(f.kinds)
         order by d.dead_since limit ${lettersMax}) letters
       group by same) g
     left join bridge.subjects e on e.source = f.source and e.kind = 'event' and e.id = g.event
     left join bridge.subjects s on s.source = f.source and s.kind = 'supplier' and s.id = g.supplier
     where f.kinds <> '{}' order by f.name, g.first, g.same`,
  );
  return atMost(rows);
}

/** The same for the suppliers and requisitions of intakes; `flow` is the intake, the example its number in the ERP. */
export async function readRefusedRecordGroups(
  sql: Sql,
  intakes: readonly { readonly name: string }[],
): Promise<DeadLetterGroup[]> {
  if (intakes.length === 0) return [];
  const rows = await sql.query<FoundGroup>(
    `select i.name as flow, g.same, g.words, g.count, g.first, g.names
     from bridge.intakes i cross join lateral (
       select same, count(*)::int as count, min(dead_since) as first,
         (array_agg(words order by dead_since, erp_key))[1] as words,
         (array_agg(erp_key order by dead_since, erp_key))[1] as names
       from (
         select d.erp_key, d.dead_since, coalesce(d.last_error, '') as words, ${sameWords} as same
         from bridge.intake_records d
         where d.intake = i.name and d.dead_since is not null
         order by d.dead_since limit ${lettersMax}) letters
       group by same) g
     where i.configured and i.name = any($1) order by i.name, g.first, g.same`,
    [intakes.map(({ name }) => name)],
  );
  return atMost(rows);
}

type FoundGroup = Omit<DeadLetterGroup, 'wordsHash' | 'example'> & { same: string; names: string | null };

/** Further words of a flow are one group, its last one. */
function atMost(rows: readonly FoundGroup[]): DeadLetterGroup[] {
  const groups: DeadLetterGroup[] = [];
  const ofFlow = new Map<string, number>();
  for (const { same, names, ...row } of rows) {
    const place = ofFlow.get(row.flow) ?? 0;
    ofFlow.set(row.flow, place + 1);
    if (place < groupsMax) groups.push({ ...row, example: names, wordsHash: hashOf(same) });
    else if (place === groupsMax)
      groups.push({ ...row, words: 'for other reasons', wordsHash: 'others', example: null });
    else {
      const others = groups.at(-1);
      if (others) groups[groups.length - 1] = { ...others, count: others.count + row.count };
    }
  }
  return groups;
}

function hashOf(same: string): string {
  return createHash('sha256').update(same).digest('hex').slice(0, 16);
}
