/** The routes of a misbehaving service, on the database of a test service, with a clock that the test moves. */
import { onTestFinished } from 'vitest';
import { type Clock, systemClock } from '#platform/clock.ts';
import type { Database } from '#platform/database/database.ts';
import { createApplication } from '#platform/http/application.ts';
import { listen } from '#platform/http/server.ts';
import { silentLogger } from '#platform/log.ts';
import { Registry } from '#platform/metrics.ts';
import { createKeyAuthentication } from '#service/caller.ts';
import { createRequestCounter } from '#service/limits/count-request.ts';
import { type MisbehaveOptions, misbehave } from '#service/misbehave/misbehave.ts';
import { specProfile } from '#service/profile/spec-profile.ts';
import { createTokenGuard } from '#service/token-guard.ts';

/** Returns the server's URL; it is closed after the test. Keys and rate limits have the real time. */
export async function startMisbehavingServer(
  options: MisbehaveOptions & { database: Database; clock: Clock },
): Promise<string> {
  const { database } = options;
  const ofKeys = { database, clock: systemClock, log: silentLogger, registry: new Registry() };
  const application = createApplication({ ...ofKeys, readiness: {} });
  const tokenGuard = createTokenGuard({ ...ofKeys, metric: 'service_tokens_refused_total', wrongPerSecond: 60 });
  const { close } = misbehave(application.express, {
    ...options,
    fetch: () => Promise.reject(new Error('No notification is sent here.')),
    authenticate: createKeyAuthentication({
      ...ofKeys,
      keyUses: { used: () => undefined },
      accessRecord: { cameIn: () => undefined, refused: () => undefined },
      tokenGuard,
    }),
    count: createRequestCounter({ ...ofKeys, profile: specProfile }),
    publicUrl: undefined,
  });
  application.finish();
  const server = await listen(application.listener, { host: '127.0.0.1', port: 0 });
  onTestFinished(async () => {
    await server.close(0);
    await close();
    await tokenGuard.close();
  });
  return server.url;
}
