/**
 * Awards of five lines through the odoo connector, against the same orders by bare calls of the API: one `load` for a
 * batch. In turns, on the stand-in for Odoo 19 of the tests, which answers at once: what is measured is the connector,
 * not Odoo (which itself makes some 20 such orders a second). BENCH_DOCUMENTS: how many instead of 1,000.
 */
import type { Operation } from '#connector/connector.ts';
import type { AwardDocument } from '#connector/documents.ts';
import { testContext } from '#connector/testing/test-context.ts';
import connector from '../../connectors/odoo/index.ts';
import { users } from '../connectors/odoo/stand-in/seed.ts';
import { databaseName, type OdooStandIn, startStandIn } from '../connectors/odoo/stand-in/server.ts';
import { median, printTable } from './figures.ts';

const documentCount = Number(process.env['BENCH_DOCUMENTS'] ?? 1_000);
const batch = 50;
const linesEach = 5;

/** Prints documents per second on both sides, their ratio, and the requests of each. */
export async function benchOdooConnector(): Promise<void> {
  const erp = await startStandIn();
  try {
    erp.installed.product(10, 'A lot of an event', 'LOT', 1);
    const vendor = erp.installed.create('res.partner', { name: 'Müller & Söhne KG', ref: 'V-1001', supplier_rank: 1 });
    const settings = {
      url: erp.url,
      database: databaseName,
      api_key: erp.newKey(users.connector),
      product: 'LOT',
      batch_size: batch,
    };
    const session = await connector.open(connector.settings.parse(settings), testContext().context);
    const never = new AbortController().signal;
    const bare = bareLoad(erp, vendor.id);
    const turns: { connector: number; bare: number; requests: number }[] = [];
    try {
      // The first turn is for what each side reads once.
      for (let from = 0; from < documentCount + batch; from += batch) {
        const operations = Array.from({ length: batch }, (_, index) => operationOf(from + index));
        const before = erp.requests;
        let began = performance.now();
        const outcomes = await session.write(operations, never);
        const connectorMs = performance.now() - began;
        const requests = erp.requests - before;
        const refused = outcomes.find(({ status }) => status !== 'created');
        if (refused) throw new Error(JSON.stringify(refused));
        began = performance.now();
        await bare(operations.map(({ document }) => document as AwardDocument));
        if (from > 0) turns.push({ connector: connectorMs, bare: performance.now() - began, requests });
      }
    } finally {
      await session.close();
    }
    const perSecond = (of: (turn: { connector: number; bare: number }) => number) =>
      `${Math.round(batch / (median(turns.map(of)) / 1_000)).toLocaleString('en')}/s`;
    console.log(
      `Making ${documentCount} orders of ${linesEach} lines, ${batch} in a batch, on the stand-in for Odoo 19`,
    );
    printTable([
      ['', 'connector', 'bare load', 'connector : bare load', 'requests of a batch'],
      [
        'new',
        perSecond((turn) => turn.connector),
        perSecond((turn) => turn.bare),
        median(turns.map((turn) => turn.bare / turn.connector)).toFixed(2),
        `${median(turns.map(({ requests }) => requests))} : 1`,
      ],
    ]);
    console.log('');
  } finally {
    await erp.close();
  }
}

function operationOf(number: number): Operation {
  const quantity = 10 + (number % 7);
  const document: AwardDocument = {
    kind: 'award',
    key: `event-${number}/supplier-1`,
    event: { id: `event-${number}`, name: `Forged steel flanges ${number}`, type: 'RFQ', is_test: false, tags: [] },
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

/** The call as somebody writes it who knows this database: no search, no checks, ids at hand. */
function bareLoad(erp: OdooStandIn, vendor: number): (documents: readonly AwardDocument[]) => Promise<void> {
  const key = erp.newKey(users.connector);
  const own = ['id', 'partner_id/.id', 'origin', 'currency_id/.id'];
  const line = ['id', 'name', 'product_id/.id', 'product_qty', 'price_unit'];
  const fields = [...own, ...line.map((name) => `order_line/${name}`)];
  return async (documents) => {
    const data = documents.flatMap(({ key: name, lines }) =>
      lines.map(({ lot, quantity, unit_price }, index) => [
        ...(index === 0 ? [`by_hand.${name}`, String(vendor), name, '126'] : own.map(() => '')),
        `by_hand.${name}_${index}`,
        lot,
        '10',
        quantity ?? '',
        unit_price ?? '',
      ]),
    );
    const response = await fetch(`${erp.url}/json/2/purchase.order/load`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: `bearer ${key}`, 'x-odoo-database': databaseName },
      body: JSON.stringify({ fields, data }),
    });
    const answer = (await response.json()) as { ids: unknown };
    if (answer.ids === false) throw new Error(JSON.stringify(answer));
  };
}
