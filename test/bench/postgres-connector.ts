/**
 * Awards of five lines through the postgres connector, against the same rows by statements as one writes them by hand: an
 * INSERT of many rows with ON CONFLICT for the heads, a DELETE and INSERTs of many rows for what belongs to them, one
 * transaction a batch. In turns, on tables that are alike; new ones first, then a second version of each.
 * BENCH_DOCUMENTS: how many instead of 2,000.
 */
import { Client } from 'pg';
import type { Installation } from '#cli/installation.ts';
import type { Operation } from '#connector/connector.ts';
import type { AwardDocument } from '#connector/documents.ts';
import { testContext } from '#connector/testing/test-context.ts';
import connector from '../../connectors/postgres/index.ts';
import { median, megabytes, printTable } from './figures.ts';
import { noteGoal } from './goals.ts';

const documentCount = Number(process.env['BENCH_DOCUMENTS'] ?? 2_000);
const batch = 500;
const rounds = 5;
const linesEach = 5;
const cellsEach = 6;
/** PostgreSQL takes no more parameters in one statement. */
const parametersMax = 65_535;

/** Prints documents per second on both sides and their ratio. */
export async function benchPostgresConnector({ open: { url } }: Installation): Promise<void> {
  const client = new Client({ connectionString: url });
  await client.connect();
  const { context } = testContext();
  const session = await connector.open(connector.settings.parse({ url, schema: 'by_connector' }), context);
  const hand = await connector.open(connector.settings.parse({ url, schema: 'by_hand' }), context);
  const never = new AbortController().signal;
  const rssBefore = process.memoryUsage.rss();
  try {
    // Both make their tables.
    for (const each of [session, hand]) await each.write([awardOperation(0, 1)], never);
    const ratios: Record<number, Turn[]> = { 1: [], 2: [] };
    for (let round = -1; round < rounds; round += 1) {
      for (const schema of ['by_connector', 'by_hand'])
        await client.query(`truncate ${schema}.award, ${schema}.award_line, ${schema}.award_value`);
      for (const version of [1, 2]) {
        const turn = { connector: 0, hand: 0 };
        for (let from = 0; from < documentCount; from += batch) {
          const operations = Array.from({ length: Math.min(batch, documentCount - from) }, (_, index) =>
            awardOperation(from + index, version),
          );
          let began = performance.now();
          const outcomes = await session.write(operations, never);
          turn.connector += performance.now() - began;
          const refused = outcomes.find((outcome) => !('reference' in outcome));
          if (refused) throw new Error(JSON.stringify(refused));
          began = performance.now();
          await writeByHand(client, operations);
          turn.hand += performance.now() - began;
        }
        if (round >= 0) ratios[version]?.push(turn);
      }
    }
    await compare(client);
    console.log(
      `Writing ${documentCount.toLocaleString('en')} awards of ${linesEach} lines with ${cellsEach} cells each, ${batch} in a transaction`,
    );
    const ratio = median((ratios[1] ?? []).map((turn) => turn.hand / turn.connector));
    noteGoal({ name: 'push of awards through postgres : by hand', measured: ratio, least: 1.3 });
    printTable([
      ['', 'connector', 'by hand', 'connector : by hand'],
      ...[[1, 'new'] as const, [2, 'changed'] as const].map(([version, name]) => {
        const turns = ratios[version] ?? [];
        const perSecond = (of: (turn: Turn) => number) =>
          `${Math.round((documentCount / median(turns.map(of))) * 1000).toLocaleString('en')}/s`;
        return [
          name,
          perSecond((turn) => turn.connector),
          perSecond((turn) => turn.hand),
          median(turns.map((turn) => turn.hand / turn.connector)).toFixed(2),
        ];
      }),
    ]);
    console.log(`  memory ${megabytes(rssBefore)} before, ${megabytes(process.memoryUsage.rss())} after\n`);
  } finally {
    await session.close();
    await hand.close();
    await client.end();
  }
}

interface Turn {
  connector: number;
  hand: number;
}

/** An award of five lines with six cells each; `version` changes its title and its costs. */
export function awardOperation(number: number, version: number): Operation {
  const document: AwardDocument = {
    kind: 'award',
    key: `event-${Math.floor(number / 5)}/supplier-${number}`,
    event: {
      id: `event-${Math.floor(number / 5)}`,
      name: `Forged steel flanges ${number}, version ${version}`,
      reference_id: `RFQ-${number}`,
      type: 'RFQ',
      is_test: false,
      tags: [{ name: 'Region', value: 'EMEA' }],
    },
    supplier: { id: `supplier-${number}`, external_id: `SUP-${number}`, name: `Supplier "${number}"` },
    currency: 'EUR',
    exchange_rates: [{ code: 'USD', exchange_rate: '1.08' }],
    total_cost: `${number}.50`,
    lines: Array.from({ length: linesEach }, (_, line) => ({
      lot: `Lot ${line}: forged steel flange, DN ${50 + line * 25}, "EN 1092-1"`,
      scenario: 'Best price',
      share: '1',
      quantity: `${number + line}`,
      unit_price: '12.3456',
      cost: `${number * version}.67`,
      values: Array.from({ length: cellsEach }, (_, cell) => ({
        column: `Column ${cell}`,
        value: cell === 5 ? 'Packed in crates of 20, certificate 3.1' : `${(number * 7919 + cell) % 10_000}`,
      })),
    })),
  };
  const contentHash = `${version}${number}`.padStart(64, '0');
  return {
    action: version === 1 ? 'create' : 'amend',
    document,
    contentHash,
    idempotencyKey: contentHash,
    reference: undefined,
  };
}

/** What somebody writes who has these tables and these documents. */
async function writeByHand(client: Client, operations: readonly Operation[]): Promise<void> {
  const documents = operations.map(({ document }) => document as AwardDocument);
  await client.query('begin');
  await insert(
    client,
    `by_hand.award (key, state, content_hash, version, written_at, event_id, event_name, event_reference_id, event_type,
       event_is_test, event_tags, supplier_id, supplier_external_id, supplier_name, currency, exchange_rates, total_cost)`,
    documents.map((document, index) => [
      document.key,
      'current',
      operations[index]?.contentHash,
      1,
      new Date(),
      document.event.id,
      document.event.name,
      document.event.reference_id,
      document.event.type,
      document.event.is_test,
      JSON.stringify(document.event.tags),
      document.supplier.id,
      document.supplier.external_id,
      document.supplier.name,
      document.currency,
      JSON.stringify(document.exchange_rates),
      document.total_cost,
    ]),
    `on conflict (key) do update set state = excluded.state, content_hash = excluded.content_hash,
       version = award.version + 1, written_at = excluded.written_at, event_id = excluded.event_id,
       event_name = excluded.event_name, event_reference_id = excluded.event_reference_id,
       event_type = excluded.event_type, event_is_test = excluded.event_is_test, event_tags = excluded.event_tags,
       supplier_id = excluded.supplier_id, supplier_external_id = excluded.supplier_external_id,
       supplier_name = excluded.supplier_name, currency = excluded.currency,
       exchange_rates = excluded.exchange_rates, total_cost = excluded.total_cost`,
  );
  const keys = documents.map(({ key }) => key);
  await client.query('delete from by_hand.award_value where key = any($1)', [keys]);
  await client.query('delete from by_hand.award_line where key = any($1)', [keys]);
  await insert(
    client,
    'by_hand.award_line (key, line, lot, scenario, share, quantity, unit_price, cost)',
    documents.flatMap(({ key, lines }) =>
      lines.map((line, index) => [
        key,
        index + 1,
        line.lot,
        line.scenario,
        line.share,
        line.quantity,
        line.unit_price,
        line.cost,
      ]),
    ),
  );
  await insert(
    client,
    'by_hand.award_value (key, line, position, column_name, value)',
    documents.flatMap(({ key, lines }) =>
      lines.flatMap(({ values }, line) =>
        values.map(({ column, value }, index) => [key, line + 1, index + 1, column, value]),
      ),
    ),
  );
  await client.query('commit');
}

async function insert(client: Client, into: string, rows: readonly unknown[][], tail = ''): Promise<void> {
  const width = rows[0]?.length ?? 1;
  const rowsMax = Math.floor(parametersMax / width);
  for (let from = 0; from < rows.length; from += rowsMax) {
    const some = rows.slice(from, from + rowsMax);
    const places = some.map((row, index) => `(${row.map((_, column) => `$${index * width + column + 1}`).join(', ')})`);
    await client.query(`insert into ${into} values ${places.join(', ')} ${tail}`, some.flat());
  }
}

/** Both have written the same, or the figures say nothing. */
async function compare(client: Client): Promise<void> {
  for (const [table, columns] of [
    ['award', 'key, content_hash, version, event_name, event_tags, supplier_name, exchange_rates, total_cost'],
    ['award_line', '*'],
    ['award_value', '*'],
  ]) {
    const { rows } = await client.query<{ count: number; differing: number }>(
      `select (select count(*)::int from by_connector.${table}) as count,
         (select count(*)::int from (
           (table_a except table_b) union all (table_b except table_a)) as d) as differing`
        .replaceAll('table_a', `select ${columns} from by_connector.${table}`)
        .replaceAll('table_b', `select ${columns} from by_hand.${table}`),
    );
    const [row] = rows;
    if (!row || row.count === 0 || row.differing !== 0)
      throw new Error(`${table}: ${row?.count} rows, ${row?.differing} of them differ`);
  }
}
