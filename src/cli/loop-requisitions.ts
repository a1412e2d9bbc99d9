/**
 * Requisitions in `demo --loop`: they are raised, changed and withdrawn in the ERP, events are made of them, suppliers bid,
 * lots are awarded in shares, and the purchase orders in the ERP name the requisitions. At the end the quantities ordered
 * are compared with those raised, line by line, and each requisition shows that it was awarded.
 */
import { randomUUID } from 'node:crypto';
import { systemClock } from '#platform/clock.ts';
import { AppError } from '#platform/errors.ts';
import type { Random } from '#service/simulator/random.ts';
import { createSimulatorStage } from '#service/simulator/stage.ts';
import type { LoopErp, LoopRun } from './loop-run.ts';

interface Item {
  readonly line: string;
  readonly name: string;
  readonly quantity: string;
}

interface Raised {
  readonly name: string;
  readonly items: readonly Item[];
  readonly withdrawn: boolean;
}

/** In so many rounds one is raised. */
const everyRounds = 5;
const orderedWithinMs = 120_000;
const shares = ['0.4', '0.6'] as const;

export function createLoopRequisitions(erp: LoopErp, { client, installation, signal }: LoopRun) {
  const run = randomUUID().slice(0, 6);
  const suppliers = shares.map((_, index) => `BID-${run}-${index + 1}`);
  const stage = createSimulatorStage({ client, clock: systemClock, pauseMs: 0, signal });
  const raised = new Map<string, Raised>();
  const done = { changes: 0, withdrawals: 0 };

  function save(number: string, requisition: Raised): void {
    const { name, items, withdrawn } = requisition;
    raised.set(number, requisition);
    const lines = items.map((item) => ({ ...item, unit: 'kg' }));
    erp.saveRecord('requisitions', { number, name, closed: withdrawn, category: 'Steel', items: lines });
  }

  const wanted = () => [...raised].filter(([, { withdrawn }]) => !withdrawn);

  /** One of those that were raised is changed, closed, or deleted without a trace. */
  function editOne(random: Random): void {
    const [first] = wanted();
    if (!first) return;
    const [number, requisition] = first;
    if (random.next() < 0.6) {
      save(number, { ...requisition, items: drawItems(random) });
      done.changes += 1;
      return;
    }
    const withdrawn = { ...requisition, withdrawn: true };
    if (random.next() < 0.5) save(number, withdrawn);
    else {
      raised.set(number, withdrawn);
      erp.deleteRecord('requisitions', number);
    }
    done.withdrawals += 1;
  }

  /** A buyer publishes the event, two suppliers bid, and each wins its share of each lot. */
  async function award(number: string): Promise<void> {
    const event = erp.sourcingOf(number)?.project;
    if (event === undefined) return;
    const made = await installation.open.database.query<{ lot: string }>(
      `select l.lot from bridge.intake_events e join bridge.intake_members m on m.event = e.id
       cross join json_to_recordset(m.made_lots::json) as l (lot text)
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
    await stage.desk(event, 'POST', '/close');
  }

  const orderLines = () => erp.allOf('award').flatMap(({ lines = [] }) => lines);

  /** How the orders differ from this requisition, in words. */
  function differencesOf([number, { items, withdrawn }]: [string, Raised]): string[] {
    const own = orderLines().filter((line) => line.requisition?.number === number);
    if (withdrawn) return own.length === 0 ? [] : [`${number} was withdrawn, and ${own.length} order lines name it`];
    const found = items.flatMap(({ line, quantity }) => {
      const lines = own.filter((each) => each.requisition?.line === line);
      const sum = lines.reduce((total, each) => total + Number(each.quantity), 0);
      const isEqual = Math.abs(sum - Number(quantity)) < 1e-9 && lines.length === shares.length;
      return isEqual ? [] : [`${number}, line ${line}: ${quantity} raised, ${sum} ordered in ${lines.length} lines`];
    });
    if (own.length > items.length * shares.length) found.push(`${number}: ${own.length} order lines name it`);
    const status = erp.sourcingOf(number)?.status;
    if (status !== 'awarded') found.push(`${number}: the ERP shows "${status}", and it was awarded`);
    return found;
  }

  async function eventsOf(number: string): Promise<number> {
    let found = 0;
    for (let next: string | undefined, first = true; first || next !== undefined; first = false) {
      const page = await client.readFeed('sourcing-events', next === undefined ? { pageSize: 200 } : { next }, signal);
      const own = page.records.filter((event) => event['reference_id'] === number && event['status'] !== 'DELETED');
      found += own.length;
      next = page.next;
    }
    return found;
  }

  return {
    /** One edit in the ERP, or none. */
    async edit(random: Random, round: number): Promise<void> {
      if (round === 0)
        await stage.changeSuppliers(suppliers.map((supplier) => ({ external_id: supplier, name: supplier })));
      if (round % everyRounds === 0)
        save(`PR-${run}-${raised.size}`, {
          name: `Need of round ${round}`,
          items: drawItems(random),
          withdrawn: false,
        });
      else if (random.next() < 0.1) editOne(random);
    },
    /** Awards what is wanted, and waits for the orders; returns how many order lines there are. */
    async award(): Promise<number> {
      for (const [number] of wanted()) await award(number);
      const giveUpMs = systemClock.nowMs() + orderedWithinMs;
      // At the end of the wait the comparison says what is missing.
      while (wanted().flatMap(differencesOf).length > 0 && systemClock.nowMs() < giveUpMs) {
        if (signal.aborted) throw new AppError('unavailable', 'The demo was stopped before its end.');
        await systemClock.sleep(100);
      }
      return orderLines().filter(({ requisition }) => requisition !== undefined).length;
    },
    /** What differs, in words. */
    async differences(): Promise<string[]> {
      if (wanted().length === 0) return ['no requisition was compared'];
      const found = [...raised].flatMap(differencesOf);
      for (const [number] of wanted()) {
        const events = await eventsOf(number);
        if (events !== 1) found.push(`${number}: the service has ${events} events of it`);
      }
      const foreign = orderLines().filter(({ requisition }) => requisition === undefined).length;
      return foreign === 0 ? found : [...found, `${foreign} order lines name no requisition`];
    },
    summary: (): string =>
      `requisitions: ${raised.size} raised, ${done.changes} changed, ${done.withdrawals} withdrawn or deleted`,
  };
}

function drawItems(random: Random): Item[] {
  const names = ['Bolt', 'Nut', 'Washer'].slice(0, random.whole(1, 3));
  return names.map((name, index) => ({ line: `${index + 1}0`, name, quantity: String(random.whole(1, 9) * 5) }));
}
