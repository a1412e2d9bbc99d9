/**
 * `demo`: plays a seeded story through service, webhooks, feeds and connector, waits until the bridge is idle, and
 * compares what the connector holds with what the service awarded. With `--loop` an ERP and the service both edit, and
 * are compared. Exit code 0 when both are equal, else 1.
 */
import { join } from 'node:path';
import { isIdle, readStatus } from '#bridge/operate/status/status.ts';
import type { Timestamp } from '#contract/timestamp.ts';
import { systemClock, timestampNow } from '#platform/clock.ts';
import { AppError } from '#platform/errors.ts';
import type { ProfileName } from '#service/profile/profile.ts';
import { playStory } from '#service/simulator/play-story.ts';
import { type Awards, awardsOfFolder, awardsOfService, compareAwards } from '../award-comparison.ts';
import { readConfiguration } from '../configuration.ts';
import { type Installation, openInstallation, storageOf } from '../installation.ts';
import { type LocalPrograms, startLocalPrograms } from '../local-programs.ts';
import { localSource } from '../local-settings.ts';
import { clientOf } from '../local-setup.ts';
import { createLoop, playLoop } from '../loop.ts';
import { listenForStop } from '../stop-request.ts';

export interface DemoOptions {
  config?: string;
  data?: string;
  events: number;
  suppliers: number;
  lots: number;
  seed: number;
  profile: ProfileName;
  loop?: boolean;
}

const idleWithinMs = 120_000;

/** Returns 0 when both sides are equal, else 1. Rejects when it cannot start, is stopped, or the bridge stays busy. */
export async function runDemo(options: DemoOptions): Promise<number> {
  const configuration = readConfiguration(options.config, options);
  // The demo uses only its own flow, to a folder of its own, and compares that folder with the whole service.
  const own = { ...configuration, bridge: { ...configuration.bridge, flows: [], sources: [] } };
  const stop = listenForStop();
  await using opened = new AsyncDisposableStack();
  const installation = await openInstallation(own, { name: 'demo', logLevel: 'error' });
  opened.defer(() => installation.close());
  const loop = options.loop ? await createLoop() : undefined;
  const programs = await startLocalPrograms(installation, {
    freePorts: true,
    profile: options.profile,
    addSettings: loop?.settings,
  });
  opened.defer(() => programs.close());
  if (loop) {
    const client = clientOf(installation, programs.service.url, programs.setup.deskKey);
    console.log(`Service ${programs.service.url}; database: ${storageOf(installation)}\n`);
    return (await playLoop({ loop, installation, programs, client, signal: stop.signal })) ? 0 : 1;
  }
  // Awaited here: a promise that is returned unawaited would run after everything is closed.
  return await playAndCompare(installation, programs, options, stop.signal);
}

async function playAndCompare(
  installation: Installation,
  programs: LocalPrograms,
  options: DemoOptions,
  signal: AbortSignal,
): Promise<number> {
  const startedAt = timestampNow(systemClock);
  const startedMs = performance.now();
  console.log(`Service ${programs.service.url}, webhooks to ${programs.bridge.webhookUrl(localSource)}`);
  console.log(`Database: ${storageOf(installation)}; story seed ${options.seed}\n`);
  const client = clientOf(installation, programs.service.url, programs.setup.deskKey);
  const print = (line: string) => console.log(`  ${line}`);
  await playStory({ ...options, client, clock: systemClock, pauseMs: 0, print, signal });
  const storyMs = performance.now() - startedMs;
  await waitUntilIdle(installation, programs, signal);
  const restMs = performance.now() - startedMs - storyMs;

  const { awards: wanted, reopened } = await awardsOfService(client);
  const held = await awardsOfFolder(join(installation.dataDir, 'erp-inbox'), reopened);
  const equal = printComparison(wanted, held);
  if (reopened.size > 0)
    console.log(`  not compared: ${reopened.size} reopened by an earlier run that was interrupted`);
  await printLegs(installation, startedAt, storyMs, restMs);
  console.log(
    equal ? '\nThe connector holds exactly what the service awarded.' : '\nTHE CONNECTOR DIFFERS FROM THE SERVICE.',
  );
  return equal ? 0 : 1;
}

/**
 * Waits until the service and then the bridge are idle. In this order both are idle together: what leaves the service's
 * outbox after the first look is seen by the second, at the bridge.
 */
async function waitUntilIdle(
  installation: Installation,
  { service, settings }: LocalPrograms,
  signal: AbortSignal,
): Promise<void> {
  const giveUpMs = systemClock.nowMs() + idleWithinMs;
  const looksIdle = async () => {
    if (!(await service.isIdle())) return false;
    const now = timestampNow(systemClock);
    return isIdle(await readStatus(installation.open.database, { settings, now }), now);
  };
  // A story that was stopped in the middle proves nothing, even when everything is idle.
  while (signal.aborted || !(await looksIdle())) {
    if (signal.aborted) throw new AppError('unavailable', 'The demo was stopped before its end.');
    if (systemClock.nowMs() > giveUpMs)
      throw new AppError('unavailable', `The bridge was not idle within ${idleWithinMs / 1000} s.`);
    await systemClock.sleep(50);
  }
}

/** Prints the comparison of both sides; returns true when they are equal and there was something to compare. */
function printComparison(wanted: Awards, held: Awards): boolean {
  const { missing, extra } = compareAwards(wanted, held);
  const lots = (awards: Awards) => [...awards.values()].reduce((sum, lines) => sum + lines.size, 0);
  const row = (name: string, service: number | '', connector: number) =>
    console.log(`  ${name.padEnd(19)}${String(service).padStart(7)}   ${String(connector).padStart(9)}`);
  console.log('\n                     service   connector');
  row('awards', wanted.size, held.size);
  row('awarded lots', lots(wanted), lots(held));
  row('missing', '', missing.length);
  row('too many or wrong', '', extra.length);
  for (const line of missing.slice(0, 10)) console.log(`  missing: ${line}`);
  for (const line of extra.slice(0, 10)) console.log(`  too many or wrong: ${line}`);
  return missing.length === 0 && extra.length === 0 && wanted.size > 0;
}

/** Prints how long each leg took for the changes since `startedAt`, from the times in both databases. */
async function printLegs(
  installation: Installation,
  startedAt: Timestamp,
  storyMs: number,
  restMs: number,
): Promise<void> {
  const leg = async (name: string, select: string) => {
    const [row] = await installation.open.database.query<{ count: number; p50: number | null; max: number | null }>(
      `select count(*)::int as count, percentile_cont(0.5) within group (order by ms) as p50, max(ms) as max
       from (select extract(epoch from took)::float8 * 1000 as ms from (${select}) as legs (took)) as timed`,
      [startedAt],
    );
    const figure = (ms: number | null | undefined) => `${Math.round(ms ?? 0)} ms`.padStart(9);
    console.log(`  ${name.padEnd(44)}${figure(row?.p50)}${figure(row?.max)}${String(row?.count ?? 0).padStart(8)}`);
  };
  console.log(`\n  ${'Leg'.padEnd(44)}${'median'.padStart(9)}${'longest'.padStart(9)}${'count'.padStart(8)}`);
  await leg(
    'change committed -> webhook acknowledged',
    `select finished - created from service.deliveries where state = 'delivered' and created >= $1`,
  );
  await leg(
    'change committed -> record in the mirror',
    'select seen - modified from bridge.mirror where modified >= $1',
  );
  await leg(
    'event closed -> award in the ERP',
    `select d.delivered - e.closed from bridge.flow_documents d
     join service.sourcing_events e on e.id::text = d.sourcing_event where e.closed >= $1 and d.delivered is not null`,
  );
  console.log(
    `\n  story played in ${(storyMs / 1000).toFixed(1)} s, bridge idle ${Math.max(0, restMs / 1000).toFixed(1)} s after it`,
  );
}
