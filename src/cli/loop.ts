/**
 * `demo --loop`: an ERP and the service both edit, an intake carries the ERP's side over, and both are compared at the
 * end. The ERP is the one of the connector `memory`, or a real Tryton. Each leg edits one kind of thing and knows what must
 * be equal.
 *
 * Requisitions: see `requisition-leg.ts`.
 * Suppliers: the ERP creates, renames, blocks and unblocks; meanwhile a user of the service renames the same suppliers
 * (the ERP is master: that is set back), adds contacts (the service's own: they stay), and makes suppliers of their own.
 */
import { randomUUID } from 'node:crypto';
import { resumeIntake } from '#bridge/intake/control-intakes.ts';
import { isThrough } from '#bridge/intake/intake-status.ts';
import { type BridgeSettings, bridgeSettings } from '#bridge/settings.ts';
import { readStatus } from '#bridge/status/status.ts';
import type { SupplierChange } from '#contract/supplier.ts';
import { msFromTimestamp, type Timestamp } from '#contract/timestamp.ts';
import { systemClock, timestampNow } from '#platform/clock.ts';
import { AppError } from '#platform/errors.ts';
import { createRandom, type Random } from '#service/simulator/random.ts';
import type { LocalSetup } from './local-setup.ts';
import { type LoopErp, startMemoryLoopErp } from './loop-erp.ts';
import type { LoopLeg, LoopRun } from './loop-leg.ts';
import { createRequisitionLeg } from './requisition-leg.ts';

export interface Loop {
  /** Adds the source and the intakes of the loop. */
  readonly settings: (given: BridgeSettings, serviceUrl: string, setup: LocalSetup) => BridgeSettings;
  /** The ERP, for the terminal. */
  readonly erp: string;
  /** Edits on both sides, waits until the intakes are through, and compares. Returns whether both sides are equal. */
  play(played: LoopRun): Promise<boolean>;
  close(): Promise<void>;
}

export type LoopErpName = 'memory' | 'tryton';

const sourceName = 'loop';
const intakeName = 'loop-suppliers';
const requisitions = { intake: 'loop-requisitions', flow: 'loop-orders' };
const pollSeconds = 1;
/** After a list was read, an intake has compared with it within so many of its polls. */
const settledMs = 3 * pollSeconds * 1_000;
const throughWithinMs = 180_000;

/** Starts the ERP. Rejects with AppError where it cannot run. */
export async function createLoop(name: LoopErpName): Promise<Loop> {
  const erp =
    name === 'memory' ? await startMemoryLoopErp() : await (await import('./tryton-loop-erp.ts')).startTrytonLoopErp();
  const { connector, settings } = erp;
  return {
    settings: (given, serviceUrl, { deskKey }) =>
      bridgeSettings.parse({
        ...given,
        sources: [
          ...given.sources,
          {
            name: sourceName,
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
          {
            name: intakeName,
            connector,
            source: sourceName,
            poll_seconds: pollSeconds,
            prefix: 'ERP-',
            // The service has no attributes for what an ERP has besides names.
            mapping: { supplier: { fields: {} } },
            // The random edits block many at once, and no person is there to agree.
            archive: { most: 1_000_000 },
            settings,
          },
          {
            name: requisitions.intake,
            connector,
            source: sourceName,
            stream: 'requisition',
            make: 'event',
            poll_seconds: pollSeconds,
            archive: { most: 1_000_000 },
            settings,
          },
        ],
        flows: [
          ...given.flows,
          {
            name: requisitions.flow,
            source: sourceName,
            connector,
            documents: ['award'],
            quantity_column: 'Quantity',
            unit_price_column: 'Price',
            settings,
          },
        ],
      }),
    erp: erp.description,
    play: (run) => playLoop(run, [createSupplierLeg(erp, run), createRequisitionLeg(erp, run, requisitions)]),
    close: () => erp.close(),
  };
}

async function playLoop(run: LoopRun, legs: readonly LoopLeg[]): Promise<boolean> {
  const { rounds, seed, signal } = run;
  const random = createRandom(seed);
  const startedMs = performance.now();
  for (let round = 0; round < rounds && !signal.aborted; round += 1)
    for (const leg of legs) await leg.edit(random, round);
  for (const leg of legs) console.log(`  ${leg.summary()}`);
  const editedMs = performance.now();
  await waitUntilThrough(run, timestampNow(systemClock));
  for (const leg of legs) await leg.finish?.();
  const differences = (await Promise.all(legs.map((leg) => leg.compare()))).flat();
  for (const line of differences.slice(0, 20)) console.log(`  differs: ${line}`);
  const seconds = (ms: number) => (ms / 1_000).toFixed(1);
  console.log(
    `\n  edited for ${seconds(editedMs - startedMs)} s, through ${seconds(performance.now() - editedMs)} s after it`,
  );
  for (const leg of legs)
    for (const { leg: name, ms } of (await leg.times?.()) ?? []) {
      const sorted = ms.toSorted((a, b) => a - b);
      const at = (share: number) => seconds(sorted[Math.floor((sorted.length - 1) * share)] ?? 0);
      console.log(`  ${name}: median ${at(0.5)} s, longest ${at(1)} s, ${ms.length} times`);
    }
  console.log(differences.length === 0 ? '\nThe ERP and the service agree.' : '\nTHE ERP AND THE SERVICE DIFFER.');
  return differences.length === 0;
}

/** Waits until the ERP and the service's list were both read after `since`, and nothing is left to send. */
async function waitUntilThrough({ installation, programs, signal }: LoopRun, since: Timestamp): Promise<void> {
  const { database } = installation.open;
  const giveUpMs = systemClock.nowMs() + throughWithinMs;
  for (;;) {
    if (signal.aborted) throw new AppError('unavailable', 'The demo was stopped before its end.');
    const now = timestampNow(systemClock);
    const { intakes } = await readStatus(database, { settings: programs.settings, now });
    for (const { intake, pausedKind } of intakes.filter((each) => each.pausedKind === 'first-run')) {
      console.log(
        `  ${intake}: the service has suppliers already, and the demo agrees to the first run (${pausedKind})`,
      );
      await resumeIntake(database, intake, { agreeToArchive: false }, now);
    }
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
      throw new AppError('unavailable', `The intakes were not through within ${throughWithinMs / 1_000} s: ${whys}`);
    }
    await systemClock.sleep(100);
  }
}

interface Vendor {
  readonly name: string;
  readonly closed: boolean;
}

/** A run that finds another run's suppliers makes its own: the numbers begin with a text of the run. */
function createSupplierLeg(erp: LoopErp, { client, suppliers: count, signal }: LoopRun): LoopLeg {
  const run = randomUUID().slice(0, 6);
  const vendors = new Map<string, Vendor>();
  const contacts = new Map<string, Set<string>>();
  const own = new Map<string, string>();
  const done = { erp: 0, service: 0 };

  async function submit(change: SupplierChange): Promise<void> {
    done.service += 1;
    const { uuid } = await client.submitSupplierChange([change], randomUUID(), signal);
    while ((await client.readSupplierChange(uuid, signal)).current_state !== 'PROCESSED')
      await systemClock.sleep(50, signal);
  }

  async function editAtService(random: Random, round: number, number: string): Promise<void> {
    const key = `ERP-${number}`;
    const isThere = (await client.listSuppliers({ externalId: key, pageSize: 10 }, signal)).items.length > 0;
    if (!isThere) {
      own.set(`OWN-${run}-${round}`, `Only at the service ${round}`);
      return submit({ external_id: `OWN-${run}-${round}`, name: `Only at the service ${round}` });
    }
    if (random.next() < 0.5) return submit({ external_id: key, name: `Renamed by a user ${round}` });
    const email = `user-${round}@service.example`;
    contacts.set(key, new Set([...(contacts.get(key) ?? []), email]));
    return submit({ external_id: key, contacts: [{ name: 'A user', email }] });
  }

  return {
    async edit(random, round) {
      const number = `${run}-${random.whole(1, count)}`;
      const vendor = vendors.get(number);
      const next = { name: `Vendor ${number} v${round}`, closed: vendor !== undefined && random.next() < 0.3 };
      vendors.set(number, next);
      await erp.saveSupplier({ number, ...next });
      done.erp += 1;
      if (random.next() < 0.5) await editAtService(random, round, `${run}-${random.whole(1, count)}`);
      await systemClock.sleep(random.whole(0, 200), signal).catch(() => undefined);
    },
    async compare() {
      const differences: string[] = [];
      for (const [number, { name, closed }] of vendors) {
        const key = `ERP-${number}`;
        const [held] = (await client.listSuppliers({ externalId: key, pageSize: 10 })).items;
        if (!held) {
          if (!closed) differences.push(`${key} is missing at the service`);
          continue;
        }
        if (held['name'] !== name)
          differences.push(`${key}: "${String(held['name'])}" at the service, "${name}" in the ERP`);
        if (held['archived'] !== closed)
          differences.push(`${key}: archived is ${String(held['archived'])}, in the ERP ${closed}`);
        const emails = new Set((held['contacts'] as { email: string }[]).map(({ email }) => email));
        for (const email of contacts.get(key) ?? [])
          if (!emails.has(email)) differences.push(`${key}: the service's own contact ${email} is gone`);
      }
      for (const [key, name] of own) {
        const [held] = (await client.listSuppliers({ externalId: key, pageSize: 10 })).items;
        if (held?.['name'] !== name || held['archived'] !== false)
          differences.push(`${key} of the service was touched`);
      }
      return vendors.size === 0 ? ['nothing was compared'] : differences;
    },
    summary: () =>
      `suppliers: ${done.erp} edits in the ERP on ${vendors.size} suppliers, ${done.service} at the service`,
  };
}
