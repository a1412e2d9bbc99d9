/**
 * Dead letters in groups of the same reason: what the ERP said, with numbers and ids left out. "Vendor 4711 is blocked"
 * and "Vendor 4712 is blocked" are one group.
 */
import type { DocumentKind } from '#connector/documents.ts';
import type { Timestamp } from '#contract/timestamp.ts';
import type { Database } from '#platform/database/database.ts';
import type { Sql } from '#platform/database/sql.ts';
import { AppError } from '#platform/errors.ts';

/**
 * SQL on the row `d`: `order 4711 is closed` and `order 4712 is closed` are the same words; so are texts that hold
 * different ids.
 */
export const sameWords = `left(regexp_replace(regexp_replace(lower(coalesce(d.last_error, '')),
  '[0-9a-f]{8}-[0-9a-f-]{27}', '#', 'g'), '[0-9]+', '#', 'g'), 500)`;

export interface DeadLetterFilter {
  readonly flows?: readonly string[] | undefined;
  readonly kinds?: readonly DocumentKind[] | undefined;
  /** The reason of a group. */
  readonly reason?: string | undefined;
}

export interface RefusalGroup {
  readonly flow: string;
  readonly kind: DocumentKind;
  /** Identifies the group within its flow and kind. */
  readonly reason: string;
  /** The text of the newest one. */
  readonly example: string;
  readonly errorType: string | null;
  readonly count: number;
  readonly first: Timestamp;
  readonly last: Timestamp;
}

/** The condition on `d` of the dead letters that match, with its parameters from `$<skip + 1>` on. */
function deadLetterCondition(
  { flows, kinds, reason }: DeadLetterFilter,
  skip = 0,
): { condition: string; params: unknown[] } {
  const params: unknown[] = [];
  const param = (value: unknown) => `$${params.push(value) + skip}`;
  const conditions = [
    'd.dead_since is not null',
    ...(flows ? [`d.flow = any(${param(flows)})`] : []),
    ...(kinds ? [`d.kind = any(${param(kinds)})`] : []),
    ...(reason === undefined ? [] : [`${sameWords} = ${param(reason)}`]),
  ];
  return { condition: conditions.join(' and '), params };
}

/** Upper bound of the groups that are shown; the largest come first. */
const groupsMost = 200;

/** Returns the groups of all dead letters that match, the largest first. */
export function readRefusalGroups(sql: Sql, filter: DeadLetterFilter): Promise<RefusalGroup[]> {
  const { condition, params } = deadLetterCondition(filter);
  return sql.query<RefusalGroup>(
    `select d.flow, d.kind, ${sameWords} as reason, count(*)::int as count, min(d.dead_since) as first,
       max(d.dead_since) as last, (array_agg(coalesce(d.last_error, 'no reason known') order by d.dead_since desc))[1] as example,
       (array_agg(d.error_type order by d.dead_since desc))[1] as "errorType"
     from bridge.flow_documents d join bridge.flows f on f.name = d.flow and d.kind = any(f.kinds)
     where ${condition} group by d.flow, d.kind, reason order by count desc, last desc limit ${groupsMost}`,
    params,
  );
}

/**
 * Makes the dead letters due that match. Throws AppError `conflict` where another number matches than the operator has agreed
 * to: nothing is done then.
 */
export async function replayDeadLetters(
  database: Database,
  filter: DeadLetterFilter,
  expected: number,
  now: Timestamp,
): Promise<void> {
  const { condition, params } = deadLetterCondition(filter, 1);
  await database.transaction(async (tx) => {
    const [replayed] = await tx.query<{ count: number }>(
      `with replayed as (
         update bridge.flow_documents d
         set wanted = d.wanted + 1, due = least(d.due, $1), waiting_since = coalesce(d.waiting_since, $1), attempts = 0,
           dead_since = null
         from bridge.flows f where f.name = d.flow and d.kind = any(f.kinds) and ${condition} returning 1)
       select count(*)::int as count from replayed`,
      [now, ...params],
    );
    const count = replayed?.count ?? 0;
    if (count !== expected)
      throw new AppError(
        'conflict',
        `${count} dead letters match now, and not the ${expected} that were shown. Look again, and repeat it if it is right.`,
      );
  });
}
