/**
 * `demo --loop`: the ERP of the connector `memory` and a user of the service edit the same suppliers, and the ERP raises
 * requisitions, changes one and withdraws one. Events are made of them, two suppliers win a share of each lot, and the
 * ERP gets purchase orders. At the end both sides are compared.
 */
import { randomUUID } from 'node:crypto';
import { z } from 'zod';
import { resumeIntake } from '#bridge/intake/control-intakes.ts';
import { isThrough } from '#bridge/operate/status/intake-status.ts';
import { readStatus } from '#bridge/operate/status/status.ts';
import { type BridgeSettings, bridgeSettings } from '#bridge/settings/settings.ts';
import type { SourceClient } from '#client/source-client.ts';
import { Decimal } from '#contract/decimal.ts';
import { msFromTimestamp } from '#contract/timestamp.ts';
import { systemClock, timestampNow } from '#platform/clock.ts';
import { AppError } from '#platform/errors.ts';
import { createSimulatorStage } from '#service/simulator/stage.ts';
import type { Installation } from './installation.ts';
import type { LocalPrograms } from './local-programs.ts';
import type { LocalSetup } from './local-setup.ts';

/** What is used of the memory connector's ERP. */
interface LoopErp {
  readonly address: string;
  saveRecord(list: 'suppliers' | 'requisitions', record: object): void;
  /** What the ERP shows of the sourcing of a requisition; `project`: the service's id of the event. */
  sourcingOf(requisition: string): { status: string; project?: string } | undefined;
  allOf(type: string): {
    lines?: readonly { quantity?: string; requisition?: { number: string; line?: string } }[];
  }[];
}

const connector = 'memory';
const source = 'loop';
/** After a list was read, an intake has compared with it within three of its polls, of a second each. */
const settledMs = 3_000;
const withinMs = 180_000;
const shares = ['0.4', '0.6'] as const;
const contact = { name: 'A user', email: 'user@service.example' };
const lotsOfEvent = z.looseObject({ lots: z.array(z.looseObject({ name: z.string() })) });

/** Starts the ERP. The service keeps what an earlier run made, so each has numbers of its own. */
export async function createLoop() {
  const login = { clientId: 'bridge', clientSecret: randomUUID() };
  // A connector is a folder that anyone may copy or remove: nothing in src imports one.
  const memory = new URL('../../connectors/memory/memory-erp.ts', import.meta.url).href;
  const { startMemoryErp } = (await import(memory)) as { startMemoryErp: (given: typeof login) => Promise<LoopErp> };
  const erp = await startMemoryErp(login);
  const run = randomUUID().slice(0, 6);
  const settings = { base_url: erp.address, client_id: login.clientId, client_secret: login.clientSecret };
  const intake = { connector, source, poll_seconds: 1, archive: { most: 1_000_000 }, settings };
  const flow = { name: 'loop-orders', source, connector, documents: ['award'], settings };
  return {
    erp,
    run,
    /** Adds the source, the intakes and the flow of the loop. */
    settings: (given: BridgeSettings, serviceUrl: string, { deskKey }: LocalSetup): BridgeSettings =>
      bridgeSettings.parse({
        ...given,
        sources: [
          ...given.sources,
          {
            name: source,
            base_url: serviceUrl,
            api_key: deskKey,
            feeds: ['sourcing-events', 'awards'],
            poll_seconds: 2,
            suppliers: true,
            suppliers_poll_seconds: 10,
            quotas: { enabled: false },
          },
        ],
        intakes: [
          // The service has no attributes for what an ERP has besides names.
          { ...intake, name: `loop-suppliers-${run}`, prefix: 'ERP-', mapping: { supplier: { fields: {} } } },
          { ...intake, name: `loop-requisitions-${run}`, stream: 'requisition', make: 'event' },
        ],
        flows: [...given.flows, { ...flow, quantity_column: 'Quantity', unit_price_column: 'Price' }],
      }),
  };
}

interface LoopRun {
  readonly loop: Awaited<ReturnType<typeof createLoop>>;
  readonly installation: Installation;
  readonly programs: LocalPrograms;
  readonly client: SourceClient;
  readonly signal: AbortSignal;
}

/** Plays the story, and prints what differs at its end. Returns whether both sides are equal. */
export async function playLoop(given: LoopRun): Promise<boolean> {
  const { client, signal } = given;
  const { erp, run } = given.loop;
  const stage = createSimulatorStage({ client, clock: systemClock, pauseMs: 0, signal });
  const saveVendor = (index: number, name: string, closed = false) =>
    erp.saveRecord('suppliers', { number: `${run}-${index}`, name, closed });
  const raise = (index: number, quantities: readonly string[], closed = false) => {
    const items = quantities.map((quantity, at) => ({ line: `${at}`, name: `Item ${at}`, quantity, unit: 'kg' }));
    erp.saveRecord('requisitions', { number: `PR-${run}-${index}`, name: `Need ${index}`, closed, items });
  };

  const bidders = shares.map((_, index) => `BID-${run}-${index}`);
  await stage.changeSuppliers(bidders.map((bidder) => ({ external_id: bidder, name: bidder })));
  for (const index of [1, 2, 3]) {
    saveVendor(index, `Vendor ${index}`);
    raise(index, ['5', '12.5']);
  }
  await untilThrough(given);
  console.log('  the service has three suppliers of the ERP, and events of three requisitions');

  await stage.changeSuppliers([
    { external_id: `ERP-${run}-1`, name: 'Renamed by a user' },
    { external_id: `ERP-${run}-2`, contacts: [contact] },
  ]);
  saveVendor(2, 'Vendor 2, renamed in the ERP');
  saveVendor(3, 'Vendor 3', true);
  const wanted = [
    { number: `PR-${run}-1`, quantities: ['7.25', '12.5', '3'] },
    { number: `PR-${run}-2`, quantities: ['5', '12.5'] },
  ];
  raise(1, ['7.25', '12.5', '3']);
  raise(3, ['5', '12.5'], true);
  await untilThrough(given);
  console.log(
    '  a user renamed one and added a contact; the ERP renamed and blocked one, changed and withdrew requisitions',
  );

  for (const { number } of wanted) {
    const event = erp.sourcingOf(number)?.project ?? '';
    const { lots } = await client.call({ method: 'GET', path: `/desk/events/${event}` }, lotsOfEvent);
    await stage.desk(event, 'POST', '/invitations', { suppliers: bidders });
    await stage.desk(event, 'POST', '/publish');
    for (const supplier of bidders)
      await stage.desk(event, 'POST', '/bids', {
        supplier,
        lots: lots.map(({ name }) => ({ lot: name, values: { Price: '2' } })),
      });
    const awards = lots.flatMap(({ name }) =>
      bidders.map((supplier, index) => ({ lot: name, supplier, share_awarded: shares[index] })),
    );
    await stage.desk(event, 'PUT', '/scenarios/best', { awards });
    await stage.desk(event, 'POST', '/award', { scenario: 'best' });
    await stage.desk(event, 'POST', '/close');
  }

  const orderLines = () => erp.allOf('award').flatMap(({ lines = [] }) => lines);
  const ordersDiffer = () =>
    wanted.flatMap(({ number, quantities }) => {
      const open = quantities.filter((quantity, at) => {
        const lines = orderLines().filter(({ requisition: of }) => of?.number === number && of.line === `${at}`);
        const sum = lines.reduce((total, each) => total.plus(each.quantity ?? 0), new Decimal(0));
        return !sum.equals(quantity) || lines.length !== shares.length;
      });
      const isTold = erp.sourcingOf(number)?.status === 'awarded';
      return open.length === 0 && isTold ? [] : [`${number}: not ordered ${open.join(', ')}; told: ${isTold}`];
    });
  // At the end of the wait the comparison says what is missing.
  const giveUpMs = systemClock.nowMs() + withinMs;
  while (ordersDiffer().length > 0 && systemClock.nowMs() < giveUpMs) await wait(signal);
  console.log(`  ${orderLines().length} purchase order lines name a requisition`);

  const differences = ordersDiffer();
  if (orderLines().length !== 5 * shares.length) differences.push(`${orderLines().length} order lines`);
  const heldAs = async (index: number) => {
    const { items } = await client.listSuppliers({ externalId: `ERP-${run}-${index}`, pageSize: 10 }, signal);
    return `${String(items[0]?.['name'])}, blocked ${String(items[0]?.['archived'])}, ${JSON.stringify(items[0]?.['contacts'])}`;
  };
  const vendors = ['Vendor 1, blocked false', 'Vendor 2, renamed in the ERP, blocked false', 'Vendor 3, blocked true'];
  for (const [at, vendor] of vendors.entries()) {
    const held = await heldAs(at + 1);
    if (!held.startsWith(vendor)) differences.push(`the ERP has ${vendor}; the service ${held}`);
  }
  if (!(await heldAs(2)).includes(contact.email)) differences.push('the contact that a user added is gone');
  for (const line of differences) console.log(`  differs: ${line}`);
  console.log(differences.length === 0 ? '\nThe ERP and the service agree.' : '\nTHE ERP AND THE SERVICE DIFFER.');
  return differences.length === 0;
}

async function wait(signal: AbortSignal): Promise<void> {
  if (signal.aborted) throw new AppError('unavailable', 'The demo was stopped before its end.');
  await systemClock.sleep(100);
}

/** Waits until the ERP and the service's list were both read after this moment, and nothing is left to send. */
async function untilThrough({ installation, programs: { settings }, signal }: LoopRun): Promise<void> {
  const { database } = installation.open;
  const since = timestampNow(systemClock);
  const giveUpMs = systemClock.nowMs() + withinMs;
  for (;;) {
    const now = timestampNow(systemClock);
    const { intakes } = await readStatus(database, { settings, now });
    // No person is there to agree.
    for (const { intake, pausedKind } of intakes)
      if (pausedKind === 'first-run') await resumeIntake(database, intake, { agreeToArchive: false }, now);
    const isSettled = intakes.every(
      (each) =>
        isThrough(each) &&
        each.pausedReason === null &&
        each.listPulled !== null &&
        each.lastRead !== null &&
        each.listPulled > since &&
        msFromTimestamp(each.lastRead) - msFromTimestamp(each.listPulled) > settledMs,
    );
    if (isSettled) return;
    if (systemClock.nowMs() > giveUpMs) {
      const whys = intakes.map(({ intake, lag }) => `${intake}: ${lag.why}`).join('; ');
      throw new AppError('unavailable', `The intakes were not through within ${withinMs / 1_000} s: ${whys}`);
    }
    await wait(signal);
  }
}
