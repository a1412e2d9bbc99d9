/** The console: a web application, and the JSON API that it uses. */
import type { Request } from 'express';
import { AppError } from '#platform/errors.ts';
import type { Application } from '#platform/http/application.ts';
import { mountEndpoints } from '#platform/http/endpoint.ts';
import { operatorOf, viewerOf } from './access/viewer.ts';
import type { ConsoleCaller, ConsoleDeps } from './api/console-call.ts';
import { createConsoleCalls } from './api/create-console-calls.ts';
import { answerStatus } from './mount-status.ts';
import { mountWebFiles } from './web-files.ts';

const bodyBytesMax = 256 * 1024;

/** Mounts everything; the access check is mounted before it. */
export function mountConsole({ express }: Pick<Application, 'express'>, deps: ConsoleDeps): void {
  const { status, endpoints, answer } = createConsoleCalls(deps);
  answerStatus(express, { settings: deps.settings, status });
  mountEndpoints<ConsoleCaller, ConsoleCaller>(express, endpoints, {
    authenticate: async (request, scopes) => whoAsks(request, scopes),
    around: ({ caller }, run) => answer(caller, () => run(caller)),
    bodyBytesMax,
  });
  mountWebFiles(express);
}

function whoAsks(request: Request, scopes: readonly string[]): ConsoleCaller {
  const { res: response } = request;
  if (!response) throw new AppError('internal', 'A request came without its answer.');
  const viewer = scopes.includes('operator') ? operatorOf(response) : viewerOf(response);
  const left = new AbortController();
  response.once('close', () => {
    if (!response.writableFinished) left.abort(new AppError('unavailable', 'Nobody waits for this answer any more.'));
  });
  const { session } = response.locals;
  const own = session ? { session } : {};
  return { ...viewer, ...own, from: request.ip ?? null, left: left.signal, noted: [] };
}
