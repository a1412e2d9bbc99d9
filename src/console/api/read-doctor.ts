/** The lines of `bridge doctor`. */
import { AppError } from '#platform/errors.ts';
import { type ConsoleApiDeps, type ConsoleFinding, noQuery, readCall, requireAllFlows } from './console-call.ts';

export interface DoctorAnswer {
  readonly findings: readonly ConsoleFinding[];
}

export const doctorCall = ({ doctor }: ConsoleApiDeps) =>
  readCall('/api/doctor', noQuery, async ({ viewer }): Promise<DoctorAnswer> => {
    requireAllFlows(viewer);
    if (!doctor) throw new AppError('not-found', 'This process cannot examine itself: run "bridge doctor".');
    return { findings: await doctor() };
  });
