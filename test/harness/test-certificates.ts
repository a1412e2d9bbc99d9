import { inject } from 'vitest';
import { createGuardedFetch } from '#platform/guarded-fetch.ts';
import type { LocalCertificates } from '#platform/local-ca.ts';
import { closeAtEnd } from './close-at-end.ts';

/** Certificates for localhost, from an authority that the test programs trust; the same for the whole run. */
export function testCertificates(): LocalCertificates {
  return inject('certificates');
}

let outgoing: ReturnType<typeof createGuardedFetch> | undefined;

/** Outgoing connections that trust the test certificates: the same for a whole test file, as it is slow to make them. */
export function testOutgoing(): ReturnType<typeof createGuardedFetch> {
  if (outgoing) return outgoing;
  const made = createGuardedFetch({ extraCa: testCertificates().caPem });
  outgoing = made;
  closeAtEnd(async () => {
    outgoing = undefined;
    await made.close();
  });
  return made;
}
