/**
 * The conformance kit: what every connector must do, against the ERP that its author has. The reference connector passes
 * it, and for each check there is a connector in the project's tests that is broken in just that way and fails it.
 */
import type { Check } from './check.ts';
import {
  crash,
  emptyAnswers,
  expiredLogin,
  lostAnswer,
  rateLimit,
  refusedLogin,
  serverErrors,
} from './checks/faults.ts';
import { atOnce } from './checks/load.ts';
import { away, reachable } from './checks/reachability.ts';
import { read, readAgain, stoppedRead } from './checks/reading.ts';
import { secrets } from './checks/secrets.ts';
import { secretSettings, settings } from './checks/settings.ts';
import { cancellation, closing, lateEffect } from './checks/stopping.ts';
import {
  batch,
  fidelity,
  keysAlike,
  lookup,
  plan,
  poisoned,
  references,
  sameTwice,
  versions,
  withdraw,
} from './checks/writing.ts';
import { NotApplicable } from './finding.ts';
import { createLeakDetector } from './leak-detector.ts';
import { createResults } from './results.ts';
import { createStage } from './stage.ts';
import type { ConformanceTarget, ConformanceTest } from './target.ts';

/** The bridge gives a connector this long to stop after it was told to. */
const stopMs = 5_000;

const checks: readonly Check[] = [
  settings,
  secretSettings,
  reachable,
  away,
  sameTwice,
  versions,
  references,
  fidelity,
  withdraw,
  lookup,
  keysAlike,
  plan,
  batch,
  poisoned,
  crash,
  lostAnswer,
  serverErrors,
  emptyAnswers,
  rateLimit,
  refusedLogin,
  expiredLogin,
  cancellation,
  lateEffect,
  closing,
  atOnce,
  read,
  readAgain,
  stoppedRead,
  // Last: it searches what the others have heard.
  secrets,
];

/** What each check is called, and what holds when it passes; in their order. */
export const conformanceChecks: readonly { readonly name: string; readonly guarantee: string }[] = checks;

/**
 * The tests of a connector: `for (const { title, run } of conformance({ … })) test(title, run)`. They run in this order
 * and one at a time. Throws for a `notApplicable` that names no check, or no reason.
 */
export function conformance(target: ConformanceTarget): ConformanceTest[] {
  return conformanceTests(target, { stopMs });
}

/** The same with another time to stop: the kit's own tests need not wait for so long. */
export function conformanceTests(target: ConformanceTarget, limits: { stopMs: number }): ConformanceTest[] {
  const { notApplicable = {} } = target;
  const names = checks.map(({ name }) => name);
  for (const [name, reason] of Object.entries(notApplicable)) {
    if (!names.includes(name)) throw new Error(`notApplicable names "${name}", which is no check: ${names.join(', ')}`);
    if (reason.trim() === '')
      throw new Error(`notApplicable names "${name}" without the reason: it stands in the table`);
  }
  const results = createResults(target);
  const told = createLeakDetector();
  return checks.map(({ name, guarantee, run }) => ({
    title: `${name}: ${guarantee}${notApplicable[name] === undefined ? '' : ` (not applicable: ${notApplicable[name]})`}`,
    run: async (context) => {
      const leaveOut = (reason: string) => {
        results.add({ name, result: 'not applicable', reason });
        context?.skip?.(reason);
      };
      const given = notApplicable[name];
      if (given !== undefined) return leaveOut(given);
      const stage = createStage(target, told, limits);
      try {
        await run(stage);
        results.add({ name, result: 'passed' });
      } catch (error) {
        if (!(error instanceof NotApplicable)) {
          results.add({ name, result: 'failed' });
          throw error;
        }
        leaveOut(error.message);
      } finally {
        await stage.close();
      }
    },
  }));
}
