/**
 * Tells the log of notifications that were refused, and why. Anybody can send what is refused: what is wrong with a webhook
 * says only its service (`find-fault.ts`).
 */
import type { Timestamp } from '#contract/timestamp.ts';
import { type Clock, timestampNow } from '#platform/clock.ts';
import { AppError } from '#platform/errors.ts';
import type { Logger } from '#platform/log.ts';

/** Why a notification was refused. The sender does not learn which of the first three it was. */
export type RefusalReason = 'no-signature' | 'no-key' | 'wrong-signature' | 'no-token' | 'wrong-token';

/** A notification that does not prove who has sent it. */
export class Refused extends AppError {
  readonly reason: RefusalReason;

  constructor(reason: RefusalReason, message: string) {
    super('unauthorized', message);
    this.name = 'Refused';
    this.reason = reason;
  }
}

/** Logged at so many refusals in a row, and again each time there are ten times as many. */
const firstLogged = 10;

interface Row {
  readonly since: Timestamp;
  count: number;
}

export interface Refusals {
  refused(source: string, reason: RefusalReason): void;
  accepted(source: string): void;
}

/** Only configured sources are counted, so a client cannot make it grow. */
export function createRefusals(deps: {
  log: Logger;
  clock: Clock;
  sources: Pick<ReadonlySet<string>, 'has'>;
}): Refusals {
  const { log, clock, sources } = deps;
  const inARow = new Map<string, Row>();
  return {
    refused(source, reason) {
      if (!sources.has(source)) return;
      const row = inARow.get(source) ?? { since: timestampNow(clock), count: 0 };
      row.count += 1;
      inARow.set(source, row);
      if (row.count >= firstLogged && Number.isInteger(Math.log10(row.count)))
        log.warn(
          { source, reason, state: 'signatures refused', count: row.count, since: row.since },
          `${row.count} notifications in a row were refused, and did nothing; whether the service has sent them, \`bridge doctor\` asks it`,
        );
    },
    accepted(source) {
      const row = inARow.get(source);
      if (!row) return;
      inARow.delete(source);
      if (row.count >= firstLogged)
        log.info(
          { source, state: 'signatures accepted', count: row.count, since: row.since },
          'a notification was accepted again',
        );
    },
  };
}
