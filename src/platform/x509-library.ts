import type * as X509Library from '@peculiar/x509';

/**
 * Loads @peculiar/x509 on demand: only the rare start that makes a certificate needs it. Its dependency-injection
 * library does not load without the decorator metadata functions that `reflect-metadata` adds to `Reflect`. Rejects
 * only when a package is not installed.
 */
export async function loadX509(): Promise<typeof X509Library> {
  await import('reflect-metadata');
  return import('@peculiar/x509');
}
