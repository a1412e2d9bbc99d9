/** An application with the test's own endpoints behind a real listening server, and its log lines. */
import type { Express } from 'express';
import { onTestFinished } from 'vitest';
import { z } from 'zod';
import { AppError } from '#platform/errors.ts';
import { type Application, type ApplicationOptions, createApplication } from '#platform/http/application.ts';
import { type Call, type Endpoint, endpoint, mountEndpoints } from '#platform/http/endpoint.ts';
import { type HttpServer, type ListenOptions, listen } from '#platform/http/server.ts';
import { createLogger } from '#platform/log.ts';
import { Registry } from '#platform/metrics.ts';

export const bodyBytesMax = 1_000;

const note = z.strictObject({ text: z.string().optional(), tags: z.array(z.string()).optional() });

/** What the endpoints were called with, newest last. */
export type Seen = Call<object, unknown, unknown>[];

/**
 * Every endpoint answers with its call: `/notes` reads and takes notes, `/notes/:id` has an id, POST `/touch` no body.
 */
export function noteEndpoints(seen: Seen = []): Endpoint<object>[] {
  const remember = async (call: Call<object, unknown, unknown>, status = 200) => {
    seen.push(call);
    return { status, body: { body: call.body ?? null, params: call.params, query: call.query } };
  };
  return [
    endpoint<object, z.ZodUndefined, z.ZodType>({
      method: 'GET',
      path: '/notes',
      scope: 'read',
      query: z.strictObject({ name: z.string().optional() }),
      handle: (call) => remember(call),
    }),
    endpoint<object, typeof note>({
      method: 'POST',
      path: '/notes',
      scope: 'write',
      body: note,
      handle: (call) => remember(call, 201),
    }),
    endpoint<object>({ method: 'GET', path: '/notes/:id', scope: 'read', handle: (call) => remember(call) }),
    endpoint<object>({ method: 'DELETE', path: '/notes/:id', scope: 'write', handle: async () => ({ status: 204 }) }),
    endpoint<object>({ method: 'POST', path: '/touch', scope: 'write', handle: (call) => remember(call) }),
  ];
}

export interface TestApplication {
  readonly application: Application;
  readonly server: HttpServer;
  readonly url: string;
  readonly registry: Registry;
  /** Log lines so far, parsed. */
  readonly logged: () => Record<string, unknown>[];
}

/**
 * Serves the note endpoints and those that `more` adds; it is closed with the test. The bearer "good" has every scope
 * except "write-not".
 */
export async function startTestApplication(
  options: Partial<ApplicationOptions> & {
    seen?: Seen;
    more?: (app: Express, application: Application) => void;
    listen?: Partial<ListenOptions>;
  } = {},
): Promise<TestApplication> {
  const lines: string[] = [];
  const registry = new Registry();
  const application = createApplication({
    log: createLogger({ name: 'test', level: 'info', destination: { write: (line) => void lines.push(line) } }),
    registry,
    readiness: {},
    ...options,
  });
  mountEndpoints<object, object>(application.express, noteEndpoints(options.seen), {
    authenticate: async (request, scope) => {
      if (request.get('authorization') === undefined) throw new AppError('unauthorized', 'This call needs a key.');
      if (request.get('authorization') !== 'Bearer good')
        throw new AppError('forbidden', `Not the scope "${scope.join()}".`);
      return {};
    },
    around: (request, run) => run(request.caller),
    bodyBytesMax,
  });
  options.more?.(application.express, application);
  application.finish();
  const server = await listen(application.express, { host: '127.0.0.1', port: 0, ...options.listen });
  onTestFinished(() => server.close(0));
  return {
    application,
    server,
    url: server.url,
    registry,
    logged: () => lines.map((line) => JSON.parse(line) as Record<string, unknown>),
  };
}
