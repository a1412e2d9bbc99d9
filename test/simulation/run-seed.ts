/**
 * Runs one seed: it creates a world, lets faults happen for a while, stops the faults, waits until the bridge is idle,
 * and compares the result with what it should be. The same seed produces the same log, line by line.
 */
import { BridgeHost } from './bridge-host.ts';
import { arrivedMs, checkEnd, checkWatermark, guardWithdrawals, whyNotIdle } from './invariants.ts';
import { sendNotifications } from './notifications.ts';
import { commandDuringChaos, startOperator } from './operator.ts';
import { focusPoints } from './scenario.ts';
import { createSimulation, partOf, type SeedOptions, type SimulatedSource, type Simulation } from './simulation.ts';
import { SourcingStory } from './sourcing-story.ts';
import { WiderStory } from './wider-story.ts';
import type { SimulatedProcess, Violation } from './world.ts';

export interface SeedResult {
  readonly seed: string;
  readonly violation: Violation | undefined;
  /** The log of everything that happened. */
  readonly lines: readonly string[];
}

/** Once the faults have stopped, the bridge must be idle within this time. */
const calmMaxMs = 45 * 60_000;
const checkEveryMs = 2_000;

/** Runs the seed; the tables must be empty. A violation is returned, not thrown. */
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
  const { world, scenario, sources, postgres } = simulation;
  const hosts = scenario.processes.roles.map((role, index) => new BridgeHost(simulation, role, index));
  const lives = sources.map((each) => beginSource(simulation, each, hosts));
  guardWithdrawals(simulation);
  scheduleFaults(simulation, hosts, lives[0]?.story);
  for (const { scheduleOthers } of lives) scheduleOthers();
  commandDuringChaos(simulation);
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
    // A process that resumes after others have done its work does the most harm: seeds that focus on pauses let each
    // pause run to its end.
    if (scenario.processes.focus?.does !== 'freeze') for (const { process } of hosts) process?.resume();
    if (scenario.calm.oneProcess) leaveOne(simulation, hosts);
    startOperator(simulation);
  });
  if (scenario.calm.announceAgain)
    for (const { announce } of lives)
      world.after(arrivedMs(simulation) + 3 * scenario.processes.skewMs + 100, announce);
  await calm(simulation, hosts);
  if (!world.violation) await checkEnd(simulation);
}

/** What happened at a source before the bridge began; returns how it goes on, and how each feed is announced again. */
function beginSource(simulation: Simulation, each: SimulatedSource, hosts: readonly BridgeHost[]) {
  const { world } = simulation;
  const { source, service, scenario, erps, name } = each;
  const story = new SourcingStory(world.random.of(partOf(name, 'story')), source, scenario.story);
  for (let left = scenario.story.before; left > 0; left -= 1) story.step(60_000 + left * 5_000);
  const wider = new WiderStory(world.random.of(partOf(name, 'wider story')), { source, service, story }, scenario.wide);
  wider.fillList();
  const { announce, announceJob } = sendNotifications(simulation, each, hosts);
  source.onStamped = (feed, stampMicros) => {
    for (const erp of erps.values()) erp.forgetWithdrawals();
    world.after(0, () => checkWatermark(simulation, each, feed, stampMicros));
  };
  const random = world.random.of(partOf(name, 'wider fate'));
  const sometime = (count: number, act: () => void) => {
    for (let index = 0; index < count; index += 1)
      world.after(random.fraction() * simulation.scenario.story.chaosMs, act);
  };
  const scheduleOthers = () => {
    // The changes of the first source's story are scheduled with the faults.
    if (name !== 'main') sometime(scenario.story.during, () => story.step());
    sometime(scenario.wide.changes, () => wider.step());
    const jobs = world.random.of(partOf(name, 'jobs'));
    const sendJob = () => {
      const [id, ms] = [jobs.uuid(), jobs.fraction() * 20_000];
      const ended = jobs.chance(0.7)
        ? { status: 'COMPLETED' as const, created_entity: jobs.uuid() }
        : { status: 'FAILED' as const };
      // A replica may show the end later than it is told.
      const lagMs = jobs.chance(0.5) ? jobs.fraction() * 10_000 : 0;
      service.eventJobs.set(id, { endsMs: world.nowMs + ms + lagMs, ended });
      world.after(ms, () => announceJob(id, ended.status));
    };
    if (scenario.settings.documents.includes('job'))
      for (let count = 0; count < 4; count += 1)
        world.after(jobs.fraction() * simulation.scenario.story.chaosMs, sendJob);
  };
  return { story, announce, scheduleOthers };
}

/** Ends all processes but one with every role: it must complete what the others have left undone. */
function leaveOne({ world }: Simulation, hosts: readonly BridgeHost[]): void {
  const random = world.random.of('calm');
  const able = hosts.filter((host) => host.doesAll);
  if (able.length === 0) return;
  const left = random.pick(able);
  for (const host of hosts) if (host !== left) host.retire(random.pick(['stop', 'kill']));
}

/** Schedules the changes at the source and the faults of the processes, at times that the seed chooses. */
function scheduleFaults(
  { world, scenario, postgres }: Simulation,
  hosts: readonly BridgeHost[],
  story: SourcingStory | undefined,
) {
  const random = world.random.of('fate');
  const { chaosMs, during } = scenario.story;
  const { crash, freeze, kills, stops, pauses, outages, focus } = scenario.processes;
  const pause = (process: SimulatedProcess | undefined) => {
    const ms = random.pick(scenario.processes.pauseMs);
    process?.pause(ms);
    // An operator may kill a process that does not answer.
    if (process && random.chance(0.2)) world.after(ms + random.fraction() * 200, () => killed(process));
  };
  const killed = (process: SimulatedProcess) => {
    if (!process.alive || !world.chaos) return;
    world.log(process.id, 'is killed');
    process.die();
  };
  const sometime = (count: number, act: () => void) => {
    for (let index = 0; index < count; index += 1) world.after(random.fraction() * chaosMs, act);
  };
  for (const host of hosts) world.after(random.fraction() * 3_000, () => host.start());
  sometime(during, () => story?.step());
  sometime(kills, () => random.pick(hosts).kill());
  sometime(stops, () => random.pick(hosts).stop());
  sometime(pauses, () => pause(random.pick(hosts).process));
  sometime(outages, () => postgres.goAway(random.whole(500, 15_000)));
  world.atBoundary = (process, where) => {
    if (!world.chaos) return;
    const point = focus && focusPoints[focus.on];
    const often = (what: 'crash' | 'freeze') => (point?.where.test(where) && focus?.does === what ? point.chance : 0);
    if (random.chance(Math.max(freeze, often('freeze')))) pause(process);
    if (!random.chance(Math.max(crash, often('crash')))) return;
    world.log(process.id, `crashes ${where}`);
    process.die();
  };
}

/** Runs the world until the bridge is idle. */
async function calm(simulation: Simulation, hosts: readonly BridgeHost[]): Promise<void> {
  const { world } = simulation;
  const sinceMs = world.elapsedMs;
  for (;;) {
    let isDue = false;
    world.after(checkEveryMs, () => {
      isDue = true;
    });
    await world.run(() => isDue);
    if (world.violation) return;
    const starting = hosts.find((host) => !host.isReady);
    const paused = hosts.find(({ process }) => process?.alive && process.isPaused);
    const reason = starting
      ? `${starting.name} is starting`
      : paused
        ? `${paused.name} is paused`
        : await whyNotIdle(simulation, sinceMs);
    if (reason === undefined) return;
    if (world.elapsedMs - sinceMs > calmMaxMs) world.violate('the bridge becomes idle', reason);
  }
}
