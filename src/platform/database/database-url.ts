/** Reading a `postgres://` URL, and naming the database in it without its password. */
import { AppError } from '#platform/errors.ts';

/**
 * Reads a `postgres://` URL. Throws an `internal` AppError that does not repeat the URL, since it may hold a password.
 */
export function parseDatabaseUrl(text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url?.protocol === 'postgres:' || url?.protocol === 'postgresql:') return url;
  throw new AppError(
    'internal',
    'The database URL cannot be read. It must look like postgres://user:password@host:5432/database, and characters ' +
      'such as @ / # ? in the password must be percent-encoded.',
  );
}

/** `host:port/database`, for messages. */
export function databasePlace(url: URL): string {
  return `${url.host || url.searchParams.get('host') || 'localhost'}${url.pathname}`;
}
