/** The stub of SAP S/4HANA for a test file. If it cannot be made, the file's tests are skipped, and their title says why. */
import { join } from 'node:path';
import { describe } from 'vitest';
import { closeAtEnd } from '../harness/close-at-end.ts';
import { installSapStub } from './install-sap-stub.ts';
import { startMetadataServer } from './metadata-server.ts';
import { type SapSystem, startSapSystem } from './sap-system.ts';
import { createSuppliers } from './seed-suppliers.ts';

const stub = await installSapStub();
if ('missing' in stub)
  // oxlint-disable-next-line no-console -- the developer has to know which tests did not run
  console.warn(`The tests with the stub of SAP S/4HANA are skipped: ${stub.missing}`);

/** Like `describe`; if there is no stub, its tests are skipped, and the title says why. */
export function describeSap(title: string, tests: () => void): void {
  const why = 'missing' in stub ? ` [skipped: ${stub.missing}]` : '';
  // oxlint-disable-next-line vitest/valid-title, vitest/valid-describe-callback -- the caller passes both
  describe.skipIf(why !== '')(title + why, tests);
}

/** Starts a system with some suppliers, and stops it after the test file. Rejects if the stub cannot be made. */
export async function startTestSap(): Promise<SapSystem> {
  if ('missing' in stub) throw new Error(`There is no stub of SAP S/4HANA: ${stub.missing}`);
  const server = await startMetadataServer(stub);
  closeAtEnd(() => server.stop());
  const system = await startSapSystem(server.url, join(stub.folder, 'metadata'));
  closeAtEnd(() => system.close());
  await createSuppliers(system);
  return system;
}
