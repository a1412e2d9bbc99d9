/** `demo --loop`: the ERP of the connector `memory`, the settings of the intakes and the flow, and waiting for them. */
import { randomUUID } from 'node:crypto';
import { resumeIntake } from '#bridge/intake/control-intakes.ts';
import { isThrough } from '#bridge/operate/status/intake-status.ts';
import { readStatus } from '#bridge/operate/status/status.ts';
import { type BridgeSettings, bridgeSettings } from '#bridge/settings/settings.ts';
import { msFromTimestamp } from '#contract/timestamp.ts';
import { systemClock, timestampNow } from '#platform/clock.ts';
import { AppError } from '#platform/errors.ts';
import type { Installation } from './installation.ts';
import type { LocalPrograms } from './local-programs.ts';
import type { LocalSetup } from './local-setup.ts';
import { type LoopErp, type LoopStory, playLoop } from './loop-story.ts';

interface LoopRun extends Pick<LoopStory, 'client' | 'suppliers' | 'requisitions' | 'signal'> {
  readonly installation: Installation;
  readonly programs: LocalPrograms;
}

export interface Loop {
  /** Adds the source, the intakes and the flow of the loop. */
  readonly settings: (given: BridgeSettings, serviceUrl: string, setup: LocalSetup) => BridgeSettings;
  /** Plays the story, and prints what differs at its end. Returns whether both sides are equal. */
  play(given: LoopRun): Promise<boolean>;
}

const connector = 'memory';
const sourceName = 'loop';
const pollSeconds = 1;
/** After a list was read, an intake has compared with it within so many of its polls. */
const settledMs = 3 * pollSeconds * 1_000;
const throughWithinMs = 180_000;

/** Starts the ERP. */
export async function createLoop(): Promise<Loop> {
  const login = { clientId: 'bridge', clientSecret: randomUUID() };
  // A connector is a folder that anyone may copy or remove: nothing in src imports one.
  const memory = new URL('../../connectors/memory/memory-erp.ts', import.meta.url).href;
  const { startMemoryErp } = (await import(memory)) as { startMemoryErp: (given: typeof login) => Promise<LoopErp> };
  const erp = await startMemoryErp(login);
  // An intake remembers what it has read of its ERP: that of an earlier run is gone.
  const run = randomUUID().slice(0, 6);
  const settings = { base_url: erp.address, client_id: login.clientId, client_secret: login.clientSecret };
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
            name: `loop-suppliers-${run}`,
            connector,
            source: sourceName,
            poll_seconds: pollSeconds,
            prefix: 'ERP-',
            // The service has no attributes for what an ERP has besides names.
            mapping: { supplier: { fields: {} } },
            // No person is there to agree.
            archive: { most: 1_000_000 },
            settings,
          },
          {
            name: `loop-requisitions-${run}`,
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
            name: 'loop-orders',
            source: sourceName,
            connector,
            documents: ['award'],
            quantity_column: 'Quantity',
            unit_price_column: 'Price',
            settings,
          },
        ],
      }),
    async play(given) {
      const differences = await playLoop({ ...given, run, erp, untilThrough: () => untilThrough(given) });
      for (const line of differences) console.log(`  differs: ${line}`);
      console.log(differences.length === 0 ? '\nThe ERP and the service agree.' : '\nTHE ERP AND THE SERVICE DIFFER.');
      return differences.length === 0;
    },
  };
}

/** Waits until the ERP and the service's list were both read after this moment, and nothing is left to send. */
async function untilThrough({ installation, programs, signal }: LoopRun): Promise<void> {
  const { database } = installation.open;
  const since = timestampNow(systemClock);
  const giveUpMs = systemClock.nowMs() + throughWithinMs;
  for (;;) {
    if (signal.aborted) throw new AppError('unavailable', 'The demo was stopped before its end.');
    const now = timestampNow(systemClock);
    const { intakes } = await readStatus(database, { settings: programs.settings, now });
    for (const { intake } of intakes.filter((each) => each.pausedKind === 'first-run')) {
      console.log(`  ${intake}: the service has suppliers already, and the demo agrees to the first run`);
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
