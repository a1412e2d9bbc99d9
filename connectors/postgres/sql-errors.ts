/** What PostgreSQL's errors mean for the bridge. Source: PostgreSQL's documentation, "PostgreSQL Error Codes". */

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
 * What a customer's own function or trigger may raise to say what has to happen next; anything else that it raises is a
 * refusal of the document. The class is one that neither the standard nor PostgreSQL will ever use.
 */
export const ownStates: Readonly<
  Record<string, new (message: string, options: { cause?: unknown }) => ConnectorError>
> = { SB001: TransientError, SB002: LockedError, SB003: ConflictError, SB004: ConfigError };

/** The connection, or the whole server: nothing that one document could be the cause of. */
const ofServer = /^(08|25|53|57|58|XX|F0)/;

/** Whether a document may be the cause, so that others could pass without it. */
export function isRefusal(error: unknown): boolean {
  if (error instanceof ConnectorError) return error instanceof DataError;
  return error instanceof DatabaseError && !ofServer.test(error.code ?? 'XX');
}

/** Whether a statement was ended by its time limit (or by somebody): smaller ones may pass. */
export function isTooSlow(error: unknown): boolean {
  return error instanceof DatabaseError && error.code === '57014';
}

/** Whether nobody knows what became of a COMMIT that was answered by this: any other answer says that it failed. */
export function leavesCommitOpen(error: unknown): boolean {
  return !(error instanceof DatabaseError) || (ofServer.test(error.code ?? 'XX') && error.code !== '57014');
}

/** The error that says what has to happen next; nothing has been committed. */
export function connectorErrorOf(error: unknown, place: string): ConnectorError {
  if (error instanceof ConnectorError) return error;
  if (!(error instanceof Error)) return new TransientError(String(error));
  const message = messageOf(error, place);
  return new (classOf(error))(message, { cause: error });
}

function classOf(error: Error): new (message: string, options: { cause?: unknown }) => ConnectorError {
  if (!(error instanceof DatabaseError)) {
    const { code } = error as NodeJS.ErrnoException;
    // Of TLS, and of the driver's own login: these do not pass by themselves.
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
  if (ofServer.test(state) || state.startsWith('40') || state === '55006') return TransientError;
  return DataError;
}

function messageOf(error: Error, place: string): string {
  if (!(error instanceof DatabaseError))
    return `PostgreSQL at ${place} cannot be used: ${error instanceof AggregateError ? error.errors.map(String).join('; ') : error.message}`;
  const { message, code, detail, hint, where } = error;
  const said = [message, detail, hint].filter((text) => text !== undefined && text !== '');
  // Which trigger or function it was; the rest are our own statements.
  const context = where?.split('\n').find((text) => /function/i.test(text));
  const tail = [`SQLSTATE ${code}`, ...(context === undefined ? [] : [context])];
  return `PostgreSQL: ${said.join('. ')} (${tail.join('; ')})`;
}
