/**
 * Where the receiver remembers which notifications it has handled, so that a repeated delivery does nothing. A store
 * that several processes share makes that true for all of them.
 *
 * begin(id) -> new      the handler runs; then finish(id), or after an error abandon(id)
 * begin(id) -> running  another delivery of it is being handled: answered with 503, so that the service tries again
 * begin(id) -> done     answered with 200, without a handler
 *
 * A process that dies between begin and finish leaves `running` for `leaseMs`; the next delivery after that is new. So a
 * handler runs at least once, and twice only if its process died or it took longer than the lease.
 */
import { randomUUID } from 'node:crypto';
import { aPositiveNumber } from './check-options.ts';

export interface NotificationStore {
  /** `token` names this delivery: only the one that began may finish or abandon. */
  begin(id: string, token: string): Promise<'new' | 'running' | 'done'>;
  finish(id: string, token: string): Promise<void>;
  abandon(id: string, token: string): Promise<void>;
}

export interface StoreTimes {
  /** How long a handler may take. Default: one minute. */
  readonly leaseMs?: number;
  /** How long a handled notification is remembered. Default: five days, a day longer than the receiver accepts one. */
  readonly rememberMs?: number;
}

/** The run-time checks of `StoreTimes`. */
export const timeChecks = { leaseMs: aPositiveNumber, rememberMs: aPositiveNumber };

const leaseDefaultMs = 60_000;
const rememberDefaultMs = 5 * 86_400_000;

export function newToken(): string {
  return randomUUID();
}

export function storeTimes({ leaseMs = leaseDefaultMs, rememberMs = rememberDefaultMs }: StoreTimes) {
  return { leaseMs, rememberMs };
}
