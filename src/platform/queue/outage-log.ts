/** One warning for each outage, however many connections notice it and however often each of them tries again. */
import { errorText } from '#platform/errors.ts';
import type { Logger } from '#platform/log.ts';
import type { ReportError } from './carrier.ts';

/** An outage is over when no error was reported for this long. */
const quietMs = 30_000;

/** Warns of the first error and counts the others, at debug level, until 30 s have passed without an error. */
export function createOutageLog(log: Logger, what: string): { report: ReportError; close: () => void } {
  let quietTimer: NodeJS.Timeout | undefined;
  let errors = 0;
  let closed = false;
  return {
    report(error) {
      if (closed) return;
      errors += 1;
      if (quietTimer) {
        quietTimer.refresh();
        log.debug({ error: errorText(error) }, `${what}: another error of the same outage`);
        return;
      }
      log.warn({ error: errorText(error) }, `${what} fails; it is tried again, and further errors are not logged`);
      quietTimer = setTimeout(() => {
        log.info({ errors }, `${what} has had no error for ${quietMs / 1000} s`);
        quietTimer = undefined;
        errors = 0;
      }, quietMs).unref();
    },
    close() {
      closed = true;
      clearTimeout(quietTimer);
    },
  };
}
