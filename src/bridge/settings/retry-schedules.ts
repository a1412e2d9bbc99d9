/**
 * How soon the bridge tries again, one row for everything that it tries again. The wait doubles with each failure in a
 * row, from `firstMs` up to `mostMs`.
 */
interface RetrySchedule {
  readonly firstMs: number;
  readonly mostMs: number;
}

export const retrySchedules = {
  /** A feed whose pull failed. */
  pull: { firstMs: 2_000, mostMs: 5 * 60_000 },
  /** A backfill or an audit whose window failed. */
  backfill: { firstMs: 5_000, mostMs: 10 * 60_000 },
  /** A source's list of suppliers that could not be read. */
  supplierList: { firstMs: 5_000, mostMs: 15 * 60_000 },
  /** A job that has not ended, or that could not be read. */
  job: { firstMs: 2_000, mostMs: 15 * 60_000 },
  /** A document that could not be delivered to the ERP. */
  document: { firstMs: 1_000, mostMs: 10 * 60_000 },
  /** An ERP whose records could not be read. */
  intakeRead: { firstMs: 5_000, mostMs: 15 * 60_000 },
  /** A submission that could not be sent, or that was found nowhere. */
  submission: { firstMs: 5_000, mostMs: 15 * 60_000 },
  /** A submission that the source has taken and not processed yet. */
  submissionLook: { firstMs: 1_000, mostMs: 60_000 },
  /** News of a requisition that the ERP was not told. */
  acknowledgement: { firstMs: 5_000, mostMs: 15 * 60_000 },
  /** The outcome of an operation that could not be written to the database: tried four times. */
  outcome: { firstMs: 200, mostMs: 2_000 },
  /** A message about alerts that could not be sent. */
  alertMessage: { firstMs: 10_000, mostMs: 15 * 60_000 },
} satisfies Record<string, RetrySchedule>;

const jitter = 0.2;

/**
 * Returns the wait in milliseconds after this many `failures` in a row: `firstMs`, doubled with each failure up to
 * `mostMs`, plus up to a fifth at random, so that work that failed together is not retried together. It is at least
 * `floorMs`, the wait that the other side has asked for.
 */
export function retryWaitMs(schedule: RetrySchedule, failures: number, { floorMs = 0 } = {}): number {
  const waitMs = Math.min(schedule.mostMs, schedule.firstMs * 2 ** Math.min(failures, 30));
  return Math.max(floorMs, Math.round(waitMs * (1 + jitter * Math.random())));
}

/** The longest wait in milliseconds that `retryWaitMs` returns for it, without a floor. */
export function retryWaitMostMs(schedule: RetrySchedule): number {
  return schedule.mostMs * (1 + jitter);
}
