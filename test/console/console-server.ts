/** The console alone, on its own database, for tests: the application, its API and its pages, with a viewer of choice. */
import { join } from 'node:path';
import { createSourceClients } from '#bridge/mirror/source/source-clients.ts';
import type { Viewer } from '#console/access/viewer.ts';
import type { ConsoleDeps } from '#console/api/console-call.ts';
import { mountConsole } from '#console/mount-console.ts';
import { systemClock } from '#platform/clock.ts';
import type { Database } from '#platform/database/database.ts';
import { AppError } from '#platform/errors.ts';
import { createApplication } from '#platform/http/application.ts';
import { listen } from '#platform/http/server.ts';
import { silentLogger } from '#platform/log.ts';
import { Registry } from '#platform/metrics.ts';
import { createSecretBox } from '#platform/secrets.ts';
import { closeAtEnd } from '../harness/close-at-end.ts';
import { scratchFolder } from '../harness/scratch-folder.ts';
import { testOutgoing } from '../harness/test-certificates.ts';
import { seededSettings } from './seed-console.ts';

export const operator: Viewer = { name: 'Ada', role: 'operator', flows: 'all' };

export interface ConsoleServer {
  readonly url: string;
  /** Who asks from now on; undefined: a session that has ended. */
  viewer: Viewer | undefined;
}

/** Starts it on a free port; it is closed after the file. */
export async function startConsole(
  database: Database,
  {
    settings = seededSettings,
    fromEnvironment = [],
    reading = database,
    doctor = async () => [
      { name: 'database', level: 'ok', message: 'PostgreSQL answers in 1 ms' },
      { name: 'source main: clock', level: 'warn', message: 'the clocks differ by 4 s', todo: 'Set the clock by NTP.' },
    ],
  }: Partial<Pick<ConsoleDeps, 'settings' | 'fromEnvironment' | 'reading' | 'doctor'>> = {},
): Promise<ConsoleServer> {
  const registry = new Registry();
  const application = createApplication({ log: silentLogger, registry, readiness: {} });
  const { fetch } = testOutgoing();
  const { clientOf } = createSourceClients({ settings, fetch, clock: systemClock, registry });
  const state: Omit<ConsoleServer, 'url'> = { viewer: operator };
  application.express.use((request, response, next) => {
    if (state.viewer) response.locals.viewer = state.viewer;
    else if (request.path.startsWith('/api/'))
      throw new AppError('unauthorized', 'Your session has ended. Log in again.');
    next();
  });
  mountConsole(application, {
    settings,
    fromEnvironment,
    database,
    reading,
    clock: systemClock,
    log: silentLogger,
    dataDir: join(await scratchFolder(), 'data'),
    fetch,
    secrets: createSecretBox(Buffer.alloc(32, 7)),
    clientOf,
    doctor,
  });
  application.finish();
  const server = await listen(application.express, { host: '127.0.0.1', port: 0 });
  closeAtEnd(() => server.close(0));
  return Object.assign(state, { url: server.url });
}
