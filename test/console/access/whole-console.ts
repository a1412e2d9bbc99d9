/** The console as a program runs it: the real access check before the real pages and API, on a free port. */
import { createSourceClients } from '#bridge/mirror/source/source-clients.ts';
import { createConsoleAccess } from '#console/access/console-access.ts';
import { mountConsole } from '#console/mount-console.ts';
import { systemClock } from '#platform/clock.ts';
import type { Database } from '#platform/database/database.ts';
import { createApplication } from '#platform/http/application.ts';
import { listen } from '#platform/http/server.ts';
import { silentLogger } from '#platform/log.ts';
import { Registry } from '#platform/metrics.ts';
import { createSecretBox } from '#platform/secrets.ts';
import { closeAtEnd } from '../../harness/close-at-end.ts';
import { testOutgoing } from '../../harness/test-certificates.ts';
import { seededSettings } from '../seed-console.ts';

/** Starts it and returns its URL; it is closed after the file. */
export async function startWholeConsole(database: Database): Promise<string> {
  const registry = new Registry();
  const { fetch } = testOutgoing();
  const shared = { settings: seededSettings, database, clock: systemClock, log: silentLogger };
  const secrets = createSecretBox(Buffer.alloc(32, 7));
  const access = createConsoleAccess({ ...shared, secrets, registry });
  const application = createApplication({ log: silentLogger, registry, readiness: {} });
  await access.mount(application);
  const { clientOf } = createSourceClients({ ...shared, fetch, registry });
  mountConsole(application, {
    ...shared,
    reading: database,
    fromEnvironment: [],
    dataDir: '/nowhere',
    fetch,
    secrets,
    clientOf,
  });
  application.finish();
  const server = await listen(application.listener, { host: '127.0.0.1', port: 0 });
  closeAtEnd(() => server.close(0));
  return server.url;
}
