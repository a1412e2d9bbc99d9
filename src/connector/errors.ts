/**
 * The errors that a connector throws. The class states the recovery, so the bridge never guesses it from a text: throw
 * the class that says what has to happen next. The message is for an operator and has the ERP's own words; the bridge
 * removes secrets from it.
 */
import type { OutcomeError } from './connector.ts';

/** The base class. Only `UnknownOutcome` leaves open whether the ERP has carried the request out. */
export abstract class ConnectorError extends Error {
  abstract readonly type: OutcomeError['type'] | 'unknown';
  /**
   * Whether an earlier request of the same write has taken effect: set it before the error leaves `write`. "Nothing was
   * done" is then said of the refused request only.
   */
  partial = false;

  constructor(message: string, options: { cause?: unknown } = {}) {
    super(message, options);
    this.name = new.target.name;
  }
}

/** Nothing was done, and the cause will pass: the bridge tries again, after a longer delay each time. */
export class TransientError extends ConnectorError {
  override readonly type = 'transient';
}

/** Nothing was done: the ERP limits the rate of requests. The bridge waits `retryAfterMs` if the ERP named a time. */
export class RateLimited extends ConnectorError {
  override readonly type = 'rate-limited';
  readonly retryAfterMs: number | undefined;

  constructor(message: string, options: { retryAfterMs?: number | undefined; cause?: unknown } = {}) {
    super(message, options);
    this.retryAfterMs = options.retryAfterMs;
  }
}

/**
 * Nothing was done, because of the object itself or of one that it needs: a user works on it in the ERP, or it does not
 * exist yet. The bridge tries again, and does not count the failure towards the circuit breaker.
 */
export class LockedError extends ConnectorError {
  override readonly type = 'locked';
}

/**
 * The ERP refuses this record, and would refuse it again: the bridge makes a dead letter, until the record changes or
 * an operator replays it.
 */
export class DataError extends ConnectorError {
  override readonly type = 'data';
}

/** A user of the ERP has changed the object, and it must not be overwritten: the bridge makes a dead letter. */
export class ConflictError extends ConnectorError {
  override readonly type = 'conflict';
}

/** The ERP refuses the connector's login: the flow pauses until an operator acts. */
export class AuthError extends ConnectorError {
  override readonly type = 'auth';
}

/** A setting, or something in the ERP that every record needs, is wrong: the flow pauses until an operator acts. */
export class ConfigError extends ConnectorError {
  override readonly type = 'config';
}

/** The ERP may have carried the request out or not: the bridge calls `lookup` before it sends anything again. */
export class UnknownOutcome extends ConnectorError {
  override readonly type = 'unknown';
  /** Whether the ERP has answered, so that it works on the request no longer. */
  readonly answered: boolean;

  constructor(message: string, options: { answered?: boolean; cause?: unknown } = {}) {
    super(message, options);
    this.answered = options.answered ?? false;
  }
}
