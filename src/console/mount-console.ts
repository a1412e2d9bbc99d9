/** The console: a web application, the JSON API that it uses, and the stream that keeps it live. */
import type { Request } from 'express';
import { createObjectUrls } from '#bridge/flows/object-urls.ts';
import { readStatus } from '#bridge/status/status.ts';
import { timestampNow } from '#platform/clock.ts';
import { AppError } from '#platform/errors.ts';
import type { Application } from '#platform/http/application.ts';
import { mountEndpoints } from '#platform/http/endpoint.ts';
import { maySeePrices, operatorOf, type Viewer, viewerOf } from './access/viewer.ts';
import { consoleApi } from './api/console-api.ts';
import type { ConsoleDeps } from './api/console-call.ts';
import { createLiveStream } from './api/live.ts';
import { withoutPrices } from './api/prices.ts';
import { cacheStatus } from './cached-status.ts';
import { mountWebFiles } from './web-files.ts';

const bodyBytesMax = 256 * 1024;

/** Mounts everything; the access check is mounted before it. Call the function that it returns before the server closes. */
export function mountConsole({ express }: Application, deps: ConsoleDeps): () => void {
  const { settings, database, clock } = deps;
  const status = cacheStatus(() => readStatus(database, { settings, now: timestampNow(clock) }), clock);
  const live = createLiveStream({ status, clock });
  express.get('/status.json', async (_request, response) => {
    response.locals.route = '/status.json';
    response.json(await status());
  });
  express.get('/api/live', (request, response) => {
    response.locals.route = '/api/live';
    viewerOf(response);
    live.open(request, response);
  });
  mountEndpoints<Viewer, Viewer>(express, consoleApi({ ...deps, status, urlOf: createObjectUrls(settings.flows) }), {
    authenticate: async (request, scopes) => whoAsks(request, scopes),
    around: async ({ caller }, run) => {
      const answer = await run(caller);
      return maySeePrices(caller) ? answer : { ...answer, body: withoutPrices(answer.body) };
    },
    bodyBytesMax,
  });
  mountWebFiles(express);
  return () => live.close();
}

function whoAsks({ res: response }: Request, scopes: readonly string[]): Viewer {
  if (!response) throw new AppError('internal', 'A request came without its answer.');
  return scopes.includes('operator') ? operatorOf(response) : viewerOf(response);
}
