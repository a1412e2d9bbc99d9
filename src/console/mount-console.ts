/** The console: a web application, the JSON API that it uses, and the stream that keeps it live. */
import type { Request } from 'express';
import { createObjectUrls } from '#bridge/flows/object-urls.ts';
import { readStatus } from '#bridge/status/status.ts';
import { type ActionOutcome, type ActionSubject, recordAction } from '#platform/audit-log.ts';
import { timestampNow } from '#platform/clock.ts';
import { AppError, errorText } from '#platform/errors.ts';
import type { Application } from '#platform/http/application.ts';
import { mountEndpoints } from '#platform/http/endpoint.ts';
import { maySeePrices, operatorOf, viewerOf } from './access/viewer.ts';
import { consoleApi } from './api/console-api.ts';
import type { ConsoleApiDeps, ConsoleCaller, ConsoleDeps } from './api/console-call.ts';
import { createLiveStream } from './api/live.ts';
import { withoutPrices } from './api/prices.ts';
import { statusFor } from './api/read-overview.ts';
import { cacheStatus } from './cached-status.ts';
import { mountWebFiles } from './web-files.ts';

const bodyBytesMax = 256 * 1024;

/** Mounts everything; the access check is mounted before it. Call the function that it returns before the server closes. */
export function mountConsole({ express }: Application, deps: ConsoleDeps): () => void {
  const { settings, database, clock } = deps;
  const status = cacheStatus(() => readStatus(database, { settings, now: timestampNow(clock) }), clock);
  const live = createLiveStream({ status, clock, isCurrent: deps.isCurrent });
  express.get('/api/live', (request, response) => {
    response.locals.route = '/api/live';
    viewerOf(response);
    live.open(request, response);
  });
  const note: ConsoleApiDeps['note'] = async (caller, subject) => {
    await record(deps, caller, subject, 'allowed');
    caller.noted.push(subject);
  };
  const api = consoleApi({ ...deps, status, note, urlOf: createObjectUrls(settings.flows) });
  express.get('/status.json', async (_request, response) => {
    response.locals.route = '/status.json';
    const viewer = viewerOf(response);
    const shown = await statusFor({ settings, status }, viewer);
    response.json(maySeePrices(viewer) ? shown : withoutPrices(shown));
  });
  mountEndpoints<ConsoleCaller, ConsoleCaller>(express, api, {
    authenticate: async (request, scopes) => whoAsks(request, scopes),
    around: async ({ caller }, run) => {
      try {
        const answer = await run(caller);
        return maySeePrices(caller) ? answer : { ...answer, body: withoutPrices(answer.body) };
      } catch (error) {
        for (const subject of caller.noted) {
          const details = { ...subject.details, error: errorText(error).slice(0, 500) };
          // The error of the action says more than that of its record.
          await record(deps, caller, { ...subject, details }, 'failed').catch(() => undefined);
        }
        throw error;
      }
    },
    bodyBytesMax,
  });
  mountWebFiles(express);
  return () => live.close();
}

/** What a process without the console's pages has. */
export function mountStatus(
  { express }: Application,
  { settings, database, clock }: Pick<ConsoleDeps, 'settings' | 'database' | 'clock'>,
): () => void {
  const status = cacheStatus(() => readStatus(database, { settings, now: timestampNow(clock) }), clock);
  express.get('/status.json', async (_request, response) => {
    response.locals.route = '/status.json';
    response.json(await status());
  });
  return () => undefined;
}

function record(
  { database, clock }: Pick<ConsoleDeps, 'database' | 'clock'>,
  { name, from }: ConsoleCaller,
  subject: ActionSubject,
  outcome: ActionOutcome,
): Promise<void> {
  const who = { kind: 'user', name } as const;
  return recordAction(database, 'bridge', { who, from, ...subject, when: timestampNow(clock), outcome });
}

function whoAsks(request: Request, scopes: readonly string[]): ConsoleCaller {
  const { res: response } = request;
  if (!response) throw new AppError('internal', 'A request came without its answer.');
  const viewer = scopes.includes('operator') ? operatorOf(response) : viewerOf(response);
  return { ...viewer, from: request.ip ?? null, noted: [] };
}
