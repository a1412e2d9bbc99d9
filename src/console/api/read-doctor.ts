/**
 * The lines of `bridge doctor`. It asks sources and ERPs, so that all viewers get those of one examination, which is made
 * at most twice a minute.
 */
import type { Timestamp } from '#contract/timestamp.ts';
import { timestampNow } from '#platform/clock.ts';
import { AppError } from '#platform/errors.ts';
import { shareRead } from '../shared-read.ts';
import { type ConsoleApiDeps, type ConsoleFinding, noQuery, readCall, requireAllFlows } from './console-call.ts';

export interface DoctorAnswer {
  readonly findings: readonly ConsoleFinding[];
  readonly examined: Timestamp;
}

const freshMs = 30_000;

export const doctorCall = ({ doctor, clock }: ConsoleApiDeps) => {
  const examination =
    doctor && shareRead(async () => ({ findings: await doctor(), examined: timestampNow(clock) }), clock, freshMs);
  return readCall('/api/doctor', noQuery, async ({ viewer }): Promise<DoctorAnswer> => {
    requireAllFlows(viewer);
    if (!examination) throw new AppError('not-found', 'This process cannot examine itself: run "bridge doctor".');
    return examination.read();
  });
};
