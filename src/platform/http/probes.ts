/** The paths that monitoring calls: `/healthz`, `/readyz` and `/metrics`. They also answer during the shutdown. */
import type { Express, Request, Response } from 'express';
import { AppError } from '../errors.ts';
import type { Registry } from '../metrics.ts';
import { within } from '../within.ts';
import { refuseMethod } from './problem.ts';

export interface ProbeOptions {
  registry: Registry;
  /** Named checks of `/readyz`: each rejects when its part is not available. */
  readiness: Readonly<Record<string, () => Promise<unknown>>>;
  /**
   * `health`: only /healthz, for a port that strangers reach. The other two reveal much and cost work, and behind a proxy
   * a request does not tell where it comes from.
   */
  probes?: 'all' | 'health';
  /** Throws the refusal of a request for `/metrics`; default: every request may have them. */
  guardMetrics?: (request: Request) => void;
  /** A check that takes longer counts as failed (default 2 s). */
  readinessTimeoutMs?: number;
}

const readinessTimeoutDefaultMs = 2_000;

/** Adds the three routes. `/readyz` answers 503 when a check fails, and from the beginning of the shutdown on. */
export function addProbes(app: Express, options: ProbeOptions, isShuttingDown: () => boolean): void {
  const { registry, readiness, readinessTimeoutMs = readinessTimeoutDefaultMs } = options;
  const add = (path: string, answer: (response: Response, request: Request) => Promise<unknown> | void) => {
    if (options.probes === 'health' && path !== '/healthz') return;
    app.get(path, async (request, response) => {
      response.locals.route = path;
      response.setHeader('Cache-Control', 'no-store');
      await answer(response, request);
    });
    app.route(path).all((request, response) => refuseMethod(request, response, path, 'GET, HEAD'));
  };
  add('/healthz', (response) => void response.json({ status: 'ok' }));
  add('/readyz', async (response) => {
    const { checks, reasons } = await runChecks(readiness, readinessTimeoutMs);
    const ready = !isShuttingDown() && Object.values(checks).every((state) => state === 'ok');
    const status = isShuttingDown() ? 'shutting down' : ready ? 'ready' : 'not ready';
    response
      .status(ready ? 200 : 503)
      .json({ status, checks, ...(Object.keys(reasons).length > 0 ? { reasons } : {}) });
  });
  add('/metrics', async (response, request) => {
    options.guardMetrics?.(request);
    response.type(registry.contentType).send(await registry.metrics());
  });
}

/**
 * Runs all checks at once. A check that rejects, throws or hangs has failed; the others still report their state. Only the
 * reasons that are meant for others are shown.
 */
async function runChecks(checks: ProbeOptions['readiness'], timeoutMs: number) {
  const reasons: Record<string, string> = {};
  const runOne = async (name: string, check: () => Promise<unknown>): Promise<'ok' | 'failed'> => {
    try {
      await within(timeoutMs, (async () => check())());
      return 'ok';
    } catch (error) {
      if (error instanceof AppError) reasons[name] = error.publicMessage;
      return 'failed';
    }
  };
  const states = await Promise.all(
    Object.entries(checks).map(async ([name, check]) => [name, await runOne(name, check)] as const),
  );
  return { checks: Object.fromEntries(states), reasons };
}
