/**
 * The conformance kit: the checks that every connector runs against its ERP. The reference connector passes all of
 * them. For each check, the project's tests have a connector that is broken in the way that the check looks for, and
 * fails it.
 */
import type { Check } from './check.ts';
import { acknowledge, acknowledgeAgain } from './checks/acknowledging.ts';
import {
  crash,
  expiredLogin,
  lostAnswer,
  rateLimit,
  refusedInTheMiddle,
  refusedLogin,
  serverErrors,
} from './checks/faults.ts';
import { openRequisitions } from './checks/listing-open.ts';
import { atOnce } from './checks/load.ts';
import { away, reachable } from './checks/reachability.ts';
import { read, readAgain, stoppedRead } from './checks/reading.ts';
import { readBack, readBackCutOff } from './checks/reading-back.ts';
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

/** How long the bridge waits for a connector to stop after an abort. */
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
  refusedInTheMiddle,
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
  openRequisitions,
  acknowledge,
  acknowledgeAgain,
  readBack,
  readBackCutOff,
  // Last: it searches what the leak detector has collected during the other checks.
  secrets,
];

/** The name and the guarantee of each check, in their order. */
export const conformanceChecks: readonly { readonly name: string; readonly guarantee: string }[] = checks;

/**
 * The conformance tests of a connector: `for (const { title, run } of conformance({ … })) test(title, run)`. They must
 * run in this order, one at a time. Throws when `notApplicable` names an unknown check, or has no reason for one.
 */
export function conformance(target: ConformanceTarget): ConformanceTest[] {
  return conformanceTests(target, { stopMs });
}

/** As `conformance`, with another time to stop, so that the kit's own tests are quick. */
export function conformanceTests(target: ConformanceTarget, limits: { stopMs: number }): ConformanceTest[] {
  const { notApplicable = {} } = target;
  const names = checks.map(({ name }) => name);
  for (const [name, reason] of Object.entries(notApplicable)) {
    if (!names.includes(name))
      throw new Error(`notApplicable names "${name}", which is not a check: ${names.join(', ')}`);
    if (reason.trim() === '')
      throw new Error(`notApplicable names "${name}" without the reason, which the table of connectors shows`);
  }
  const results = createResults(target);
  const leakDetector = createLeakDetector();
  return checks.map(({ name, guarantee, run }) => ({
    title: `${name}: ${guarantee}${notApplicable[name] === undefined ? '' : ` (not applicable: ${notApplicable[name]})`}`,
    run: async (context) => {
      const skip = (reason: string) => {
        results.add({ name, result: 'not applicable', reason });
        context?.skip?.(reason);
      };
      const reason = notApplicable[name];
      if (reason !== undefined) return skip(reason);
      const stage = createStage(target, leakDetector, limits);
      try {
        await run(stage);
        results.add({ name, result: 'passed' });
      } catch (error) {
        if (!(error instanceof NotApplicable)) {
          results.add({ name, result: 'failed' });
          throw error;
        }
        skip(error.message);
      } finally {
        await stage.close();
      }
    },
  }));
}
