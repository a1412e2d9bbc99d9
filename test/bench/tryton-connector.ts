/**
 * Awards of five lines through the tryton connector, against the same purchases by bare JSON-RPC: one `create` of Tryton's
 * for a batch. In turns, on one real server, in one database, on PostgreSQL. BENCH_DOCUMENTS: how many instead of 300.
 */
import type { Installation } from '#cli/installation.ts';
import type { Operation } from '#connector/connector.ts';
import type { AwardDocument } from '#connector/documents.ts';
import { testContext } from '#connector/testing/test-context.ts';
import connector from '../../connectors/tryton/index.ts';
import { installTryton } from '../tryton/install-tryton.ts';
import { date, decimal, type TrytonClient } from '../tryton/tryton-rpc.ts';
import { startTryton, trytonUsers } from '../tryton/tryton-server.ts';
import { median, printTable } from './figures.ts';

const documentCount = Number(process.env['BENCH_DOCUMENTS'] ?? 300);
const batch = 50;
const linesEach = 5;

/** Prints documents per second on both sides and their ratio, or why there is no Tryton. */
export async function benchTrytonConnector({ open: { url } }: Installation): Promise<void> {
  const installed = await installTryton();
  if ('missing' in installed) {
    console.log(`tryton-connector is left out, there is no Tryton: ${installed.missing}\n`);
    return;
  }
  const server = await startTryton(installed, { kind: 'postgresql', url, prefix: 'sourcing_bench_tryton_' });
  try {
    const database = await server.newDatabase();
    const rpc = await database.logIn('connector');
    const { login: user, password } = trytonUsers.connector;
    const settings = { url: server.url, database: database.name, user, password, product: 'LOT', batch_size: batch };
    const session = await connector.open(connector.settings.parse(settings), testContext().context);
    const never = new AbortController().signal;
    const byHand = await readByHand(rpc);
    const turns: { connector: number; hand: number }[] = [];
    try {
      // The first turn is for what each side reads once.
      for (let from = 0; from < documentCount + batch; from += batch) {
        const operations = Array.from({ length: batch }, (_, index) => operationOf(from + index));
        let began = performance.now();
        const outcomes = await session.write(operations, never);
        const connectorMs = performance.now() - began;
        const refused = outcomes.find(({ status }) => status !== 'created');
        if (refused) throw new Error(JSON.stringify(refused));
        began = performance.now();
        await rpc.create(
          'purchase.purchase',
          operations.map(({ document }) => byHand(document as AwardDocument)),
        );
        if (from > 0) turns.push({ connector: connectorMs, hand: performance.now() - began });
      }
    } finally {
      await session.close();
    }
    await compare(rpc);
    const perSecond = (of: (turn: { connector: number; hand: number }) => number) =>
      `${(batch / (median(turns.map(of)) / 1_000)).toFixed(1)}/s`;
    console.log(`Making ${documentCount} purchases of ${linesEach} lines, ${batch} in a batch: ${server.description}`);
    printTable([
      ['', 'connector', 'bare create', 'connector : bare create'],
      [
        'new',
        perSecond((turn) => turn.connector),
        perSecond((turn) => turn.hand),
        median(turns.map((turn) => turn.hand / turn.connector)).toFixed(2),
      ],
    ]);
    console.log('');
  } finally {
    await server.stop();
    await server.forget();
  }
}

function operationOf(number: number): Operation {
  const quantity = 10 + (number % 7);
  const document: AwardDocument = {
    kind: 'award',
    key: `event-${number}/supplier-1`,
    event: {
      id: `event-${number}`,
      name: `Forged steel flanges ${number}`,
      reference_id: `RFQ-${number}`,
      type: 'RFQ',
      is_test: false,
      tags: [{ name: 'Region', value: 'EMEA' }],
    },
    supplier: { id: 'supplier-1', external_id: 'V-1001', name: 'Müller & Söhne KG' },
    currency: 'EUR',
    exchange_rates: [],
    total_cost: `${linesEach * quantity * 2}`,
    lines: Array.from({ length: linesEach }, (_, line) => ({
      lot: `Lot ${line}: forged steel flange, DN ${50 + line * 25}`,
      share: '1',
      quantity: `${quantity}`,
      unit_price: '2.0000',
      cost: `${quantity * 2}`,
      values: [{ column: 'Incoterm', value: 'DAP' }],
    })),
  };
  const contentHash = `${number}`.padStart(64, '0');
  return { action: 'create', document, contentHash, idempotencyKey: contentHash, reference: undefined };
}

/** Gives what makes the record of a document's purchase, as somebody writes it who knows this database. */
async function readByHand(rpc: TrytonClient): Promise<(document: AwardDocument) => object> {
  const one = async (model: string, domain: readonly unknown[], fields: readonly string[]) =>
    (await rpc.search(model, domain, fields))[0];
  const party = await one('party.party', [['code', '=', 'V-1001']], ['addresses']);
  const product = await one('product.product', [['code', '=', 'LOT']], ['default_uom']);
  const [company, currency, warehouse] = [
    await one('company.company', [], ['id']),
    await one('currency.currency', [['code', '=', 'EUR']], ['id']),
    await one('stock.location', [['code', '=', 'WH']], ['id']),
  ];
  const purchaseDate = date(new Date().toISOString().slice(0, 10));
  return ({ key, lines }) => ({
    party: party.id,
    invoice_address: party.addresses[0],
    company: company.id,
    currency: currency.id,
    warehouse: warehouse.id,
    purchase_date: purchaseDate,
    reference: `by hand ${key}`,
    lines: [
      [
        'create',
        lines.map((line) => ({
          type: 'line',
          product: product.id,
          unit: product.default_uom,
          quantity: Number(line.quantity),
          unit_price: decimal(line.unit_price ?? ''),
          description: line.lot,
        })),
      ],
    ],
  });
}

/** Throws unless both sides have made as many purchases with as many lines, worth as much. */
async function compare(rpc: TrytonClient): Promise<void> {
  const purchases = await rpc.search('purchase.purchase', [], ['reference', 'untaxed_amount', 'lines']);
  const [byHand, others] = [true, false].map((hand) =>
    purchases
      .filter(({ reference }) => String(reference).startsWith('by hand') === hand)
      .map(({ untaxed_amount: amount, lines }) => `${amount} ${lines.length}`)
      .sort(),
  );
  if (JSON.stringify(byHand) !== JSON.stringify(others))
    throw new Error('The two sides did not make the same purchases.');
}
