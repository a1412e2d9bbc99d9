/**
 * Service and bridge as processes, a flow into the stand-in for Odoo, and simulated buyers and suppliers. The bridge is
 * killed with `kill -9` and connections are cut, at the worst moments and at random (seeded) ones, mostly while orders
 * are written; the stand-in commits what was cut off all the same, as Odoo does. At the end, the orders in it are exactly
 * what the buyers awarded. FAULTS sets the number of faults, FAULT_SEED the random moments. It takes 20 s of computing
 * time, so it runs with FAULTS only, as in `npm run test:kills`.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { readUnfinished } from '../../faults/awards-in-sql.ts';
import { awardsAtDesk, lineText, type Purchases, startStory } from '../../faults/endless-story.ts';
import { createSource, ledgerConfiguration } from '../../faults/ledger-bridge.ts';
import { openClient } from '../../faults/players.ts';
import { createInstallation, lineOf, until, useEmbedded } from '../../faults/program-process.ts';
import { seededRandom } from '../../faults/seeded-random.ts';
import { type SupervisedProgram, superviseProgram } from '../../faults/supervised-program.ts';
import { freePort } from '../../harness/free-port.ts';
import { type IncidentProxy, startIncidentProxy } from '../../tryton/incident-proxy.ts';
import { settingsOf, startErp } from './odoo-session.ts';
import type { OdooStandIn } from './stand-in/server.ts';

const isAsked = process.env['FAULTS'] !== undefined;
const faultCount = Number(process.env['FAULTS'] ?? 4);
const seed = Number(process.env['FAULT_SEED'] ?? 7);
const eventsAtLeast = 2;
/** Upper bounds for a very busy machine: each wait ends as soon as its condition holds. */
const faultWaitMs = 180_000;
const idleWaitMs = 240_000;

test(`after ${faultCount} kills of the bridge and cut connections each award is exactly one order`, {
  skip: !isAsked,
  timeout: 60_000 + faultCount * faultWaitMs + idleWaitMs,
}, async () => {
  const erp = await startErp({ workMs: 20 });
  const proxy = await startIncidentProxy(erp.url);
  const port = await freePort();
  const installation = await createInstallation();
  const service = superviseProgram('service', () => installation.start(['service', '--port', '0']));
  const baseUrl = /http\S+/.exec(await lineOf(service.program, /ready/))?.[0] ?? '';
  const source = await createSource(installation, baseUrl, [`https://localhost:${port}/webhooks/main`]);
  const { dataDir } = installation;
  const configuration = ledgerConfiguration(source, {
    bridge: { port, flows: [flowInto(erp, proxy.url)] },
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
    const faults = faultsBetween(bridge, proxy, seededRandom(seed));
    for (let number = 0; number < faultCount; number += 1) {
      const [name, inject] = faults[number % faults.length] as Fault;
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
    const awarded = await awardsAtDesk(client);
    expect(Object.keys(awarded).length).toBeGreaterThan(0);
    const stateNow = async () => {
      const { held, beside } = ordersIn(erp);
      return { orders: held, beside, unfinished: await readUnfinished(url) };
    };
    await expect
      .poll(stateNow, { timeout: idleWaitMs, interval: 250, message: `injected: ${injected.join(', ')}` })
      .toEqual({ orders: awarded, beside: [], unfinished: [] });
    // Requests for quotation were among them.
    expect(erp.rows.all('purchase.order').some((order) => String(order['origin']).includes(' (awarded)'))).toBe(true);
    // Not even a cancelled second one.
    expect(ordersIn(erp).duplicates).toEqual([]);
    // oxlint-disable-next-line no-console -- a developer who runs hundreds of kills wants to see them
    console.log(
      `Seed ${seed}: ${players.events} events, ${Object.keys(awarded).length} orders; injected: ${injected.join(', ')}`,
    );
  });
  await bridge.end();
  await service.end();
});

function flowInto(erp: OdooStandIn, url: string): object {
  return {
    name: 'odoo',
    source: 'main',
    connector: 'odoo',
    documents: ['supplier', 'quotation', 'award'],
    quantity_column: 'Annual Volume',
    unit_price_column: 'Unit Price',
    // The test tells orders apart by event and supplier, not by what the connector uses.
    mapping: { quotation: { fields: { source: 'event.id' } }, award: { fields: { source: 'event.id' } } },
    // Deleted events and revoked awards withdraw more documents than the default limit allows without confirmation.
    withdrawals: { most: 1_000 },
    // Each failure of this test ends soon.
    circuit: { seconds: 1 },
    settings: {
      ...settingsOf(erp),
      url,
      // Each kill costs both times and the five seconds for a stop.
      batch_size: 5,
      timeout_seconds: 5,
      settle_seconds: 1,
    },
  };
}

type Fault = readonly [string, () => Promise<void>];

/** Each fault resolves when it is over. */
function faultsBetween(
  bridge: SupervisedProgram,
  proxy: IncidentProxy,
  random: ReturnType<typeof seededRandom>,
): readonly Fault[] {
  const loads = /\/purchase\.order\/load$/;
  const changes = /\/(load|write|button_cancel|button_draft)$/;
  const kill = async (afterMs = 0) => {
    await sleep(random.upTo(afterMs));
    await bridge.kill();
  };
  return [
    ['the bridge, before it gets the answer', () => proxy.next({ method: loads, answered: () => kill() })],
    ['the connection, whose answer is lost', () => proxy.next({ method: loads, lost: true })],
    ['the bridge, while Odoo works', () => proxy.next({ method: loads, during: () => kill(20) })],
    ['the bridge, around a change', () => proxy.next({ method: changes, during: () => kill(100) })],
  ];
}

/**
 * The orders of awards that are not cancelled, the keys that several orders or requests have, whatever their state, and
 * the requests that are open beside the order of an award.
 */
function ordersIn({ rows }: OdooStandIn): { held: Purchases; duplicates: string[]; beside: string[] } {
  const held: Purchases = {};
  const keys: string[] = [];
  const awarded = new Set<string>();
  const open: [event: string, key: string][] = [];
  for (const { id, origin, partner_id, state } of rows.all('purchase.order')) {
    const [event = ''] = String(origin).split(' SB-');
    const key = `${event}/${String(rows.find('res.partner', partner_id)?.['ref'])}`;
    keys.push(key);
    if (state === 'cancel') continue;
    if (!String(origin).includes(' (awarded')) {
      open.push([event, key]);
      continue;
    }
    awarded.add(event);
    const lines = rows.all('purchase.order.line').filter(({ order_id }) => order_id === id);
    const texts = lines.map(({ name, product_qty, price_unit }) =>
      lineText(String(name), String(product_qty), String(price_unit)),
    );
    (held[key] ??= []).push(texts.sort());
  }
  return {
    held,
    duplicates: keys.filter((key, index) => keys.indexOf(key) !== index),
    beside: open.filter(([event]) => awarded.has(event)).map(([, key]) => key),
  };
}
