/**
 * The leg of `demo --loop` that goes round: requisitions are raised, changed and withdrawn in the ERP, events are made of
 * them, suppliers bid, lots are awarded in shares, and the purchase orders in the ERP name the requisitions. At the end
 * the quantities ordered are compared with those raised, line by line, and each requisition shows that it was awarded.
 */
import { randomUUID } from 'node:crypto';
import type { FeedPage, FeedWindow } from '#client/source-client.ts';
import { msFromTimestamp, type Timestamp } from '#contract/timestamp.ts';
import { systemClock } from '#platform/clock.ts';
import { AppError } from '#platform/errors.ts';
import type { Random } from '#service/simulator/random.ts';
import { createSimulatorStage } from '#service/simulator/stage.ts';
import type { LoopErp, OrderedLine, RaisedItem, WantedItem } from './loop-erp.ts';
import type { LoopLeg, LoopRun } from './loop-leg.ts';

interface Raised {
  readonly number: string;
  readonly items: readonly RaisedItem[];
  readonly raisedMs: number;
  readonly withdrawn: boolean;
  closedMs?: number;
}

/** In so many rounds one is raised. */
const everyRounds = 5;
const orderedWithinMs = 120_000;
const shares = ['0.4', '0.6'] as const;

/** The flow with this name delivers the awards of the events that this intake makes. */
export function createRequisitionLeg(
  erp: LoopErp,
  { client, installation, signal }: LoopRun,
  { flow, intake }: { flow: string; intake: string },
): LoopLeg {
  const run = randomUUID().slice(0, 6);
  const suppliers = shares.map((_, index) => `BID-${run}-${index + 1}`);
  const stage = createSimulatorStage({ client, clock: systemClock, pauseMs: 0, signal });
  const raised = new Map<string, Raised>();
  const done = { changes: 0, withdrawals: 0 };

  function itemsOf(random: Random): WantedItem[] {
    const names = ['Bolt', 'Nut', 'Washer'].slice(0, random.whole(1, 3));
    return names.map((name) => ({ name, quantity: String(random.whole(1, 9) * 5) }));
  }

  /** One of those that were raised is changed, closed, or deleted without a trace. */
  async function editOne(random: Random): Promise<void> {
    const [first] = [...raised.values()].filter(({ withdrawn }) => !withdrawn);
    if (!first) return;
    const { number } = first;
    if (erp.change && random.next() < 0.6) {
      raised.set(number, { ...first, items: await erp.change(number, itemsOf(random)) });
      done.changes += 1;
      return;
    }
    await erp.withdraw(number, random.next() < 0.5 ? 'closed' : 'deleted');
    raised.set(number, { ...first, withdrawn: true });
    done.withdrawals += 1;
  }

  /** A buyer publishes the event, two suppliers bid, and each wins its share of each lot. */
  async function award(each: Raised): Promise<void> {
    const { event } = await erp.sourcingOf(each.number);
    if (event === undefined) return;
    const made = await installation.open.database.query<{ lot: string }>(
      `select l.lot from bridge.intake_lots l join bridge.intake_events e on e.id = l.event
       where e.entity = $1 order by l.lot`,
      [event],
    );
    const lots = made.map(({ lot }) => lot);
    await stage.desk(event, 'POST', '/invitations', { suppliers });
    await stage.desk(event, 'POST', '/publish');
    for (const [index, supplier] of suppliers.entries()) {
      const bids = lots.map((lot) => ({ lot, values: { Price: String(index + 2) } }));
      await stage.desk(event, 'POST', '/bids', { supplier, lots: bids });
    }
    const awards = lots.flatMap((lot) =>
      suppliers.map((supplier, index) => ({ lot, supplier, share_awarded: shares[index] })),
    );
    await stage.desk(event, 'PUT', '/scenarios/best', { awards });
    await stage.desk(event, 'POST', '/award', { scenario: 'best' });
    each.closedMs = systemClock.nowMs();
    await stage.desk(event, 'POST', '/close');
  }

  const wanted = () => [...raised.values()].filter(({ withdrawn }) => !withdrawn);

  async function differencesOf(
    { number, items, withdrawn }: Raised,
    ordered: readonly OrderedLine[],
  ): Promise<string[]> {
    const own = ordered.filter((line) => line.requisition?.number === number);
    if (withdrawn) return own.length === 0 ? [] : [`${number} was withdrawn, and ${own.length} order lines name it`];
    const found = items.flatMap(({ line, quantity }) => {
      const lines = own.filter((each) => each.requisition?.line === line);
      const sum = lines.reduce((total, each) => total + Number(each.quantity), 0);
      const isEqual = Math.abs(sum - Number(quantity)) < 1e-9 && lines.length === shares.length;
      return isEqual ? [] : [`${number}, line ${line}: ${quantity} raised, ${sum} ordered in ${lines.length} lines`];
    });
    if (own.length > items.length * shares.length) found.push(`${number}: ${own.length} order lines name it`);
    const { status } = await erp.sourcingOf(number);
    if (status !== 'awarded') found.push(`${number}: the ERP shows "${status}", and it was awarded`);
    const unbought = await erp.unboughtText?.(number);
    return unbought === undefined ? found : [...found, `${number}: ${unbought}`];
  }

  async function allDifferences(of: readonly Raised[]): Promise<string[]> {
    const ordered = await erp.ordered();
    const found: string[] = [];
    for (const each of of) found.push(...(await differencesOf(each, ordered)));
    return found;
  }

  async function eventsOf(number: string): Promise<number> {
    let found = 0;
    for (let at: FeedWindow | { next: string } | undefined = { pageSize: 200 }; at !== undefined; ) {
      const { records, next }: FeedPage = await client.readFeed('sourcing-events', at, signal);
      found += records.filter((event) => event['reference_id'] === number && event['status'] !== 'DELETED').length;
      at = next === undefined ? undefined : { next };
    }
    return found;
  }

  return {
    async edit(random, round) {
      if (round === 0)
        await stage.changeSuppliers(suppliers.map((supplier) => ({ external_id: supplier, name: supplier })));
      if (round % everyRounds === 0) {
        const raisedMs = systemClock.nowMs();
        const { number, items } = await erp.raise(`Need of round ${round}`, itemsOf(random));
        raised.set(number, { number, items, raisedMs, withdrawn: false });
      } else if (random.next() < 0.1) await editOne(random);
    },
    async finish() {
      for (const each of wanted()) await award(each);
      const giveUpMs = systemClock.nowMs() + orderedWithinMs;
      while ((await allDifferences(wanted())).length > 0) {
        if (signal.aborted) throw new AppError('unavailable', 'The demo was stopped before its end.');
        // The comparison says what is missing.
        if (systemClock.nowMs() > giveUpMs) return;
        await systemClock.sleep(100);
      }
    },
    async compare() {
      const differences = await allDifferences([...raised.values()]);
      for (const { number } of wanted()) {
        const events = await eventsOf(number);
        if (events !== 1) differences.push(`${number}: the service has ${events} events of it`);
      }
      const foreign = (await erp.ordered()).filter(({ requisition }) => requisition === undefined).length;
      if (foreign > 0) differences.push(`${foreign} order lines name no requisition`);
      return wanted().length === 0 ? ['no requisition was compared'] : differences;
    },
    summary: () =>
      `requisitions: ${raised.size} raised, ${done.changes} changed, ${done.withdrawals} withdrawn or deleted`,
    async times() {
      const { database } = installation.open;
      const made = await database.query<{ number: string; at: Timestamp }>(
        `select m.erp_key as number, e.made as at from bridge.intake_members m join bridge.intake_events e on e.id = m.event
         where m.intake = $1 and e.made is not null`,
        [intake],
      );
      const delivered = await database.query<{ number: string; at: Timestamp }>(
        `select m.erp_key as number, d.delivered as at from bridge.flow_documents d
         join bridge.intake_events e on e.entity = d.sourcing_event join bridge.intake_members m on m.event = e.id
         where d.flow = $1 and d.kind = 'award' and d.delivered is not null`,
        [flow],
      );
      const since = (rows: typeof made, beganMs: (each: Raised) => number | undefined) =>
        rows.flatMap(({ number, at }) => {
          const began = raised.get(number) && beganMs(raised.get(number) as Raised);
          return began === undefined ? [] : [msFromTimestamp(at) - began];
        });
      return [
        { leg: 'requisition raised -> event made', ms: since(made, ({ raisedMs }) => raisedMs) },
        { leg: 'awarded -> purchase order in the ERP', ms: since(delivered, ({ closedMs }) => closedMs) },
      ];
    },
  };
}
