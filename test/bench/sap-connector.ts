/**
 * Awards of five lines through the SAP connector, against the same orders by bare calls of the API: one POST each. In turns,
 * as many at once on either side, on the stub of the tests. What is measured is the connector and its requests, not SAP.
 * BENCH_DOCUMENTS: how many instead of 200. BENCH_SUPPLIERS: how many in the first sync whose requests are counted, instead
 * of 10,000.
 */
import { join } from 'node:path';
import type { Operation } from '#connector/connector.ts';
import type { SupplierDocument } from '#connector/documents.ts';
import { testContext } from '#connector/testing/test-context.ts';
import connector from '../../connectors/sap-s4hana/index.ts';
import { itemNumbers, orderBody, orderOf } from '../../connectors/sap-s4hana/order-values.ts';
import { awardOf, lineOf, never, operationOf } from '../connectors/sap-s4hana/documents.ts';
import { sapSettings } from '../connectors/sap-s4hana/sap-settings.ts';
import { installSapStub } from '../sap/install-sap-stub.ts';
import { startMetadataServer } from '../sap/metadata-server.ts';
import { login, type SapSystem, serviceRoot, startSapSystem } from '../sap/sap-system.ts';
import { createSuppliers, suppliers } from '../sap/seed-suppliers.ts';
import { median, printTable } from './figures.ts';

const documentCount = Number(process.env['BENCH_DOCUMENTS'] ?? 200);
const supplierCount = Number(process.env['BENCH_SUPPLIERS'] ?? 10_000);
const batch = 20;
const atOnce = 4;

/** Prints documents per second on both sides, their ratio, the requests of each, and those of a first sync. */
export async function benchSapConnector(): Promise<void> {
  const stub = await installSapStub();
  if ('missing' in stub) {
    console.log(`The stub of SAP S/4HANA cannot be made: ${stub.missing}`);
    return;
  }
  const server = await startMetadataServer(stub);
  const system = await startSapSystem(server.url, join(stub.folder, 'metadata'));
  try {
    await createSuppliers(system);
    const settings = connector.settings.parse(sapSettings(system.url, { supplier_country: 'DE' }));
    const session = await connector.open(settings, testContext().context);
    try {
      const bare = await bareOrders(system);
      const turns: { connector: number; bare: number; requests: number }[] = [];
      // The first turn is for what each side reads once.
      for (let from = 0; from < documentCount + batch; from += batch) {
        const operations = Array.from({ length: batch }, () =>
          operationOf('create', awardOf({ lines: [1, 2, 3, 4, 5].map((n) => lineOf(`Lot ${n}`)) })),
        );
        system.requests();
        let began = performance.now();
        const outcomes = await session.write(operations, never);
        const connectorMs = performance.now() - began;
        const refused = outcomes.find(({ status }) => status !== 'created');
        if (refused) throw new Error(JSON.stringify(refused));
        const requests = system.requests().length;
        began = performance.now();
        await bare(operations);
        if (from > 0) turns.push({ connector: connectorMs, bare: performance.now() - began, requests });
      }
      const perSecond = (of: (turn: { connector: number; bare: number }) => number) =>
        `${Math.round(batch / (median(turns.map(of)) / 1_000)).toLocaleString('en')}/s`;
      console.log(
        `Making ${documentCount} orders of 5 lines, ${batch} in a batch, ${atOnce} at once, on the stub of SAP`,
      );
      printTable([
        ['', 'connector', 'bare POST', 'connector : bare POST', 'requests of a batch'],
        [
          'new',
          perSecond((turn) => turn.connector),
          perSecond((turn) => turn.bare),
          median(turns.map((turn) => turn.bare / turn.connector)).toFixed(2),
          `${median(turns.map(({ requests }) => requests))} : ${batch}`,
        ],
      ]);
      system.requests();
      for (let from = 0; from < supplierCount; from += batch) {
        const some = Array.from({ length: batch }, (_, index) => operationOf('create', supplierOf(from + index)));
        const outcomes = await session.write(some, never);
        const refused = outcomes.find(({ status }) => status !== 'created');
        if (refused) throw new Error(JSON.stringify(refused));
      }
      console.log(`First sync of ${supplierCount} suppliers: ${system.requests().length} requests\n`);
    } finally {
      await session.close();
    }
  } finally {
    await system.close();
    await server.stop();
  }
}

function supplierOf(number: number): SupplierDocument {
  const key = `BENCH-${number}`;
  return { kind: 'supplier', key, external_id: key, name: `Supplier ${number}`, attributes: [], contacts: [] };
}

/** The calls as somebody writes them who knows this system: one session, no search, no checks, numbers at hand. */
async function bareOrders(system: SapSystem): Promise<(operations: readonly Operation[]) => Promise<void>> {
  const settings = connector.settings.parse(sapSettings(system.url)) as Parameters<typeof orderOf>[3];
  const authorization = `Basic ${Buffer.from(`${login.user}:${login.password}`).toString('base64')}`;
  const service = `${system.url}${serviceRoot}API_PURCHASEORDER_PROCESS_SRV/`;
  const opened = await fetch(service, { headers: { authorization, 'x-csrf-token': 'Fetch' } });
  const headers = {
    authorization,
    'content-type': 'application/json',
    'x-csrf-token': opened.headers.get('x-csrf-token') ?? '',
    cookie: opened.headers
      .getSetCookie()
      .map((cookie) => cookie.split(';')[0])
      .join('; '),
  };
  return async (operations) => {
    const waiting = [...operations];
    const work = async () => {
      for (let operation = waiting.pop(); operation; operation = waiting.pop()) {
        if (operation.document.kind !== 'award') continue;
        const order = orderOf(operation.document, operation.contentHash, suppliers[0], settings);
        const body = JSON.stringify(orderBody(order, itemNumbers(order.items.length), settings));
        const response = await fetch(`${service}A_PurchaseOrder`, { method: 'POST', headers, body });
        if (response.status !== 201) throw new Error(await response.text());
        await response.arrayBuffer();
      }
    };
    await Promise.all(Array.from({ length: atOnce }, work));
  };
}
