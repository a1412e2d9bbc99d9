/**
 * One seed: a world is made, lives through its chaos, calms down, and is compared with what it should be. The same seed
 * gives the same log, line by line.
 */
import { BridgeHost } from './bridge-host.ts';
import { arrivedMs, checkEnd, checkWatermark, guardWithdrawals, whyNotAtRest } from './invariants.ts';
import { sendNotifications } from './notifications.ts';
import { startOperator } from './operator.ts';
import { focusProxies } from './scenario.ts';
import { createSimulation, type SeedOptions, type Simulation } from './simulation.ts';
import { SourcingStory } from './sourcing-story.ts';
import type { SimulatedProcess, Violation } from './world.ts';

export interface SeedResult {
  readonly seed: string;
  readonly violation: Violation | undefined;
  /** Everything that happened. */
  readonly lines: readonly string[];
}

/** Nothing takes longer than this to come to rest once the faults have stopped. */
const calmMostMs = 45 * 60_000;
const lookEveryMs = 2_000;

/** The tables must be empty. */
export async function runSeed(seed: string, options: SeedOptions): Promise<SeedResult> {
  const simulation = createSimulation(seed, options);
  const { world, postgres } = simulation;
  try {
    await live(simulation);
  } catch (error) {
    world.violate('the simulation itself works', error instanceof Error ? (error.stack ?? error.message) : '');
  }
  world.end();
  await postgres.closeAll();
  return { seed, violation: world.violation, lines: world.lines };
}

async function live(simulation: Simulation): Promise<void> {
  const { world, scenario, source, postgres } = simulation;
  const hosts = scenario.processes.roles.map((role, index) => new BridgeHost(simulation, role, index));
  const story = new SourcingStory(world, source, scenario.story);
  for (let left = scenario.story.before; left > 0; left -= 1) story.step(60_000 + left * 5_000);
  const announce = sendNotifications(simulation, hosts);
  guardWithdrawals(simulation);
  source.onStamped = (feed, stampMicros) => {
    for (const erp of simulation.erps.values()) erp.forgetWithdrawals();
    world.after(0, () => checkWatermark(simulation, feed, stampMicros));
  };
  letFateHappen(simulation, hosts, story);
  let isOver = false;
  world.after(scenario.story.chaosMs, () => {
    isOver = true;
  });
  await world.run(() => isOver);
  if (world.violation) return;
  world.after(0, () => {
    world.log('world', '=== calm ===');
    world.chaos = false;
    postgres.comeBack();
    // One that goes on when others have done its work is the worst.
    if (scenario.processes.focus?.does !== 'freeze') for (const { process } of hosts) process?.goOn();
    if (scenario.calm.oneProcess) leaveOne(simulation, hosts);
    startOperator(simulation);
  });
  if (scenario.calm.lastNews) world.after(arrivedMs(scenario) + 3 * scenario.processes.skewMs + 100, announce);
  await calm(simulation, hosts);
  if (!world.violation) await checkEnd(simulation);
}

/** Only one that can do everything: what another has left undone must not need that one. */
function leaveOne({ world }: Simulation, hosts: readonly BridgeHost[]): void {
  const random = world.random.of('calm');
  const able = hosts.filter((host) => host.doesAll);
  if (able.length === 0) return;
  const left = random.pick(able);
  for (const host of hosts) if (host !== left) host.retire(random.pick(['stop', 'kill']));
}

/** When what happens: to the source, and to the processes. */
function letFateHappen({ world, scenario, postgres }: Simulation, hosts: readonly BridgeHost[], story: SourcingStory) {
  const random = world.random.of('fate');
  const { chaosMs, during } = scenario.story;
  const { crash, freeze, kills, stops, pauses, outages, focus } = scenario.processes;
  const standStill = (process: SimulatedProcess | undefined) => {
    const ms = random.pick(scenario.processes.pauseMs);
    process?.standStill(ms);
    // Whoever finds one that does not answer may well kill it.
    if (process && random.chance(0.2)) world.after(ms + random.fraction() * 200, () => killed(process));
  };
  const killed = (process: SimulatedProcess) => {
    if (!process.alive || !world.chaos) return;
    world.log(process.id, 'is killed');
    process.die();
  };
  const sometime = (count: number, happen: () => void) => {
    for (let index = 0; index < count; index += 1) world.after(random.fraction() * chaosMs, happen);
  };
  for (const host of hosts) world.after(random.fraction() * 3_000, () => host.start());
  sometime(during, () => story.step());
  sometime(kills, () => random.pick(hosts).kill());
  sometime(stops, () => random.pick(hosts).stop());
  sometime(pauses, () => standStill(random.pick(hosts).process));
  sometime(outages, () => postgres.goAway(random.whole(500, 15_000)));
  world.atProxy = (process, where) => {
    if (!world.chaos) return;
    const edge = focus && focusProxies[focus.on];
    const often = (what: 'crash' | 'freeze') => (edge?.where.test(where) && focus?.does === what ? edge.chance : 0);
    if (random.chance(Math.max(freeze, often('freeze')))) standStill(process);
    if (!random.chance(Math.max(crash, often('crash')))) return;
    world.log(process.id, `crashes ${where}`);
    process.die();
  };
}

/** Until everything has come to rest. */
async function calm(simulation: Simulation, hosts: readonly BridgeHost[]): Promise<void> {
  const { world } = simulation;
  const sinceMs = world.elapsedMs;
  for (;;) {
    let isDue = false;
    world.after(lookEveryMs, () => {
      isDue = true;
    });
    await world.run(() => isDue);
    if (world.violation) return;
    const starting = hosts.find((host) => !host.isReady);
    const still = hosts.find(({ process }) => process?.alive && process.standsStill);
    const unrest = starting
      ? `${starting.name} is starting`
      : still
        ? `${still.name} stands still`
        : await whyNotAtRest(simulation, sinceMs);
    if (unrest === undefined) return;
    if (world.elapsedMs - sinceMs > calmMostMs) world.violate('it comes to rest', unrest);
  }
}
