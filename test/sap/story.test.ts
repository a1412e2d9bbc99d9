/**
 * Service and bridge as processes, a flow into the stub of SAP, and simulated buyers and suppliers. The bridge is killed
 * with `kill -9` and SAP's answers are lost, while orders and suppliers are created and changed, at seeded moments. At the
 * end, the orders that SAP's OData server holds are exactly what the buyers awarded. Runs only where FAULTS sets the number of faults (`npm run test:kills`); FAULT_SEED sets the moments.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { externalNumber } from '../../connectors/sap-s4hana/markers.ts';
import { sapSettings } from '../connectors/sap-s4hana/sap-settings.ts';
import { readUnfinished } from '../faults/awards-in-sql.ts';
import { awardsAtDesk, lineText, type Purchases, startStory } from '../faults/endless-story.ts';
import { createSource, ledgerConfiguration } from '../faults/ledger-bridge.ts';
import { openClient } from '../faults/players.ts';
import { createInstallation, lineOf, until, useEmbedded } from '../faults/program-process.ts';
import { seededRandom } from '../faults/seeded-random.ts';
import { type SupervisedProgram, superviseProgram } from '../faults/supervised-program.ts';
import { freePort } from '../harness/free-port.ts';
import type { Entity } from './business-rules.ts';
import { describeSap, startTestSap } from './sap-in-tests.ts';
import type { SapSystem } from './sap-system.ts';

const faults = Number(process.env['FAULTS'] ?? 0);
const seed = Number(process.env['FAULT_SEED'] ?? 5);
const eventsAtLeast = 4;
/** Upper bounds for a very busy machine: each wait ends as soon as its condition holds. */
const faultWaitMs = 180_000;
const idleWaitMs = 240_000;

describeSap('a simulated story with a flow into SAP', () => {
  test.runIf(faults > 0)(
    `after ${faults} faults each award is exactly one purchase order`,
    {
      timeout: 60_000 + faults * faultWaitMs + idleWaitMs,
    },
    async () => {
      const sap = await startTestSap();
      const port = await freePort();
      const installation = await createInstallation();
      const service = superviseProgram('service', () => installation.start(['service', '--port', '0']));
      const baseUrl = /http\S+/.exec(await lineOf(service.program, /ready/))?.[0] ?? '';
      const source = await createSource(installation, baseUrl, [`https://localhost:${port}/webhooks/main`]);
      const { dataDir } = installation;
      const configuration = ledgerConfiguration(source, {
        bridge: { port, flows: [flowInto(sap.url)] },
        source: { suppliers: true, quotas: { enabled: false } },
      });
      const bridgeInstallation = await createInstallation({ dataDir, configuration });
      const bridge = superviseProgram('bridge', () => bridgeInstallation.start(['bridge']));
      await bridge.ready();
      const client = await openClient(baseUrl, source.apiKey);

      await useEmbedded(dataDir, async (url) => {
        const players = startStory(client, seed);
        const failure = () => bridge.failure ?? players.failure;
        const injected: string[] = [];
        const all = faultsBetween({ bridge, sap, random: seededRandom(seed) });
        for (let number = 0; number < faults; number += 1) {
          // The story creates its suppliers once, at its beginning.
          const [name, inject] = number === 0 ? all.atFirst : (all.later[(number - 1) % all.later.length] as Fault);
          let isOver = false;
          const injection = inject().finally(() => {
            isOver = true;
          });
          // It is awaited below, but may reject before.
          injection.catch(() => undefined);
          await expect
            .poll(() => isOver || failure() !== undefined, { timeout: faultWaitMs, interval: 20, message: name })
            .toBe(true);
          expect(failure()).toBeUndefined();
          await injection;
          injected.push(name);
        }
        await until('some events were played', () => players.events >= eventsAtLeast, failure);
        await players.finish();
        const awarded = Object.fromEntries(
          Object.entries(await awardsAtDesk(client)).map(([key, orders]) => {
            const [event = '', supplier = ''] = key.split('/');
            return [`${event}/${externalNumber(supplier)}`, orders];
          }),
        );
        expect(Object.keys(awarded).length).toBeGreaterThan(0);
        const stateNow = async () => ({ orders: await ordersIn(sap), unfinished: await readUnfinished(url) });
        await expect
          .poll(stateNow, { timeout: idleWaitMs, interval: 250, message: `faults: ${injected.join(', ')}` })
          .toEqual({ orders: awarded, unfinished: [] });
        // oxlint-disable-next-line no-console -- a developer who runs hundreds of faults wants to see them
        console.log(
          `Seed ${seed}: ${players.events} events, ${Object.keys(awarded).length} orders; ${injected.join(', ')}`,
        );
      });
      await bridge.end();
      await service.end();
    },
  );
});

function flowInto(url: string): object {
  return {
    name: 'sap',
    source: 'main',
    connector: 'sap-s4hana',
    documents: ['supplier', 'award'],
    quantity_column: 'Annual Volume',
    unit_price_column: 'Unit Price',
    // Deleted events and revoked awards withdraw more documents than the default limit allows without confirmation.
    withdrawals: { most: 1_000 },
    // Each failure of this test ends soon.
    circuit: { seconds: 1 },
    // The stub carries a request out in less than a second; a fault costs both times.
    settings: sapSettings(url, { supplier_country: 'DE', batch_size: 5, timeout_seconds: 15, settle_seconds: 2 }),
  };
}

type Fault = readonly [string, () => Promise<void>];

/** Each fault resolves when it is over. */
function faultsBetween(parts: { bridge: SupervisedProgram; sap: SapSystem; random: ReturnType<typeof seededRandom> }): {
  atFirst: Fault;
  later: readonly Fault[];
} {
  const { bridge, sap, random } = parts;
  const at = async (
    method: string | RegExp,
    path: string | RegExp,
    isAnswerLost: boolean,
    happens: () => Promise<unknown>,
  ) =>
    new Promise<void>((resolve, reject) => {
      sap.inject({
        method,
        path,
        status: 503,
        isAnswerLost,
        before: async () => {
          // SAP goes on meanwhile.
          happens().then(() => resolve(), reject);
        },
      });
    });
  const kill = async (afterMs: number) => {
    await sleep(random.upTo(afterMs));
    await bridge.kill();
  };
  const orders = /A_PurchaseOrder$/;
  // An amend is one batch.
  const batches = 'API_PURCHASEORDER_PROCESS_SRV/$batch';
  return {
    atFirst: ['the bridge, while a supplier is created', () => at('POST', 'A_BusinessPartner', true, () => kill(60))],
    later: [
      ['the bridge, while an order is created', () => at('POST', orders, true, () => kill(60))],
      ['the answer to a new order', () => at('POST', orders, true, async () => undefined)],
      ['the bridge, before an order is created', () => at('POST', orders, false, () => kill(0))],
      ['the bridge, while an order is created and later', () => at('POST', orders, true, () => kill(300))],
      ['an order refused with 503', () => at('POST', orders, false, async () => undefined)],
      ['the bridge, while an order is changed', () => at('POST', batches, true, () => kill(100))],
      ['the answer to a changed order', () => at('POST', batches, true, async () => undefined)],
      ['the bridge, before an order is changed', () => at('POST', batches, false, () => kill(0))],
    ],
  };
}

/** The orders that are not deleted. */
async function ordersIn(sap: SapSystem): Promise<Purchases> {
  const partners = await sap.ask('GET', 'API_BUSINESS_PARTNER/A_BusinessPartner?$top=1000&$format=json');
  const externalOf = new Map(
    (partners['results'] as Entity[]).map((partner) => [partner['Supplier'], partner['BusinessPartnerIDByExtSystem']]),
  );
  const expand = 'to_PurchaseOrderItem/to_PurchaseOrderItemNote,to_PurchaseOrderNote';
  const path = `API_PURCHASEORDER_PROCESS_SRV/A_PurchaseOrder?$top=1000&$expand=${expand}&$format=json`;
  const held: Purchases = {};
  for (const order of (await sap.ask('GET', path))['results'] as Entity[]) {
    const items = order['to_PurchaseOrderItem'].results as Entity[];
    // The header of a deleted order says nothing.
    if (items.every((item) => item['PurchasingDocumentDeletionCode'] === 'L')) continue;
    const [note] = order['to_PurchaseOrderNote'].results as Entity[];
    const event = /^key ([^/]+)\//m.exec(note?.['PlainLongText'])?.[1];
    const lines = (order['to_PurchaseOrderItem'].results as Entity[])
      .filter(({ PurchasingDocumentDeletionCode: code }) => !code)
      .map((item) => {
        const price = String(Number(item['NetPriceAmount']) / Number(item['NetPriceQuantity']));
        return lineText(item['to_PurchaseOrderItemNote'].results[0].PlainLongText, item['OrderQuantity'], price);
      });
    (held[`${event}/${externalOf.get(order['Supplier'])}`] ??= []).push(lines.sort());
  }
  return held;
}
