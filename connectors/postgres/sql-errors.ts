/** Maps PostgreSQL's errors to ConnectorErrors. Source: PostgreSQL's documentation, "PostgreSQL Error Codes". */

import { DatabaseError } from 'pg';
import {
  AuthError,
  ConfigError,
  ConflictError,
  ConnectorError,
  DataError,
  LockedError,
  TransientError,
} from 'sourcing-bridge/connector';

/**
 * The SQLSTATEs by which a customer's function or trigger says what has to happen next; any other error of theirs
 * refuses the document. Neither the standard nor PostgreSQL will ever use the class SB.
 */
export const ownStates: Readonly<
  Record<string, new (message: string, options: { cause?: unknown }) => ConnectorError>
> = { SB001: TransientError, SB002: LockedError, SB003: ConflictError, SB004: ConfigError };

/** Errors of the connection or the whole server, which a single document cannot cause. */
const serverStates = /^(08|25|53|57|58|XX|F0)/;

/** Whether a single document may be the cause, so that the others could be written without it. */
export function isRefusal(error: unknown): boolean {
  if (error instanceof ConnectorError) return error instanceof DataError;
  return error instanceof DatabaseError && !serverStates.test(error.code ?? 'XX');
}

/** Whether a statement was ended by its time limit or by an administrator: a smaller one may be in time. */
export function isTooSlow(error: unknown): boolean {
  return error instanceof DatabaseError && error.code === '57014';
}

/** Whether this error leaves open what became of a COMMIT; any other error says that the COMMIT failed. */
export function leavesCommitOpen(error: unknown): boolean {
  return !(error instanceof DatabaseError) || (serverStates.test(error.code ?? 'XX') && error.code !== '57014');
}

/** The ConnectorError that says what has to happen next, for an error before which nothing was committed. */
export function connectorErrorOf(error: unknown, targetName: string): ConnectorError {
  if (error instanceof ConnectorError) return error;
  if (!(error instanceof Error)) return new TransientError(String(error));
  const message = messageOf(error, targetName);
  return new (classOf(error))(message, { cause: error });
}

function classOf(error: Error): new (message: string, options: { cause?: unknown }) => ConnectorError {
  if (!(error instanceof DatabaseError)) {
    const { code } = error as NodeJS.ErrnoException;
    // Errors of TLS and of the driver's login do not pass by themselves.
    if (code !== undefined && /CERT|SELF_SIGNED|ISSUER|SSL/.test(code)) return ConfigError;
    if (/does not support SSL/.test(error.message)) return ConfigError;
    if (/SASL|SCRAM|password must be/.test(error.message)) return AuthError;
    return TransientError;
  }
  const state = error.code ?? 'XX000';
  const own = ownStates[state];
  if (own) return own;
  if (state === '55P03') return LockedError;
  if (state === '42501' || state.startsWith('28')) return AuthError;
  if (/^(3D|3F|42|0A)/.test(state)) return ConfigError;
  if (serverStates.test(state) || state.startsWith('40') || state === '55006') return TransientError;
  return DataError;
}

function messageOf(error: Error, targetName: string): string {
  if (!(error instanceof DatabaseError))
    return `PostgreSQL at ${targetName} cannot be used: ${error instanceof AggregateError ? error.errors.map(String).join('; ') : error.message}`;
  const { message, code, detail, hint, where } = error;
  const sentences = [message, detail, hint].filter((text) => text !== undefined && text !== '');
  // The line that names the trigger or function; the other lines are our own statements.
  const context = where?.split('\n').find((text) => /function/i.test(text));
  const tail = [`SQLSTATE ${code}`, ...(context === undefined ? [] : [context])];
  return `PostgreSQL: ${sentences.join('. ')} (${tail.join('; ')})`;
}
