/**
 * Which errors mean that the database cannot be reached, and the AppError `unavailable` for them: it holds the place
 * and the driver's error as its cause, and no password.
 */
import { DatabaseError } from 'pg';
import { AppError, errorText } from '#platform/errors.ts';

const publicText = 'The database is not available at the moment; try again shortly.';

/** Whether the error says that the server or the connection to it is gone or has no room. */
export function isConnectionError(error: unknown): boolean {
  if (error instanceof DatabaseError) {
    // 08 connection, 53 out of connections, memory or disk, 57P0x shut down, 57014 timed out, 25006 on a standby, 25P03
    // idle in a transaction for too long.
    return /^(08|53|57P0|57014|25006|25P03)/.test(error.code ?? '');
  }
  if (!(error instanceof Error)) return false;
  if ('syscall' in error) return true;
  // The driver has no error class for these.
  return /Connection terminated|connection error|connection is closed|read timeout|timeout exceeded|Client was closed/i.test(
    error.message,
  );
}

/** The `unavailable` AppError of a connection that broke while it was used; the caller may try again. */
export function connectionLost(place: string, cause: unknown, what = 'the connection was lost'): AppError {
  return new AppError('unavailable', publicText, { message: `Database ${place}: ${what}: ${reasonOf(cause)}`, cause });
}

/**
 * The `unavailable` AppError of a connection that could not be made. Its recovery is `halt` for a refused login or a
 * missing database: trying again does not help, an operator must change the settings.
 */
export function cannotConnect(place: string, cause: unknown): AppError {
  const isConfiguration = cause instanceof DatabaseError && /^(28|3D)/.test(cause.code ?? '');
  return new AppError('unavailable', publicText, {
    message: `Database ${place}: cannot connect: ${reasonOf(cause)}`,
    cause,
    ...(isConfiguration ? { recovery: { do: 'halt' } } : {}),
  });
}

/** Node's error for a host with several addresses has no text of its own. */
function reasonOf(error: unknown): string {
  return error instanceof AggregateError ? error.errors.map(errorText).join('; ') : errorText(error);
}
