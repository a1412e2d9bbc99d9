/**
 * The Express application that every program of this project serves: request ids, timing, compression, health, metrics,
 * problem bodies. Endpoints are mounted as a table (`endpoint.ts`), so that the whole API of a program is in one place.
 */
import { randomUUID } from 'node:crypto';
import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import express, { type Express, type NextFunction, type Request, type Response } from 'express';
import { AppError } from '../errors.ts';
import type { Logger } from '../log.ts';
import { Histogram, type Registry } from '../metrics.ts';
import { createThrottledWarnings } from '../throttled-warnings.ts';
import { compress } from './compress.ts';
import { allowOrigins, type CorsOptions } from './cors.ts';
import { allowHosts } from './hosts.ts';
import { addProbes, type ProbeOptions } from './probes.ts';
import { type ErrorAnswer, sendProblem, toAppError } from './problem.ts';

export interface Application {
  readonly express: Express;
  /** The server's request listener: serves the direct routes itself, and all others by Express. */
  readonly listener: RequestListener;
  /** Adds a route that is served without Express. */
  addDirect(route: DirectRoute): void;
  /** From now on new requests are answered 503 and `/readyz` fails: the server is about to close. */
  beginShutdown(): void;
  /** Adds the answers for unknown paths and for errors. Call it after the last route. */
  finish(): void;
}

/**
 * A path that is served on node:http itself: it is called so often that Express would be most of its cost. The rest is
 * the same: request id, timing, refusal during shutdown, and problem bodies for errors.
 */
export interface DirectRoute {
  /** The beginning of its paths, such as `/webhooks/`; one more segment follows. */
  readonly prefix: string;
  /** The template, for metrics: `/webhooks/:source`. */
  readonly route: string;
  /**
   * Answers any method; `segment` is the last part of the path, decoded. An error becomes the answer. The answer's header
   * `X-Request-Id` is the handler's, because Node writes headers that are given at once much faster than single ones.
   */
  handle(
    request: IncomingMessage,
    response: ServerResponse,
    call: { segment: string; requestId: string },
  ): Promise<void>;
}

export interface ApplicationOptions extends ProbeOptions {
  log: Logger;
  /** Which pages of other origins may call which paths; default: none. */
  cors?: CorsOptions;
  /** The names under which the port answers; default: any. See `allowHosts`. */
  hosts?: { names: readonly string[]; setting: string };
  /** The answer to an error at this path, where it is not a problem detail. */
  errorForm?: ((error: AppError, path: string) => ErrorAnswer | undefined) | undefined;
  /** Whether `X-Forwarded-For` and `X-Forwarded-Proto` of this address are believed; default: of none. */
  trustsProxy?: ((address: string) => boolean) | undefined;
}

declare module 'express-serve-static-core' {
  interface Locals {
    requestId: string;
    /** The route's template, for metrics. Never the path itself, which would make a new metric for each value. */
    route?: string;
  }
}

/** Creates the application; mount the endpoints on `express`, then call `finish`. */
export function createApplication(options: ApplicationOptions): Application {
  const { log, registry } = options;
  const app = express();
  app.disable('x-powered-by');
  app.set('query parser', 'simple');
  app.set('case sensitive routing', true);
  app.set('trust proxy', options.trustsProxy ?? false);
  let shuttingDown = false;

  const warn = createThrottledWarnings(log);
  const duration = durationHistogram(registry);
  const direct: DirectRoute[] = [];

  /** Measures a request that was answered. */
  const end = (request: IncomingMessage, response: ServerResponse, facts: RequestFacts): void => {
    const { method = '' } = request;
    const { requestId, route, startedMs } = facts;
    const status = response.statusCode;
    duration.observe({ method, route, status }, (performance.now() - startedMs) / 1000);
    if (log.isLevelEnabled('debug')) log.debug({ requestId, method, route, status }, 'request');
  };
  const refuseDuringShutdown = () => {
    if (shuttingDown) throw new AppError('unavailable', 'The server is shutting down. Send the request again.');
  };
  const answerError = (
    error: unknown,
    response: ServerResponse,
    facts: { requestId: string; route?: string },
    path?: string,
  ) => {
    const err = toAppError(error);
    if (err.code === 'internal') log.error({ err, ...facts }, 'request failed');
    // One for each route in a second: while the database is away, each request has the same reason.
    else if (err.code === 'unavailable' && !shuttingDown)
      warn(facts.route ?? 'none', { err, ...facts }, 'request could not be served');
    sendProblem(response, err, path === undefined ? undefined : options.errorForm?.(err, path));
  };
  const serveDirect = async (found: FoundDirect, request: IncomingMessage, response: ServerResponse) => {
    const { route, segment } = found;
    const facts = { requestId: requestIdOf(request), route: route.route, startedMs: performance.now() };
    const { requestId } = facts;
    try {
      refuseDuringShutdown();
      await route.handle(request, response, { segment, requestId });
    } catch (error) {
      response.setHeader('X-Request-Id', requestId);
      answerError(error, response, { requestId, route: route.route });
    }
    // Its short answer is on its way. To wait for the end of it would cost a listener for each request.
    end(request, response, facts);
  };

  app.use((request, response, next) => {
    const requestId = requestIdOf(request);
    const startedMs = performance.now();
    response.on('close', () =>
      end(request, response, { requestId, route: response.locals.route ?? 'none', startedMs }),
    );
    response.locals.requestId = requestId;
    response.setHeader('X-Request-Id', requestId);
    checkPath(request.path);
    next();
  });
  if (options.hosts) app.use(allowHosts(options.hosts));
  if (options.cors) app.use(allowOrigins(options.cors));
  app.use(compress);

  addProbes(app, options, () => shuttingDown);
  app.use((_request, _response, next) => {
    refuseDuringShutdown();
    next();
  });

  return {
    express: app,
    listener: (request, response) => {
      const found = findDirect(direct, request.url ?? '');
      if (found) void serveDirect(found, request, response);
      else app(request, response);
    },
    addDirect: (route) => void direct.push(route),
    beginShutdown: () => {
      shuttingDown = true;
    },
    finish: () => {
      app.use((request) => {
        throw new AppError('not-found', `There is nothing at ${request.path.slice(0, 200)}.`);
      });
      app.use((error: unknown, request: Request, response: Response, _next: NextFunction) => {
        const { requestId, route } = response.locals;
        answerError(error, response, { requestId, ...(route === undefined ? {} : { route }) }, request.path);
      });
    },
  };
}

function requestIdOf({ headers }: IncomingMessage): string {
  const given = headers['x-request-id'];
  return typeof given === 'string' && /^[\w.:-]{1,128}$/.test(given) ? given : randomUUID();
}

interface RequestFacts {
  readonly requestId: string;
  readonly route: string;
  readonly startedMs: number;
}

interface FoundDirect {
  readonly route: DirectRoute;
  readonly segment: string;
}

/**
 * Matches as Express would: also with a query or a slash after the segment. Express answers a path that cannot be
 * decoded.
 */
function findDirect(routes: readonly DirectRoute[], url: string): FoundDirect | undefined {
  const target = url.startsWith('/') ? url : (URL.parse(url)?.pathname ?? '');
  for (const route of routes) {
    if (!target.startsWith(route.prefix)) continue;
    const query = target.indexOf('?', route.prefix.length);
    const end = query < 0 ? target.length : query;
    const text = target.slice(route.prefix.length, target[end - 1] === '/' ? end - 1 : end);
    if (text === '' || text.includes('/')) continue;
    try {
      return { route, segment: text.includes('%') ? decodeURIComponent(text) : text };
    } catch {
      return undefined;
    }
  }
  return undefined;
}

/** One histogram for a registry, also when a program serves two applications. */
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

/** Express decodes a path only where a route has a parameter; this refuses every invalid path with the same answer. */
function checkPath(path: string): void {
  try {
    decodeURIComponent(path);
  } catch (cause) {
    throw new AppError('invalid', 'The path is not valid percent-encoded UTF-8.', { cause });
  }
}
