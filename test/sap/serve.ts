/**
 * `node test/sap/serve.ts`: runs the stub of SAP S/4HANA, in which a consultant or an author can try settings and
 * mappings, until it is interrupted. It keeps its data in memory.
 */
import { once } from 'node:events';
import { join } from 'node:path';
import { installSapStub } from './install-sap-stub.ts';
import { startMetadataServer } from './metadata-server.ts';
import { login, startSapSystem } from './sap-system.ts';
import { createSuppliers } from './seed-suppliers.ts';

const stub = await installSapStub();
if ('missing' in stub) {
  console.error(`The stub of SAP S/4HANA cannot be made: ${stub.missing}`);
  process.exitCode = 1;
} else {
  const server = await startMetadataServer(stub);
  const system = await startSapSystem(server.url, join(stub.folder, 'metadata'));
  await createSuppliers(system);
  console.log(
    `A stub of SAP S/4HANA at ${system.url}: ${login.user} / ${login.password}, client 100, suppliers V-1 and V-2`,
  );
  await Promise.race([once(process, 'SIGINT'), once(process, 'SIGTERM')]);
  await system.close();
  await server.stop();
}
