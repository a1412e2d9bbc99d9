import { inject } from 'vitest';
import { createGuardedFetch } from '#platform/guarded-fetch.ts';
import type { LocalCertificates } from '#platform/local-ca.ts';
import { closeAfterFile } from './after-file.ts';

/** Certificates for localhost, from an authority that the test programs trust; the same for the whole run. */
export function testCertificates(): LocalCertificates {
  return inject('certificates');
}

/** Outgoing connections that trust the test certificates. */
export function testOutgoing(): ReturnType<typeof createGuardedFetch> {
  const outgoing = createGuardedFetch({ extraCa: testCertificates().caPem });
  closeAfterFile(() => outgoing.close());
  return outgoing;
}
