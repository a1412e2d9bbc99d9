/**
 * One line for an outage, however many connections notice it and however often each tries again.
 */
import { errorText } from '#platform/errors.ts';
import type { Logger } from '#platform/log.ts';
import type { ReportError } from './backend.ts';

/** An outage is over when nothing was reported for this long. */
const quietMs = 30_000;

/** Warns of the first error and counts the rest (at debug level) until it has been quiet for half a minute. */
export function createOutageLog(log: Logger, what: string): { report: ReportError; close: () => void } {
  let quiet: NodeJS.Timeout | undefined;
  let errors = 0;
  let closed = false;
  return {
    report(error) {
      if (closed) return;
      errors += 1;
      if (quiet) {
        quiet.refresh();
        log.debug({ error: errorText(error) }, `${what}: another error of the same outage`);
        return;
      }
      log.warn({ error: errorText(error) }, `${what} fails; trying on, and further errors are not logged`);
      quiet = setTimeout(() => {
        log.info({ errors }, `${what} has had no error for ${quietMs / 1000} s`);
        quiet = undefined;
        errors = 0;
      }, quietMs).unref();
    },
    close() {
      closed = true;
      clearTimeout(quiet);
    },
  };
}
