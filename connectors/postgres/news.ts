/**
 * Tells the ERP what became of its requisitions: by one row for each in the connector's own table `requisition_news`,
 * which the newest news replaces. A repetition has the same `news_key` and changes nothing, not even `updated_at`, so a
 * trigger of the customer runs once for each news. A row is written in the transaction that looks for the requisition.
 */
import { escapeIdentifier } from 'pg';
import {
  type Acknowledgement,
  acknowledgementCells,
  DataError,
  type Outcome,
  outcomeOf,
} from 'sourcing-bridge/connector';
import { createBatchWriter } from './batches.ts';
import type { Connections, Tx } from './connections.ts';
import { migrate } from './migrations.ts';
import { relationOf } from './reads.ts';
import type { RequisitionSettings } from './settings.ts';
import { connectorErrorOf } from './sql-errors.ts';
import { storable, tableNames } from './tables.ts';
import { compareKeys, refuseDropped } from './write-tables.ts';

interface NewsRow {
  readonly requisition: string;
  readonly newsKey: string;
  readonly cells: readonly (string | null)[];
}

/** Returns the session's `acknowledge`. The first call creates the table where it is missing. */
export function createAcknowledge(connections: Connections, schema: string, settings: RequisitionSettings) {
  const table = tableNames(schema)('requisition_news');
  const names = Object.keys(acknowledgementCells);
  const number = escapeIdentifier(settings.record.reference_id);
  const input = `unnest(${names.map((_, index) => `$${index + 1}::text[]`).join(', ')}) as input (${names.join(', ')})`;
  const setFrom = (source: string) =>
    ['updated_at = now()', ...names.slice(1).map((name) => `${name} = ${source}.${name}`)].join(', ');
  const sql = {
    // What was told before is known, too: a view may have lost it since. The rows are locked in one order.
    told: `select requisition, news_key from ${table} where requisition = any($1::text[]) order by requisition for update`,
    known: `select distinct trim(${number}::text) as requisition from ${relationOf(settings)}
      where trim(${number}::text) = any($1::text[])`,
    // An insert that finds a row would run the insert triggers of the customer, too.
    update: `update ${table} as held set ${setFrom('input')} from ${input} where held.requisition = input.requisition
      returning 1`,
    insert: `insert into ${table} (${names.join(', ')}) select ${names.join(', ')} from ${input}
      on conflict (requisition) do update set ${setFrom('excluded')} returning 1`,
  };

  async function apply(tx: Tx, rows: readonly NewsRow[]): Promise<readonly Outcome[]> {
    const wanted = rows.map(({ requisition }) => requisition);
    const told = new Map(
      (await tx.query<{ requisition: string; news_key: string }>(sql.told, [wanted])).map((row) => [
        row.requisition,
        row.news_key,
      ]),
    );
    const known = new Set(
      (await tx.query<{ requisition: string }>(sql.known, [wanted])).map(({ requisition }) => requisition),
    );
    const isTold = (row: NewsRow) => told.get(row.requisition) === row.newsKey;
    await writeRows(
      sql.update,
      rows.filter((row) => told.has(row.requisition) && !isTold(row)),
    );
    await writeRows(
      sql.insert,
      rows.filter(({ requisition }) => known.has(requisition) && !told.has(requisition)),
    );
    return rows.map((row): Outcome => {
      const { requisition } = row;
      if (!known.has(requisition) && !told.has(requisition))
        return outcomeOf(new DataError(`${settings.from} has no requisition ${requisition}.`));
      return { status: isTold(row) ? 'unchanged' : 'updated', reference: `requisition_news/${requisition}` };
    });

    async function writeRows(statement: string, due: readonly NewsRow[]): Promise<void> {
      if (due.length === 0) return;
      const columns = names.map((_, index) => due.map((row) => row.cells[index] ?? null));
      refuseDropped(due.length, (await tx.query(statement, columns)).length, table);
    }
  }

  const write = createBatchWriter(connections, { lock: `${schema} requisition_news`, apply });
  let isMigrated = false;

  return async (given: readonly Acknowledgement[], signal: AbortSignal): Promise<Outcome[]> => {
    try {
      if (!isMigrated) await migrate(connections, { schema, part: 'news' }, signal);
      isMigrated = true;
    } catch (error) {
      const outcome = outcomeOf(connectorErrorOf(error, connections.targetName));
      return given.map(() => outcome);
    }
    const outcomes: Outcome[] = [];
    const prepared: { index: number; row: NewsRow }[] = [];
    for (const [index, news] of given.entries())
      try {
        prepared.push({ index, row: rowOf(news) });
      } catch (error) {
        outcomes[index] = outcomeOf(error);
      }
    // In one order in every process, so that two never wait for each other.
    prepared.sort((one, other) => compareKeys(one.row.requisition, other.row.requisition));
    const written = await write(
      prepared.map(({ row }) => row),
      signal,
    );
    for (const [place, { index }] of prepared.entries()) outcomes[index] = written[place] as Outcome;
    return outcomes;
  };
}

/** Throws DataError for a text that PostgreSQL cannot hold. */
function rowOf(news: Acknowledgement): NewsRow {
  const values = Object.entries(acknowledgementCells).map(([name, valueOf]) => {
    const value = valueOf(news);
    return value === undefined ? null : storable(name, value);
  });
  return { requisition: news.requisition, newsKey: news.idempotencyKey, cells: values };
}
