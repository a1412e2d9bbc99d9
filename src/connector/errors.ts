/**
 * What a connector throws. The recovery is in the class, so that nobody guesses it from a text: throw the one that says
 * what has to happen next. The message is for a person, with the ERP's own words; the bridge takes secrets out of it.
 */
import type { OutcomeError } from './connector.ts';

/** Of these, only `UnknownOutcome` leaves open whether the ERP has done what it was asked. */
export abstract class ConnectorError extends Error {
  abstract readonly type: OutcomeError['type'] | 'unknown';

  constructor(message: string, options: { cause?: unknown } = {}) {
    super(message, options);
    this.name = new.target.name;
  }
}

/** Nothing was done, and it will pass: the bridge tries again, later each time. */
export class TransientError extends ConnectorError {
  override readonly type = 'transient';
}

/** Nothing was done, and the ERP wants to be left alone, for so long if it says so. */
export class RateLimited extends ConnectorError {
  override readonly type = 'rate-limited';
  readonly retryAfterMs: number | undefined;

  constructor(message: string, options: { retryAfterMs?: number | undefined; cause?: unknown } = {}) {
    super(message, options);
    this.retryAfterMs = options.retryAfterMs;
  }
}

/**
 * Nothing was done, because of the object itself or of one that it needs: somebody works on it in the ERP, or it is not
 * there yet. The bridge tries again, and does not count it against the ERP.
 */
export class LockedError extends ConnectorError {
  override readonly type = 'locked';
}

/** The ERP refuses this record, and would again: a dead letter, until the record changes or a person replays it. */
export class DataError extends ConnectorError {
  override readonly type = 'data';
}

/** Somebody has changed the object in the ERP, and it is not to be overwritten: a dead letter. */
export class ConflictError extends ConnectorError {
  override readonly type = 'conflict';
}

/** The ERP does not let the connector in: the flow pauses until a person acts. */
export class AuthError extends ConnectorError {
  override readonly type = 'auth';
}

/** A setting, or something in the ERP that every record needs, is wrong: the flow pauses until a person acts. */
export class ConfigError extends ConnectorError {
  override readonly type = 'config';
}

/** The ERP may have done it or not: the bridge asks `lookup` before anything is sent again. */
export class UnknownOutcome extends ConnectorError {
  override readonly type = 'unknown';
}
