/**
 * Service and bridge as the public pages say, between an ERP in PostgreSQL and the buyers and suppliers of
 * buying-story.ts, with `kill -9` at seeded instants, mostly of the bridge. FAULTS sets the number
 * of kills, FAULT_SEED the instants.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test, vi } from 'vitest';
import { expectErp, expectService } from './buying-end.ts';
import { type BuyingPrograms, startBuyingPrograms } from './buying-programs.ts';
import { steps } from './buying-story.ts';
import { until } from './program-process.ts';
import { seededRandom } from './seeded-random.ts';
import type { SupervisedProgram } from './supervised-program.ts';

const kills = Number(process.env['FAULTS'] ?? 3);
const seed = Number(process.env['FAULT_SEED'] ?? 3);
/** Each fifth kill is of the service. */
const serviceEvery = 5;
const killWithinMs = 1_500;

test(`the public service: each requisition becomes one event, and each award one order with exact prices, with ${kills} kills of bridge and service (seed ${seed})`, {
  timeout: 240_000 + kills * 30_000,
}, async () => {
  const programs = await startBuyingPrograms();
  const random = seededRandom(seed);
  const plan = Array.from({ length: kills }, (_, number) => ({
    step: Math.floor(random.upTo(steps.length)),
    victim: number % serviceEvery === 2 ? programs.service : programs.bridge,
    // Half of them come in the middle of a call.
    waitsForCall: number % 2 === 0,
    afterMs: random.upTo(number % 2 === 0 ? 30 : killWithinMs),
  }));
  const cutOff: string[] = [];
  for (const [index, step] of steps.entries()) {
    const playing = step.play(programs.stage);
    const ofStep = plan.filter((each) => each.step === index);
    // Both end before one of them fails the test.
    const ended = await Promise.allSettled([playing, killEach(ofStep, playing, programs, cutOff)]);
    const failures = ended.flatMap((each) => (each.status === 'rejected' ? [each.reason as unknown] : []));
    if (failures.length > 0) throw new AggregateError(failures, `${step.name}: ${failures.map(String).join('; ')}`);
  }
  await expectEnd(programs);
  expect(programs.stage.failure()).toBeUndefined();
  // oxlint-disable-next-line no-console -- a run of many kills must show whether they hit anything
  console.log(`Seed ${seed}: ${kills} kills, by calls that they cut off: ${cutOff.join(', ')}`);
});

interface PlannedKill {
  readonly victim: SupervisedProgram;
  readonly waitsForCall: boolean;
  readonly afterMs: number;
}

/** Notes of each kill how many calls of the bridge it has cut off. */
async function killEach(
  planned: readonly PlannedKill[],
  playing: Promise<void>,
  programs: BuyingPrograms,
  cutOff: string[],
): Promise<void> {
  let isOver = false;
  void playing.finally(() => (isOver = true)).catch(() => undefined);
  for (const { victim, waitsForCall, afterMs } of planned) {
    if (waitsForCall)
      await until(
        'a call is under way, or the step is over',
        async () => isOver || (await programs.callsUnderWay()) > 0,
      );
    await sleep(afterMs);
    await victim.kill();
    cutOff.push(`${victim.name} ${await programs.callsUnderWay()}`);
  }
}

async function expectEnd(programs: BuyingPrograms): Promise<void> {
  const { stage, service, bridge } = programs;
  const notInStep = () => programs.notInStep();
  await Promise.all([service.ready(), bridge.ready()]);
  await expect.poll(notInStep, { timeout: 120_000, interval: 500, message: 'not in step' }).toEqual([]);
  await expectErp(stage);
  await expectService(stage);
  // Nothing has come of it since, but perhaps one more reading of a feed.
  await expect.poll(notInStep, { timeout: 30_000, interval: 500 }).toEqual([]);
  await programs.succeed('status');
  // A notification that met a kill is sent again after a while; until then the webhook counts as failing.
  await vi.waitFor(() => programs.succeed('doctor'), { timeout: 60_000, interval: 1_000 });
  await programs.end();
}
