/**
 * The Express application that every program of ours serves: request ids, timing, health, metrics, problem bodies.
 * Endpoints come as a table (`endpoint.ts`), so that the whole API of a program can be read in one place.
 */
import { randomUUID } from 'node:crypto';
import express, { type Express, type NextFunction, type Request, type Response } from 'express';
import { AppError } from '../errors.ts';
import type { Logger } from '../log.ts';
import { Histogram, type Registry } from '../metrics.ts';
import { sendProblem, statusOf, toAppError } from './problem.ts';

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
}

declare module 'express-serve-static-core' {
  interface Locals {
    requestId: string;
    /** The route's template, for metrics: never the path itself, whose values have no end. */
    route?: string;
  }
}

export function createApplication({ log, registry, readiness }: ApplicationOptions): Application {
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
    next();
  });

  app.get('/healthz', (_request, response) => {
    response.json({ status: 'ok' });
  });
  app.get('/readyz', async (_request, response) => {
    const checks = await Promise.all(
      Object.entries(readiness).map(async ([name, check]) => [name, await withinTwoSeconds(check)] as const),
    );
    const ready = !shuttingDown && checks.every(([, state]) => state === 'ok');
    response.status(ready ? 200 : 503).json({
      status: shuttingDown ? 'shutting down' : ready ? 'ready' : 'not ready',
      checks: Object.fromEntries(checks),
    });
  });
  app.get('/metrics', async (_request, response) => {
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
        const known = toAppError(fromExpress(error));
        if (statusOf(known) >= 500)
          log.error(
            { err: known, requestId: response.locals.requestId, route: response.locals.route },
            'request failed',
          );
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

/** A path that cannot be decoded is the caller's fault; Express throws its own error for it. */
function fromExpress(error: unknown): unknown {
  if (error instanceof URIError || (error instanceof Error && 'status' in error && error.status === 400))
    return new AppError('invalid', 'The path is not valid percent-encoded UTF-8.', { cause: error });
  return error;
}

async function withinTwoSeconds(check: () => Promise<unknown>): Promise<'ok' | 'failed'> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<'failed'>((resolve) => {
    timer = setTimeout(() => resolve('failed'), 2_000);
  });
  const state = check().then(
    () => 'ok' as const,
    () => 'failed' as const,
  );
  return Promise.race([state, late]).finally(() => clearTimeout(timer));
}
