/** What the tests that kill a real Tryton share: one fault after another, and users who work meanwhile. */
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'vitest';
import { AppError, errorText } from '#platform/errors.ts';
import type { seededRandom } from '../faults/seeded-random.ts';
import type { SupervisedProgram } from '../faults/supervised-program.ts';
import { closeAtEnd } from '../harness/close-at-end.ts';
import type { TrytonServer } from './tryton-server.ts';

export type Random = ReturnType<typeof seededRandom>;

/** A name, and what brings it about; it resolves when it is over. */
export type Fault = readonly [string, () => Promise<void>];

interface FaultRun {
  readonly kills: number;
  /** The upper bound of the wait for the moment of one fault. */
  readonly waitMs: number;
  /** Why the programs or the users have failed; undefined while they have not. */
  readonly failure: () => string | undefined;
  /** What a developer wants to see when the moment of a fault does not come. */
  readonly report: () => readonly string[] | Promise<readonly string[]>;
}

/** Injects the faults in their order, again and again, and returns the names of those that were injected. */
export async function injectFaults(
  faults: readonly Fault[],
  { kills, waitMs, failure, report }: FaultRun,
): Promise<string[]> {
  const injected: string[] = [];
  for (let number = 0; number < kills; number += 1) {
    const [name, inject] = faults[number % faults.length] as Fault;
    let isOver = false;
    const injection = inject().finally(() => {
      isOver = true;
    });
    // It is awaited below, but may reject before.
    injection.catch(() => undefined);
    try {
      await expect.poll(() => isOver || failure() !== undefined, { timeout: waitMs, interval: 20 }).toBe(true);
    } catch (cause) {
      const state = [...injected, ...(await report())];
      throw new Error(`The moment for this fault did not come: ${name}.\n${state.join('\n')}`, { cause });
    }
    expect(failure()).toBeUndefined();
    await injection;
    injected.push(name);
  }
  return injected;
}

/** Returns a function that kills Tryton at a random moment within `afterMs`, and starts it again within a second. */
export function trytonKiller(tryton: TrytonServer, random: Random): (afterMs?: number) => Promise<void> {
  return async (afterMs = 0) => {
    await sleep(random.upTo(afterMs));
    await tryton.kill();
    await sleep(random.upTo(1_000));
    await tryton.start();
  };
}

/** Returns functions that kill all bridges, one of them, or the service, at a random moment within `afterMs`. */
export function programKillers(
  { bridges, service }: { bridges: readonly SupervisedProgram[]; service: SupervisedProgram },
  random: Random,
) {
  return {
    killBridges: async (afterMs = 0) => {
      await sleep(random.upTo(afterMs));
      await Promise.all(bridges.map((bridge) => bridge.kill()));
    },
    killOne: async (afterMs: number) => {
      await sleep(random.upTo(afterMs));
      await bridges[Math.floor(random.upTo(bridges.length))]?.kill();
    },
    killService: async (afterMs = 0) => {
      await sleep(random.upTo(afterMs));
      await service.kill();
    },
  };
}

export interface Editors {
  readonly failure: string | undefined;
  finish(): Promise<void>;
}

/** Lets each user edit after edit, until `finish`. A side that is away is tried again by the edit itself. */
export function startEditing(edits: readonly (() => Promise<void>)[], random: Random): Editors {
  const stop = new AbortController();
  let failure: string | undefined;
  const working = Promise.all(
    edits.map(async (edit) => {
      while (!stop.signal.aborted) {
        await edit();
        await sleep(random.upTo(400));
      }
    }),
  ).then(
    () => undefined,
    (error: unknown) => {
      failure = `The users failed: ${errorText(error)}`;
    },
  );
  const finish = async () => {
    stop.abort();
    await working;
    expect(failure).toBeUndefined();
  };
  closeAtEnd(finish);
  return {
    get failure() {
      return failure;
    },
    finish,
  };
}

/** Returns a function that repeats a call while the service is away, for up to `waitMs`. */
export function repeatWhileAway(waitMs: number): <T>(call: () => Promise<T>) => Promise<T> {
  return async (call) => {
    const giveUpMs = performance.now() + waitMs;
    for (;;) {
      try {
        return await call();
      } catch (error) {
        if (!(error instanceof AppError) || error.recovery.do !== 'retry' || performance.now() > giveUpMs) throw error;
        await sleep(100);
      }
    }
  };
}
