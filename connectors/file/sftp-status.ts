/** Status codes of SFTP (draft-ietf-secsh-filexfer-02, section 7), and the ConnectorErrors that they become. */
import { ConfigError, type ConnectorError, DataError, TransientError } from 'sourcing-bridge/connector';

export const endOfFile = 1;
export const noSuchFile = 2;
const permissionDenied = 3;
const failure = 4;
const badMessage = 5;
export const unsupported = 8;

/** The status that the server answered; undefined for a request that ended without an answer. */
export function statusOf(error: unknown): number | undefined {
  return error instanceof Error && 'code' in error && typeof error.code === 'number' ? error.code : undefined;
}

/** The result, or `instead` when the server answers that there is no such file. */
export async function unlessMissing<T>(result: Promise<T>, instead: T): Promise<T>;
export async function unlessMissing<T>(result: Promise<T>, instead: undefined): Promise<T | undefined>;
export async function unlessMissing<T>(result: Promise<T>, instead: T | undefined): Promise<T | undefined> {
  return result.catch((error: unknown) => {
    if (statusOf(error) === noSuchFile) return instead;
    throw error;
  });
}

/** Returns false when the server does not support the request; rethrows any other error. */
export function unlessUnsupported(error: unknown): false {
  if (statusOf(error) === unsupported) return false;
  throw error;
}

/** The error of a request for `path` in the folder `place`: for settings that are wrong, a name, or an outage. */
export function connectorErrorOf(cause: unknown, path: string, place: string): ConnectorError {
  const message = cause instanceof Error ? cause.message : String(cause);
  switch (statusOf(cause)) {
    case noSuchFile:
      return new ConfigError(
        `There is no folder for ${path} in ${place}: create it, or correct settings.directory (${message}).`,
        { cause },
      );
    case permissionDenied:
      return new ConfigError(
        `${path} in ${place} may not be written or read: grant the user the right to do so (${message}).`,
        { cause },
      );
    case badMessage:
      return new DataError(`The server refuses the name ${path}: ${message}`, { cause });
    case failure:
      return new TransientError(`${place} fails at ${path} (${message}): is its disk full?`, { cause });
    default:
      return new TransientError(`${place} fails at ${path}: ${message}`, { cause });
  }
}
