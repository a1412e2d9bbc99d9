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
  const advice = tlsAdvice(cause);
  const isConfiguration = advice !== undefined || (cause instanceof DatabaseError && /^(28|3D)/.test(cause.code ?? ''));
  return new AppError('unavailable', publicText, {
    message: `Database ${place}: cannot connect: ${reasonOf(cause)}${advice === undefined ? '' : `. ${advice}`}`,
    cause,
    ...(isConfiguration ? { recovery: { do: 'halt' } } : {}),
  });
}

/** What to do about a server's certificate, or about TLS that one side demands; undefined for any other error. */
export function tlsAdvice(error: unknown): string | undefined {
  if (!(error instanceof Error)) return undefined;
  const code = 'code' in error && typeof error.code === 'string' ? error.code : '';
  if (code === 'ERR_TLS_CERT_ALTNAME_INVALID')
    return "Use a host name in the URL that the server's certificate names, or give the server a certificate for this one.";
  if (/^(CERT_|DEPTH_ZERO_|SELF_SIGNED_|UNABLE_TO_)/.test(code))
    return "The server's certificate is not trusted: name the file of its authority with sslrootcert=… in the URL, or renew the certificate.";
  if (/does not support SSL/.test(error.message))
    return 'The URL asks for TLS (sslmode) and the server has none: turn it on there (ssl = on), or set sslmode=disable.';
  if (error instanceof DatabaseError && code === '28000' && /no encryption/.test(error.message))
    return 'The server may demand TLS: set sslmode=verify-full in the URL, with sslrootcert=… for an authority of your own.';
  return undefined;
}

/** Node's error for a host with several addresses has no text of its own. */
function reasonOf(error: unknown): string {
  return error instanceof AggregateError ? error.errors.map(errorText).join('; ') : errorText(error);
}
