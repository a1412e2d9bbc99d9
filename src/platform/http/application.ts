/**
 * The Express application that every program of ours serves: request ids, timing, compression, health, metrics,
 * problem bodies. Endpoints come as a table (`endpoint.ts`), so that the whole API of a program can be read in one place.
 */
import { randomUUID } from 'node:crypto';
import express, { type Express, type NextFunction, type Request, type Response } from 'express';
import { AppError } from '../errors.ts';
import type { Logger } from '../log.ts';
import { Histogram, type Registry } from '../metrics.ts';
import { compress } from './compress.ts';
import { refuseMethod, sendProblem, toAppError } from './problem.ts';

export interface Application {
  readonly express: Express;
  /** From here on new requests are answered 503 and `/readyz` fails: the server is about to close. */
  beginShutdown(): void;
  /** Adds what answers when nothing else did. Call it after the last route. */
  finish(): void;
}

export interface ApplicationOptions {
  log: Logger;
  registry: Registry;
  /** Named checks of `/readyz`: each rejects when its part is away. */
  readiness: Readonly<Record<string, () => Promise<unknown>>>;
  /** A check that takes longer has failed. */
  readinessTimeoutMs?: number;
}

const readinessTimeoutDefaultMs = 2_000;

declare module 'express-serve-static-core' {
  interface Locals {
    requestId: string;
    /** The route's template, for metrics: never the path itself, whose values have no end. */
    route?: string;
  }
}

export function createApplication(options: ApplicationOptions): Application {
  const { log, registry } = options;
  const app = express();
  app.disable('x-powered-by');
  app.set('query parser', 'simple');
  app.set('case sensitive routing', true);
  let shuttingDown = false;

  const duration = durationHistogram(registry);

  app.use((request, response, next) => {
    const given = request.get('x-request-id');
    response.locals.requestId = given !== undefined && /^[\w.:-]{1,128}$/.test(given) ? given : randomUUID();
    response.setHeader('X-Request-Id', response.locals.requestId);
    const started = performance.now();
    response.on('close', () => {
      const route = response.locals.route ?? 'none';
      duration.observe(
        { method: request.method, route, status: response.statusCode },
        (performance.now() - started) / 1000,
      );
      log.debug(
        { requestId: response.locals.requestId, method: request.method, route, status: response.statusCode },
        'request',
      );
    });
    checkPath(request.path);
    next();
  });
  app.use(compress);

  const probe = (path: string, answer: (response: Response) => Promise<unknown> | void) => {
    app.get(path, async (_request, response) => {
      response.locals.route = path;
      response.setHeader('Cache-Control', 'no-store');
      await answer(response);
    });
    app.all(path, (request, response) => refuseMethod(request, response, path, 'GET, HEAD'));
  };
  probe('/healthz', (response) => void response.json({ status: 'ok' }));
  probe('/readyz', async (response) => {
    const checks = await runChecks(options.readiness, options.readinessTimeoutMs ?? readinessTimeoutDefaultMs);
    const ready = !shuttingDown && Object.values(checks).every((state) => state === 'ok');
    const status = shuttingDown ? 'shutting down' : ready ? 'ready' : 'not ready';
    response.status(ready ? 200 : 503).json({ status, checks });
  });
  probe('/metrics', async (response) => {
    response.type(registry.contentType).send(await registry.metrics());
  });
  app.use((_request, _response, next) => {
    if (shuttingDown) throw new AppError('unavailable', 'The server is shutting down. Send the request again.');
    next();
  });

  return {
    express: app,
    beginShutdown: () => {
      shuttingDown = true;
    },
    finish: () => {
      app.use((request) => {
        throw new AppError('not-found', `There is nothing at ${request.path.slice(0, 200)}.`);
      });
      app.use((error: unknown, _request: Request, response: Response, _next: NextFunction) => {
        const known = toAppError(error);
        const facts = { err: known, requestId: response.locals.requestId, route: response.locals.route };
        if (known.code === 'internal') log.error(facts, 'request failed');
        else if (known.code === 'unavailable' && !shuttingDown) log.warn(facts, 'request could not be served');
        sendProblem(response, known);
      });
    },
  };
}

/** One for a registry, also when a program serves two applications. */
function durationHistogram(registry: Registry): Histogram<'method' | 'route' | 'status'> {
  const name = 'http_request_duration_seconds';
  const known = registry.getSingleMetric(name) as Histogram<'method' | 'route' | 'status'> | undefined;
  return (
    known ??
    new Histogram({
      name,
      help: 'Time from the request to the end of its answer',
      labelNames: ['method', 'route', 'status'],
      buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10],
      registers: [registry],
    })
  );
}

/** Express looks at a path only where a route has a place for a value in it; here every wrong one is answered alike. */
function checkPath(path: string): void {
  try {
    decodeURIComponent(path);
  } catch (cause) {
    throw new AppError('invalid', 'The path is not valid percent-encoded UTF-8.', { cause });
  }
}

/** All at once; one that rejects, throws or hangs has failed, and the others still say how they are. */
async function runChecks(
  checks: ApplicationOptions['readiness'],
  timeoutMs: number,
): Promise<Record<string, 'ok' | 'failed'>> {
  const states = await Promise.all(
    Object.entries(checks).map(async ([name, check]) => {
      const { promise: late, resolve } = Promise.withResolvers<'failed'>();
      const timer = setTimeout(() => resolve('failed'), timeoutMs);
      const state = (async () => check())().then(
        () => 'ok' as const,
        () => 'failed' as const,
      );
      const first = await Promise.race([state, late]);
      clearTimeout(timer);
      return [name, first] as const;
    }),
  );
  return Object.fromEntries(states);
}
