/**
 * The story of `demo --loop`, and the comparison at its end. An ERP and a user of the service edit the same suppliers: the
 * ERP is master of names and blocks, and what the service has besides stays. The ERP raises requisitions, changes one and
 * withdraws one; events are made of them, two suppliers bid, each wins a share, and the ERP gets purchase orders.
 */
import { z } from 'zod';
import type { SourceClient } from '#client/source-client.ts';
import { Decimal, formatDecimal } from '#contract/decimal.ts';
import { systemClock } from '#platform/clock.ts';
import { AppError } from '#platform/errors.ts';
import { createSimulatorStage } from '#service/simulator/stage.ts';

/** What the story needs of the memory connector's ERP. */
export interface LoopErp {
  readonly address: string;
  saveRecord(list: 'suppliers' | 'requisitions', record: object): void;
  /** What the ERP shows of the sourcing of a requisition; `project`: the service's id of the event. */
  sourcingOf(requisition: string): { status: string; project?: string } | undefined;
  allOf(type: string): {
    lines?: readonly { quantity?: string; requisition?: { number: string; line?: string } }[];
  }[];
}

export interface LoopStory {
  /** Is part of every number: the service still has what an earlier run made. */
  readonly run: string;
  readonly erp: LoopErp;
  readonly client: SourceClient;
  readonly suppliers: number;
  readonly requisitions: number;
  readonly signal: AbortSignal;
  /** Waits until the ERP has been read and nothing is left to submit. */
  readonly untilThrough: () => Promise<void>;
}

const orderedWithinMs = 120_000;
const shares = ['0.4', '0.6'] as const;
const lotsOfEvent = z.looseObject({ lots: z.array(z.looseObject({ name: z.string() })) });
const contact = { name: 'A user', email: 'user@service.example' };

/** Plays it, and returns what differs at its end, in words. */
export async function playLoop({ run, erp, client, untilThrough, signal, ...counts }: LoopStory): Promise<string[]> {
  const stage = createSimulatorStage({ client, clock: systemClock, pauseMs: 0, signal });

  const vendors = new Map<string, { name: string; closed: boolean }>();
  const saveVendor = (index: number, name: string, closed = false) => {
    const number = `${run}-${index}`;
    vendors.set(number, { name, closed });
    erp.saveRecord('suppliers', { number, name, closed });
  };
  const raised = new Map<string, { quantities: readonly string[]; withdrawn: boolean }>();
  const raise = (index: number, quantities: readonly string[], withdrawn = false) => {
    const number = `PR-${run}-${index}`;
    const items = quantities.map((quantity, at) => ({
      line: `${at + 1}0`,
      name: `Item ${at + 1}`,
      quantity,
      unit: 'kg',
    }));
    raised.set(number, { quantities, withdrawn });
    erp.saveRecord('requisitions', { number, name: `Need ${index}`, closed: withdrawn, category: 'Steel', items });
  };

  const bidders = shares.map((_, index) => `BID-${run}-${index + 1}`);
  const own = { external_id: `OWN-${run}`, name: 'Only at the service' };
  await stage.changeSuppliers([own, ...bidders.map((bidder) => ({ external_id: bidder, name: bidder }))]);
  const vendorCount = Math.max(3, counts.suppliers);
  for (let index = 1; index <= vendorCount; index += 1) saveVendor(index, `Vendor ${index}`);
  for (let index = 1; index <= counts.requisitions + 1; index += 1) raise(index, ['5', '12.5']);
  await untilThrough();
  console.log(`  the service has ${vendorCount} suppliers of the ERP, and events of ${raised.size} requisitions`);

  await stage.changeSuppliers([
    { external_id: `ERP-${run}-1`, name: 'Renamed by a user' },
    { external_id: `ERP-${run}-2`, contacts: [contact] },
  ]);
  saveVendor(2, 'Vendor 2, renamed in the ERP');
  saveVendor(3, 'Vendor 3', true);
  raise(1, ['7.25', '12.5', '3']);
  raise(counts.requisitions + 1, ['5', '12.5'], true);
  await untilThrough();
  console.log(
    '  a user renamed one and added a contact; the ERP renamed and blocked one, changed and withdrew requisitions',
  );

  /** A buyer publishes the event, the bidders bid, and each wins its share of each lot. */
  async function award(number: string): Promise<void> {
    const event = erp.sourcingOf(number)?.project;
    if (event === undefined) return;
    const { lots } = await client.call({ method: 'GET', path: `/desk/events/${event}` }, lotsOfEvent);
    const names = lots.map(({ name }) => name);
    await stage.desk(event, 'POST', '/invitations', { suppliers: bidders });
    await stage.desk(event, 'POST', '/publish');
    for (const [index, supplier] of bidders.entries()) {
      const bids = names.map((lot) => ({ lot, values: { Price: String(index + 2) } }));
      await stage.desk(event, 'POST', '/bids', { supplier, lots: bids });
    }
    const awards = names.flatMap((lot) =>
      bidders.map((supplier, index) => ({ lot, supplier, share_awarded: shares[index] })),
    );
    await stage.desk(event, 'PUT', '/scenarios/best', { awards });
    await stage.desk(event, 'POST', '/award', { scenario: 'best' });
    await stage.desk(event, 'POST', '/close');
  }

  const orderLines = () => erp.allOf('award').flatMap(({ lines = [] }) => lines);

  /** How the purchase orders differ from the requisitions. */
  function orderDifferences(): string[] {
    const wanted = [...raised].flatMap(([number, { quantities, withdrawn }]) =>
      withdrawn ? [] : quantities.map((quantity, at) => ({ number, line: `${at + 1}0`, quantity })),
    );
    const found = wanted.flatMap(({ number, line, quantity }) => {
      const lines = orderLines().filter(({ requisition: of }) => of?.number === number && of.line === line);
      const sum = lines.reduce((total, each) => total.plus(each.quantity ?? 0), new Decimal(0));
      return sum.equals(quantity) && lines.length === shares.length
        ? []
        : [`${number}, line ${line}: ${quantity} raised, ${formatDecimal(sum)} ordered in ${lines.length} lines`];
    });
    for (const number of new Set(wanted.map((each) => each.number)))
      if (erp.sourcingOf(number)?.status !== 'awarded')
        found.push(`${number}: the ERP does not show that it was awarded`);
    const lines = orderLines().length;
    if (lines !== wanted.length * shares.length)
      found.push(`${lines} order lines, instead of ${wanted.length * shares.length}`);
    return found;
  }

  for (const [number, { withdrawn }] of raised) if (!withdrawn) await award(number);
  const giveUpMs = systemClock.nowMs() + orderedWithinMs;
  // At the end of the wait the comparison says what is missing.
  while (orderDifferences().length > 0 && systemClock.nowMs() < giveUpMs) {
    if (signal.aborted) throw new AppError('unavailable', 'The demo was stopped before its end.');
    await systemClock.sleep(100);
  }
  console.log(`  ${orderLines().length} purchase order lines name a requisition`);

  const supplierOf = async (externalId: string) => {
    const { items } = await client.listSuppliers({ externalId, pageSize: 10 }, signal);
    return { name: items[0]?.['name'], closed: items[0]?.['archived'], contacts: items[0]?.['contacts'] };
  };
  const differences = orderDifferences();
  for (const [number, { name, closed }] of vendors) {
    const held = await supplierOf(`ERP-${number}`);
    if (held.name !== name || held.closed !== closed)
      differences.push(
        `supplier ${number}: "${name}", blocked ${closed} in the ERP; "${String(held.name)}", ${String(held.closed)} at the service`,
      );
  }
  if (!JSON.stringify((await supplierOf(`ERP-${run}-2`)).contacts).includes(contact.email))
    differences.push('the contact that a user added is gone');
  const kept = await supplierOf(own.external_id);
  if (kept.name !== own.name || kept.closed !== false) differences.push("the service's own supplier was touched");
  return differences;
}
